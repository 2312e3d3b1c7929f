"""The arguments of a kernel: the one description that templates declare from, manifests store and the runtime checks
against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from .expr import walk
from .forms import FORMS, STATES, KernelSpec

#: Rows of the cursors tensor, int32 [5, P + 1]; column P belongs to no slot and takes the faults of rows whose slot
#: or ring is out of range, with that index (or the nearest int32) in BASE.
#: WRITES, the number of times that the row's state was written, is there for stochastic rounding alone, int32 [6,
#: P + 1]; its column P holds the seed.
BASE, COUNT, KV_ONLY, WINDOW, FAULT, WRITES = range(6)
#: cursors[WINDOW] of a row whose slot exists and whose ring does not: kernels left it alone, and so must what closes
#: the step.
SKIPPED = -1
#: Bits of cursors[FAULT].
FAULT_SLOT, FAULT_LENGTH, FAULT_ACCEPTED, FAULT_PARENT, FAULT_PATH, FAULT_TARGET = 1, 2, 4, 8, 16, 32
#: The ``form`` argument of advance.
ADVANCE_FORMS = {"decode": 0, "step": 1, "flush": 2}


@dataclass(frozen=True)
class TensorArg:
    """One tensor. ``shape``: ints, symbols (B P N R H HV Y T D bind at first sight) and sums of these as text; strides
    of ``free_strides`` are run-time values in elements, the other axes are contiguous; base address and free strides
    are multiples of ``align`` bytes."""

    name: str
    role: str
    dtype: str
    shape: tuple[int | str, ...]
    free_strides: tuple[int, ...]
    align: int
    access: str


#: Sizes of the axes that count slots, rings and layers: a tensor has any number of elements along them.
ROWS = ("P", "N", "Y")


def inner_axes(shape: Sequence[int | str]) -> tuple[int, ...]:
    """The axes inside a slot or a batch. On a GPU offsets along them are 32-bit numbers: they span less than 2^31
    elements."""
    return tuple(axis for axis, size in enumerate(shape) if size not in ROWS)


@dataclass(frozen=True)
class ScalarArg:
    """One number by value."""

    name: str
    dtype: str = "int32"


def to_dict(argument: TensorArg | ScalarArg) -> dict[str, Any]:
    return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(argument).items()}


def signature(spec: KernelSpec) -> tuple[TensorArg | ScalarArg, ...]:
    """The ordered arguments of the kernel that ``spec`` describes (tables in docs/architecture.md)."""
    cursors = TensorArg("cursors", "cursors", "int32", (cursor_rows(spec), "P + 1"), (0,), 4, "readwrite")
    slots = _index("slots")
    if spec.form == "advance":
        return (cursors, slots, ScalarArg("form"), ScalarArg("buffer"), ScalarArg("kv_only"), ScalarArg("ring"))
    sizes = (ScalarArg("buffer"), ScalarArg("kv_only"), ScalarArg("ring"))
    accepted, path, parents = _index("accepted"), _index("path", "D"), _index("parents", spec.window or "T")
    if spec.form == "commit":
        return (cursors, slots, accepted, *sizes)
    if spec.form == "commit_path":
        return (cursors, slots, accepted, path, parents, *sizes)
    layers = ("Y",) if FORMS[spec.form].layered else ()
    if spec.form == "compact":
        return (
            *_records(spec, layers),
            replace(cursors, access="read"),
            slots,
            _index("rings"),
            accepted,
            path,
            parents,
        )
    result: list[TensorArg | ScalarArg] = [
        *_state(spec, layers),
        *_records(spec, layers),
        cursors,
        slots,
        _index("rings"),
    ]
    if spec.form == "publish":
        result.append(_index("dst"))
    if spec.form == "verify":
        result += [_index("lengths"), parents] if spec.tree else [_index("lengths")]
    result += _inputs(spec, layers)
    if FORMS[spec.form].tokens:
        window = (spec.window,) if spec.form == "verify" else ()
        result.append(_tensor("out", "out", spec.io, ("B", *window, "HV", spec.V), "write", True))
    return tuple(result)


def cursor_rows(spec: KernelSpec) -> int:
    return WRITES + spec.stochastic


def _index(name: str, *more: int | str) -> TensorArg:
    return TensorArg(name, "index", "index", ("B", *more), tuple(range(1 + len(more))), 4, "read")


def _tensor(name: str, role: str, dtype: str, shape: tuple[int | str, ...], access: str, wide: bool) -> TensorArg:
    """A tensor whose last axis is contiguous where it is ``wide`` (K or V), with 16-byte access where that axis
    allows it."""
    item = STATES.get(dtype, 4)
    free = tuple(range(len(shape) - 1 if wide else len(shape)))
    last = shape[-1]
    align = 16 if wide and isinstance(last, int) and last * item % 16 == 0 else item
    return TensorArg(name, role, dtype, shape, free, align, access)


def _state(spec: KernelSpec, layers: tuple[str, ...]) -> list[TensorArg]:
    """The state, and the scales that an 8-bit one has."""
    tile = (spec.V, spec.K) if spec.layout == "VK" else (spec.K, spec.V)
    access = "read" if FORMS[spec.form].folds == "never" else "readwrite"
    lead = (*layers, "P", "HV")
    scales = {"state_rows": spec.V, "state_channels": spec.K} if spec.scaled else {}
    return [
        _tensor("state", "state", spec.state, (*lead, *tile), access, True),
        *(_tensor(name, "scale", "float32", (*lead, width), access, True) for name, width in scales.items()),
    ]


def _records(spec: KernelSpec, layers: tuple[str, ...]) -> list[TensorArg]:
    result, writes = [], FORMS[spec.form].appends or spec.form == "compact"
    for f in spec.record_layout.fields:
        shape = (*layers, "N", "R", "H" if f.heads == "key" else "HV", *spec.wide(f.axis))
        access = "readwrite" if writes else "read"
        result.append(_tensor(f.name, "record", f.stored(spec.io), shape, access, bool(f.axis)))
    return result


def _inputs(spec: KernelSpec, layers: tuple[str, ...]) -> list[TensorArg]:
    """The recurrence's own arguments; flush takes only the parameters that its stored decays and right vectors still
    need."""
    assert spec.recurrence is not None
    needed = None if FORMS[spec.form].tokens else _parameters_of_records(spec)
    result = []
    for a in spec.recurrence.arguments:
        if needed is not None and a.name not in needed:
            continue
        wide = spec.wide(a.axis)
        heads = "H" if a.heads == "key" else "HV"
        if a.parameter:
            lead, dtype, role = layers, "float32", "parameter"
        else:
            window = (spec.window,) if spec.form == "verify" else ()
            lead, dtype, role = ("B", *window), spec.io, "input"
        count = (a.count,) if a.count else ()
        result.append(_tensor(a.name, role, dtype, (*lead, *count, heads, *wide), "read", bool(a.axis)))
    return result


def _parameters_of_records(spec: KernelSpec) -> set[str]:
    layout = spec.record_layout
    parts = [*(r.expr for r in layout.rights), layout.log_decay_scalar, layout.log_decay_key, layout.log_decay_value]
    return {n.value[0] for n in walk(*(p for p in parts if p is not None)) if n.op == "input"}
