"""Portable kernels: what the emitter of their source and the runtime that compiles it agree on.

A portable kernel's source is specialised for the recurrence, the form and the fields of a record; numbers (K, V, L,
T, C, HV / H, layout) are compile-time constants of its parameter list, and dtypes come with the pointers. So one file a
recurrence and record layout serves every size and every dtype of state, in all four forms.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .expr import to_nodes
from .forms import DTYPES, FORMS, KernelSpec
from .normal_form import NormalForm
from .records import RECORDS
from .signature import ScalarArg, TensorArg, signature
from .storage import LARGEST

#: Forms that have a portable kernel: those of a recurrence, and those that serve every recurrence.
PORTABLE_FORMS = ("step", "decode", "flush", "verify")
CURSOR_FORMS = ("advance", "commit")
#: Roles of tensors that they take, index tensors aside.
ROLES = ("state", "record", "cursors", "input", "parameter", "out")
#: Folder of their files, beside an index.
FOLDER = "triton"
#: Elements of a state tile that one program holds at most: 16 a thread of four warps.
TILE, WARPS = 2048, 4
#: Registers that a thread may take: all, else ptxas spills a few of a large kernel for the sake of occupancy.
REGISTERS = 255
#: Changed with the meaning of a parameter, so that sources of another emitter are not taken for today's.
REVISION = 1


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel. ``kind``: "pointer" (to ``dtype``, of the tensor ``argument``), "integer" (int32 or
    int64) or "constant" (of ``value``). ``divisor``: what an address (bytes) or integer is a multiple of."""

    name: str
    kind: str
    argument: str = ""
    dtype: str = ""
    divisor: int = 1
    value: int | float = 0


def refusal(spec: KernelSpec) -> str:
    """Why ``spec`` has no portable kernel, or nothing where it has one."""
    if spec.stochastic:
        return f"rounding={spec.rounding!r}: portable kernels round to nearest"
    if spec.form in CURSOR_FORMS:
        return ""
    if spec.form not in PORTABLE_FORMS:
        return f"form={spec.form!r}: portable kernels are {', '.join((*PORTABLE_FORMS, *CURSOR_FORMS))}"
    known = {"io": tuple(DTYPES), "state": tuple(DTYPES), "records": RECORDS}
    for name, accepted in known.items():
        if getattr(spec, name) not in accepted:
            return f"{name}={getattr(spec, name)!r}: portable kernels take {', '.join(accepted)}"
    unknown = [a.name for a in signature(spec) if not _known(a)]
    return f"{', '.join(unknown)}: portable kernels of {spec.form} take no such argument" if unknown else ""


def _known(argument: TensorArg | ScalarArg) -> bool:
    """Whether the emitter knows what the argument means."""
    if isinstance(argument, ScalarArg):
        return False
    indices = ("slots", "rings", "lengths")
    return argument.name in indices if argument.role == "index" else argument.role in ROLES


def source_name(spec: KernelSpec) -> str:
    """<recurrence>_<hash8>, or cursors_<hash8>: the file, without .py, that holds the kernels of ``spec`` and its like.
    Raises ``ValueError`` where there is none."""
    reason = refusal(spec)
    if reason:
        raise ValueError(reason)
    if spec.recurrence is None:
        return f"cursors_{_digest([REVISION, CURSOR_FORMS])}"
    layout = spec.record_layout
    exprs = [*(f.expr for f in layout.fields), *(r.expr for r in layout.rights), *layout.lefts]
    exprs += [e for e in (layout.log_decay_scalar, layout.log_decay_key, layout.log_decay_value) if e is not None]
    what = [
        REVISION,
        spec.recurrence.hash,
        to_nodes(exprs),
        [[f.name, f.dtype, f.heads, f.axis] for f in layout.fields],
    ]
    return f"{spec.recurrence.name}_{_digest(what)}"


def _digest(what: list[Any]) -> str:
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:8]


def source_file(spec: KernelSpec) -> str:
    """Where that file lies, relative to an index."""
    return f"{FOLDER}/{source_name(spec)}.py"


def function_name(spec: KernelSpec) -> str:
    """kvb_<form>_<recurrence>_<hash8>: the kernel's function, and what profilers show."""
    return f"kvb_{spec.form}_{source_name(spec)}"


def variants(nf: NormalForm, records: str = "exact") -> dict[str, KernelSpec]:
    """Every source that the recurrence has, by name, with a spec that it serves: one a record layout that differs."""
    found: dict[str, KernelSpec] = {}
    for io in ("bfloat16", "float32"):
        for K in (128, *range(1, 33)):  # from some small K on, vectors of 16 bits and their numbers cost less
            spec = KernelSpec("decode", nf, K, 128, 1, io, records=records, buffer=16)
            found.setdefault(source_name(spec), spec)
    return found


def blocks(spec: KernelSpec) -> tuple[int, int]:
    """(K, rows of V) of the state tile that one program holds, powers of two."""
    wide = _power_of_two(spec.K)
    return wide, min(_power_of_two(spec.V), max(1, TILE // wide))


def cells(spec: KernelSpec) -> str:
    """How many programs a launch has: an expression of run-time sizes."""
    if spec.recurrence is None:
        return "B"
    tiles = -(-spec.V // blocks(spec)[1])
    return f"{'Y * ' if spec.form == 'flush' else ''}B * HV * {tiles}"


def parameters(spec: KernelSpec) -> tuple[Parameter, ...]:
    """The parameters of the kernel: pointers with their strides, numbers, sizes, constants."""
    sizes = ("B", "P") if spec.recurrence is None else ("B", "P", "N", "R", "HV")
    numbers = (Parameter(name, "integer", dtype="int32") for name in sizes)
    return (*_arguments(spec), *numbers, *(_constants(spec) if spec.recurrence else ()))


def _arguments(spec: KernelSpec) -> Iterator[Parameter]:
    for a in signature(spec):
        if isinstance(a, ScalarArg):
            yield Parameter(a.name, "integer", dtype=a.dtype)
            continue
        index = a.dtype == "index"  # a table of int32 words
        yield Parameter(f"{a.name}_ptr", "pointer", a.name, "int32" if index else a.dtype, a.align)
        for axis in a.free_strides:
            yield Parameter(f"{a.name}_s{axis}", "integer", "", "int64", 1 if index else _divisor(a))
        if index:
            yield Parameter(f"{a.name}_words", "integer", dtype="int32")


def _divisor(argument: TensorArg) -> int:
    return argument.align // DTYPES.get(argument.dtype, 4)


def _constants(spec: KernelSpec) -> Iterator[Parameter]:
    wide, high = blocks(spec)
    values: dict[str, Any] = {"K": spec.K, "V": spec.V, "RATIO": spec.ratio, "KEY_MAJOR": int(spec.layout == "KV")}
    if FORMS[spec.form].folds == "full":
        values |= {"BUFFER": spec.buffer, "KV_CAPACITY": spec.kv_only}
    if spec.form == "verify":
        values["WINDOW"] = spec.window
    values |= {"HAS_KV_ONLY": int(spec.kv_only > 0), "LARGEST": LARGEST[spec.state], "BLOCK_K": wide, "BLOCK_V": high}
    for name, value in values.items():
        yield Parameter(name, "constant", value=value)


def _power_of_two(n: int) -> int:
    return 1 << (n - 1).bit_length()
