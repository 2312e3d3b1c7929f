"""Arguments that several public calls share: what is accepted, and what is said otherwise."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from kvbuffer_codegen.ir.forms import DTYPES, FORMS, STATES, KernelSpec, cursor_spec
from kvbuffer_codegen.ir.language import Recurrence
from kvbuffer_codegen.ir.normal_form import NormalForm
from kvbuffer_codegen.ir.recurrences import RECURRENCES
from kvbuffer_codegen.recurrences import RecurrenceError, load_recurrence

TORCH_DTYPES = {name: getattr(torch, name) for name in STATES}


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
    K, V = channel_counts(dims)
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
        whole(buffer, "buffer"),
        whole(window, "window"),
        whole(kv_only, "kv_only"),
    )


def normal_form(recurrence: str | Recurrence | NormalForm | None) -> NormalForm:
    if isinstance(recurrence, NormalForm):
        return recurrence
    if isinstance(recurrence, Recurrence):
        return recurrence.normal_form
    if isinstance(recurrence, str):
        try:
            return load_recurrence(recurrence).normal_form
        except RecurrenceError as error:
            raise ValueError(f"recurrence={recurrence!r}: {error}") from None
    raise ValueError(
        f"recurrence={recurrence!r}; accepted: {', '.join(RECURRENCES)}, path.py:function, or a Recurrence or "
        "NormalForm of your own"
    )


def head_counts(heads: tuple[int, int]) -> tuple[int, int]:
    H, HV = _two(heads, "heads", "(H, HV), H key heads and HV value heads, HV a multiple of H")
    if H > 0 and HV > 0 and HV % H == 0:
        return H, HV
    raise ValueError(f"heads={heads!r}; accepted: (H, HV), H key heads and HV value heads, HV a multiple of H")


def channel_counts(dims: tuple[int, int]) -> tuple[int, int]:
    return _two(dims, "dims", "(K, V), the key and value channels of a head")


def _two(numbers: tuple[int, int], argument: str, accepted: str) -> tuple[int, int]:
    if isinstance(numbers, Sequence) and len(numbers) == 2 and all(type(n) is int for n in numbers):
        return numbers[0], numbers[1]
    raise ValueError(f"{argument}={numbers!r}; accepted: {accepted}")


def whole(number: int, argument: str, least: int = 0) -> int:
    if type(number) is int and number >= least:  # True is an int, too
        return number
    raise ValueError(f"{argument}={number!r}; accepted: a whole number from {least}")


def batch_of(slots: torch.Tensor) -> int:
    if not isinstance(slots, torch.Tensor) or slots.dim() != 1:
        given = f"a tensor of shape {tuple(slots.shape)}" if isinstance(slots, torch.Tensor) else repr(slots)
        raise TypeError(f"slots is {given}; accepted: an int32 or int64 tensor [B]")
    return slots.shape[0]


def tensors(**given: object) -> None:
    """Refuses by name what is no tensor, before torch's operators do without it."""
    for name, x in given.items():
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"{name} is {x!r}; accepted: a tensor")


def pool_device(device: torch.device | str | None) -> torch.device:
    """``device``, or torch's default one, where it is here and kernels can run on it."""
    try:
        made = torch.empty(0, device=device).device
    except (RuntimeError, AssertionError, TypeError) as error:  # an AssertionError: torch without CUDA
        reason = (str(error).splitlines() or [""])[0]
        raise ValueError(f"device={device!r}; accepted: cpu, or a cuda device that torch has ({reason})") from None
    if made.type not in ("cpu", "cuda"):
        raise ValueError(f"device={device!r}; accepted: cpu, cuda")
    return made


def dtype_name(dtype: torch.dtype | str, argument: str) -> str:
    name = str(dtype).removeprefix("torch.")
    accepted = STATES if argument == "state" else DTYPES
    if name not in accepted:
        raise ValueError(f"{argument}={dtype!r}; accepted: {', '.join(f'torch.{n}' for n in accepted)}")
    return name
