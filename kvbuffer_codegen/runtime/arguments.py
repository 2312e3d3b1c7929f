"""Arguments that several public calls share: what is accepted, and what is said otherwise."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import torch

from kvbuffer_codegen.ir.forms import DTYPES, FORMS, STATES, KernelSpec, cursor_spec
from kvbuffer_codegen.ir.language import Recurrence
from kvbuffer_codegen.ir.normal_form import NormalForm
from kvbuffer_codegen.ir.recurrences import RECURRENCES
from kvbuffer_codegen.recurrences import RecurrenceError, load_recurrence
from kvbuffer_codegen.runtime.errors import shown

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
    rounding: str = "nearest",
    tree: bool = False,
) -> KernelSpec:
    """The spec that the names of the public API describe; ``advance`` and the commits need ``form`` and ``rounding``
    alone. Raises ``ValueError`` for what no kernel can be."""
    words(form=form, layout=layout, records=records, rounding=rounding)
    if form in FORMS and FORMS[form].cursors_only:
        return cursor_spec(form, rounding)
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
        rounding,
        tree,
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
        f"recurrence={shown(recurrence)}; accepted: {', '.join(RECURRENCES)}, path.py:function, or a Recurrence or "
        "NormalForm of your own"
    )


def head_counts(heads: tuple[int, int]) -> tuple[int, int]:
    H, HV = _two(heads, "heads", "(H, HV), H key heads and HV value heads, HV a multiple of H")
    if H > 0 and HV > 0 and HV % H == 0:
        return H, HV
    raise ValueError(f"heads={shown(heads)}; accepted: (H, HV), H key heads and HV value heads, HV a multiple of H")


def channel_counts(dims: tuple[int, int]) -> tuple[int, int]:
    return _two(dims, "dims", "(K, V), the key and value channels of a head")


def _two(numbers: tuple[int, int], argument: str, accepted: str) -> tuple[int, int]:
    if isinstance(numbers, Sequence) and len(numbers) == 2 and all(type(n) is int for n in numbers):
        return numbers[0], numbers[1]
    raise ValueError(f"{argument}={shown(numbers)}; accepted: {accepted}")


def whole(number: int, argument: str, least: int = 0) -> int:
    if type(number) is int and least <= number < 2**31:  # True is an int, too
        return number
    raise ValueError(f"{argument}={shown(number)}; accepted: a whole number from {least} to {2**31 - 1}")


def several(numbers: int | Sequence[int], argument: str, least: int = 0) -> list[int]:
    """A whole number, or some."""
    if isinstance(numbers, int):
        return [whole(numbers, argument, least)]
    if not isinstance(numbers, Sequence) or isinstance(numbers, str | bytes):
        raise ValueError(f"{argument}={shown(numbers)}; accepted: a whole number, or a list of them")
    return [whole(number, argument, least) for number in numbers]


def words(**given: str) -> None:
    """Refuses by name what is no text, before it is looked for among the accepted ones: an array has no equal."""
    for name, value in given.items():
        if not isinstance(value, str):
            raise ValueError(f"{name}={shown(value)}; accepted: a str")


def flags(**given: bool) -> None:
    for name, value in given.items():
        if not isinstance(value, bool):
            raise ValueError(f"{name}={shown(value)}; accepted: True, False")


def batch_of(slots: torch.Tensor) -> int:
    if not isinstance(slots, torch.Tensor) or slots.dim() != 1:
        given = f"a tensor of shape {tuple(slots.shape)}" if isinstance(slots, torch.Tensor) else shown(slots)
        raise TypeError(f"slots is {given}; accepted: an int32 or int64 tensor [B]")
    return slots.shape[0]


def tensors(**given: object) -> None:
    """Refuses by name what is no tensor, before torch's operators do without it."""
    for name, x in given.items():
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"{name} is {shown(x)}; accepted: a tensor")


def pool_device(device: torch.device | str | None) -> torch.device:
    """``device``, or torch's default one, where it is here and kernels can run on it."""
    try:
        made = torch.empty(0, device=None if device is None else device_of(device)).device
    except (RuntimeError, AssertionError) as error:  # an AssertionError: torch without CUDA
        reason = (str(error).splitlines() or [""])[0]
        raise ValueError(f"device={shown(device)}; accepted: cpu, or a cuda device that torch has ({reason})") from None
    return device_of(made)


def device_of(device: torch.device | str) -> torch.device:
    try:
        made = torch.device(device)
    except (RuntimeError, TypeError, ValueError):
        made = None
    if made is None or made.type not in ("cpu", "cuda"):
        raise ValueError(f"device={shown(device)}; accepted: cpu, cuda, cuda:0 and so on")
    return made


def folder_of(artifact: Path | str) -> Path:
    if isinstance(artifact, str | os.PathLike):
        return Path(artifact)
    raise TypeError(f"artifact={shown(artifact)}; accepted: an Artifact, or the folder of one")


def dtype_name(dtype: torch.dtype | str, argument: str) -> str:
    name = str(dtype).removeprefix("torch.")
    accepted = STATES if argument == "state" else DTYPES
    if name not in accepted:
        raise ValueError(f"{argument}={shown(dtype)}; accepted: {', '.join(f'torch.{n}' for n in accepted)}")
    return name
