"""Arguments that several public calls share: what is accepted, and what is said otherwise."""

from __future__ import annotations

import torch

from kvbuffer_codegen.ir.forms import DTYPES, FORMS, KernelSpec, cursor_spec
from kvbuffer_codegen.ir.language import Recurrence
from kvbuffer_codegen.ir.normal_form import NormalForm
from kvbuffer_codegen.ir.recurrences import RECURRENCES

TORCH_DTYPES = {name: getattr(torch, name) for name in DTYPES}


def kernel_spec(
    *,
    form: str,
    recurrence: str | Recurrence | NormalForm | None = None,
    heads: tuple[int, int] = (1, 1),
    dims: tuple[int, int] = (0, 0),
    io: torch.dtype | str = "bfloat16",
    state: torch.dtype | str = "float32",
    buffer: int = 16,
    window: int = 0,
    kv_only: int = 0,
    layout: str = "VK",
    records: str = "exact",
) -> KernelSpec:
    """The spec that the names of the public API describe; ``advance`` and ``commit`` need ``form`` alone. Raises
    ``ValueError`` for what no kernel can be."""
    if form in FORMS and FORMS[form].cursors_only:
        return cursor_spec(form)
    H, HV = head_counts(heads)
    K, V = dims
    return KernelSpec(
        form,
        normal_form(recurrence),
        K,
        V,
        HV // H,
        dtype_name(io, "io"),
        dtype_name(state, "state"),
        records,
        layout,
        buffer,
        window,
        kv_only,
    )


def normal_form(recurrence: str | Recurrence | NormalForm | None) -> NormalForm:
    if isinstance(recurrence, NormalForm):
        return recurrence
    if isinstance(recurrence, Recurrence):
        return recurrence.normal_form
    if isinstance(recurrence, str) and recurrence in RECURRENCES:
        return RECURRENCES[recurrence].normal_form
    raise ValueError(
        f"recurrence={recurrence!r}; accepted: {', '.join(RECURRENCES)}, or a Recurrence or NormalForm of your own"
    )


def head_counts(heads: tuple[int, int]) -> tuple[int, int]:
    if len(heads) == 2 and all(isinstance(n, int) and n > 0 for n in heads) and heads[1] % heads[0] == 0:
        return heads[0], heads[1]
    raise ValueError(f"heads={heads!r}; accepted: (H, HV), H key heads and HV value heads, HV a multiple of H")


def dtype_name(dtype: torch.dtype | str, argument: str) -> str:
    name = str(dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise ValueError(f"{argument}={dtype!r}; accepted: {', '.join(f'torch.{n}' for n in DTYPES)}")
    return name
