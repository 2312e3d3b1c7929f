"""The forms as torch operators, `torch.ops.kvbuffer_codegen.decode` and so on: what compiled models and graphs hold.

An operator takes the name of a kernel that this process has registered, then the tensors in groups of the kernel's
signature. Everything that a kernel may write is marked as mutated (cursors take faults), so that `torch.compile` keeps
order and aliasing; nothing is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

_LAYER = "Tensor(a!) state, Tensor(b!)[] records, Tensor(c!) cursors, Tensor slots, Tensor rings"
_CURSORS = "int buffer, int kv_only, int ring"
_PATH = "Tensor accepted, Tensor path, Tensor parents"

SCHEMAS = {
    "decode": f"(str kernel, {_LAYER}, Tensor[] inputs, Tensor(d!) out) -> ()",
    "step": f"(str kernel, {_LAYER}, Tensor[] inputs, Tensor(d!) out) -> ()",
    "verify": f"(str kernel, {_LAYER}, Tensor lengths, Tensor[] inputs, Tensor(d!) out, Tensor? parents=None) -> ()",
    "flush": f"(str kernel, {_LAYER}, Tensor[] inputs, Tensor? dst=None) -> ()",
    "advance": f"(str kernel, Tensor(a!) cursors, Tensor slots, int form, {_CURSORS}) -> ()",
    "commit": f"(str kernel, Tensor(a!) cursors, Tensor slots, Tensor accepted, {_CURSORS}) -> ()",
    "compact": f"(str kernel, Tensor(a!)[] records, Tensor cursors, Tensor slots, Tensor rings, {_PATH}) -> ()",
    "commit_path": f"(str kernel, Tensor(a!) cursors, Tensor slots, {_PATH}, {_CURSORS}) -> ()",
}


class _Kernels(dict[str, Callable[..., None]]):
    """By name; a missing one is a ``KeyError`` that says what to do."""

    def __missing__(self, name: str) -> Callable[..., None]:
        raise KeyError(
            f"kernel {name!r} is not loaded in this process; a compiled graph needs the pool or load_kernel call that "
            "loads it to run first"
        )


_kernels = _Kernels()


def register(name: str, kernel: Callable[..., None]) -> str:
    """Make ``kernel`` callable through the operators as ``name``, which is returned."""
    _kernels[name] = kernel
    return name


def _token(
    name: str,
    state: Tensor,
    records: Sequence[Tensor],
    cursors: Tensor,
    slots: Tensor,
    rings: Tensor,
    inputs: Sequence[Tensor],
    out: Tensor,
) -> None:
    _kernels[name](state, *records, cursors, slots, rings, *inputs, out)


def _verify(
    name: str,
    state: Tensor,
    records: Sequence[Tensor],
    cursors: Tensor,
    slots: Tensor,
    rings: Tensor,
    lengths: Tensor,
    inputs: Sequence[Tensor],
    out: Tensor,
    parents: Tensor | None = None,
) -> None:
    tree = () if parents is None else (parents,)
    _kernels[name](state, *records, cursors, slots, rings, lengths, *tree, *inputs, out)


def _flush(
    name: str,
    state: Tensor,
    records: Sequence[Tensor],
    cursors: Tensor,
    slots: Tensor,
    rings: Tensor,
    inputs: Sequence[Tensor],
    dst: Tensor | None = None,
) -> None:
    target = () if dst is None else (dst,)
    _kernels[name](state, *records, cursors, slots, rings, *target, *inputs)


def _compact(name: str, records: Sequence[Tensor], *rest: Tensor) -> None:
    _kernels[name](*records, *rest)


def _cursors(name: str, *arguments: Any) -> None:
    _kernels[name](*arguments)


def _fake_of(implementation: Callable[..., None]) -> Callable[..., None]:
    """Shapes are the caller's: nothing is made. A tensor on the meta device that nothing traces would make the call do
    nothing, and is refused as the kernel would."""

    def fake(*arguments: Any) -> None:
        flat = [x for a in arguments for x in (a if isinstance(a, list | tuple) else (a,))]
        if any(type(x) is Tensor and x.is_meta for x in flat):
            implementation(*arguments)

    return fake


_IMPLEMENTATIONS: dict[str, Callable[..., None]] = {
    "decode": _token,
    "step": _token,
    "verify": _verify,
    "flush": _flush,
    "advance": _cursors,
    "commit": _cursors,
    "compact": _compact,
    "commit_path": _cursors,
}

_library = torch.library.Library("kvbuffer_codegen", "DEF")
for _form, _schema in SCHEMAS.items():
    _library.define(_form + _schema, tags=(torch.Tag.pt2_compliant_tag, torch.Tag.needs_exact_strides))
    for _key in ("CPU", "CUDA", "SparseCPU", "SparseCUDA", "SparseCsrCPU", "SparseCsrCUDA"):  # sparse: refused by name
        _library.impl(_form, _IMPLEMENTATIONS[_form], _key)
    torch.library.register_fake(f"kvbuffer_codegen::{_form}", _fake_of(_IMPLEMENTATIONS[_form]), lib=_library)

decode = torch.ops.kvbuffer_codegen.decode.default
step = torch.ops.kvbuffer_codegen.step.default
verify = torch.ops.kvbuffer_codegen.verify.default
flush = torch.ops.kvbuffer_codegen.flush.default
advance = torch.ops.kvbuffer_codegen.advance.default
commit = torch.ops.kvbuffer_codegen.commit.default
compact = torch.ops.kvbuffer_codegen.compact.default
commit_path = torch.ops.kvbuffer_codegen.commit_path.default
