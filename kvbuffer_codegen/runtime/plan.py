"""A manifest's arguments and launch as a plan of checks and integers: what both launchers carry out.

The Python here is the meaning of the checks and the source of every message. The native launcher runs the same plan,
packed into 64-bit integers by :mod:`packing`, and comes back here for the message when it refuses a call.
"""

from __future__ import annotations

import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kvbuffer_codegen.artifact import ArtifactError
from kvbuffer_codegen.expressions import ExpressionError, Program, evaluate, names, parse
from kvbuffer_codegen.ir.forms import STATES
from kvbuffer_codegen.ir.signature import inner_axes
from kvbuffer_codegen.manifest import Manifest, symbols
from kvbuffer_codegen.runtime.errors import ArgumentError

ITEM_BYTES = {**STATES, "int32": 4, "int64": 8}
INT32 = range(-(2**31), 2**31)
GRID_LIMITS = {"cpu": (2**63 - 1,) * 3, "cuda": (2**31 - 1, 65535, 65535)}


@dataclass(frozen=True)
class Size:
    """One axis: a number (``symbol`` empty), or ``symbol + offset``, which binds the symbol at first sight, or a whole
    ``program`` that is checked when all symbols are bound."""

    text: str
    symbol: str = ""
    offset: int = 0
    program: Program = ()


@dataclass(frozen=True)
class Tensor:
    name: str
    role: str
    dtype: str  # "index": int32 or int64, passed as int32 words
    sizes: tuple[Size, ...]
    free: tuple[bool, ...]  # per axis: the stride is a run-time value; else contiguous
    align: int
    written: bool

    @property
    def dtypes(self) -> tuple[str, ...]:
        return ("int32", "int64") if self.dtype == "index" else (self.dtype,)


@dataclass(frozen=True)
class Scalar:
    name: str


@dataclass(frozen=True)
class Constraint:
    """``program`` must not be negative."""

    program: Program
    argument: str
    accepted: str


@dataclass(frozen=True)
class Launch:
    """What one call starts: ``slots`` are the kernel's arguments as 64-bit values; empty ``grid``: nothing to do."""

    grid: tuple[int, ...]
    block: tuple[int, ...]
    slots: tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    name: str
    device_type: str  # "cpu" or "cuda"
    arguments: tuple[Tensor | Scalar, ...]
    symbols: tuple[str, ...]
    constraints: tuple[Constraint, ...]
    grid: tuple[Program, ...]
    grid_limits: tuple[int, ...]
    block: tuple[Program, ...]
    shared: int
    overlap: bool  # started while the kernel before it finishes
    slots: tuple[tuple[str, str | Program], ...]  # ("pointer", argument) or (dtype, program)

    @classmethod
    def of(cls, manifest: Manifest) -> Plan:
        """The plan of a validated manifest. Raises :class:`~kvbuffer_codegen.artifact.ArtifactError`."""
        launch = manifest["launch"]
        arguments = tuple(_argument(a) for a in manifest["arguments"])
        plan = cls(
            name=manifest["name"],
            device_type=manifest["target"]["kind"],
            arguments=arguments,
            symbols=symbols(manifest["arguments"]),
            constraints=tuple(_constraints(manifest, arguments)),
            grid=_three(launch["grid"]),
            grid_limits=GRID_LIMITS[manifest["target"]["kind"]],
            block=_three(launch["block"]),
            shared=launch["shared"],
            overlap=launch.get("overlap", False),
            slots=tuple(
                ("pointer", a["pointer"]) if "pointer" in a else (a["dtype"], parse(a["integer"]))
                for a in launch["arguments"]
            ),
        )
        unbound = sorted(set().union(*(names(p) for p in plan._programs())) - plan._bound())
        if unbound:
            raise ArtifactError(
                f"{plan.name}: no argument gives {', '.join(unbound)}, which its manifest uses: build it again"
            )
        return plan

    def _programs(self) -> Iterator[Program]:
        yield from (*self.grid, *self.block)
        yield from (p for _, p in self.slots if not isinstance(p, str))
        yield from (s.program for a in self.arguments if isinstance(a, Tensor) for s in a.sizes)

    def _bound(self) -> set[str]:
        sizes = {s.symbol for a in self.arguments if isinstance(a, Tensor) for s in a.sizes}
        shapes = {n for a in self.arguments if isinstance(a, Tensor) for s in a.sizes for n in names(s.program)}
        return (set(self.symbols) - shapes) | sizes

    # --- one call

    def named(self, arguments: Sequence[Any], given: Mapping[str, Any]) -> tuple[Any, ...]:
        """``arguments`` in order, those ``given`` by name filled in. Raises :class:`ArgumentError`."""
        order = [a.name for a in self.arguments]
        rest = order[len(arguments) :]
        for name in given:
            if name not in rest:
                what = "is given twice" if name in order else "is not an argument"
                raise ArgumentError(self.name, name, what, ", ".join(order))
        self._none_missing([name for name in rest if name not in given])
        return (*arguments, *(given[name] for name in rest))

    def _none_missing(self, missing: Sequence[str]) -> None:
        if missing:
            accepted = ", ".join(a.name for a in self.arguments)
            fix = "give every argument, in this order or by name"
            raise ArgumentError(self.name, ", ".join(missing), "is missing", accepted, fix)

    def launch(self, arguments: Sequence[Any]) -> Launch:
        """Check one call and work out its launch. Raises :class:`ArgumentError`."""
        values, where = self._bind(arguments)
        self.keep_apart(arguments)
        for constraint in self.constraints:
            if evaluate(constraint.program, values) < 0:
                given = ", ".join(f"{n} = {values[n]}" for n in names(constraint.program))
                raise ArgumentError(self.name, constraint.argument, f"gives {given}", constraint.accepted)
        if values.get("B") == 0:
            return Launch((), (), ())
        grid = tuple(self._integer(p, values, "the launch grid", range(2**63)) for p in self.grid)
        if 0 in grid:
            return Launch((), (), ())
        if any(n > limit for n, limit in zip(grid, self.grid_limits, strict=True)):
            given, limits = f"the sizes give a launch grid of {grid}", f"up to {self.grid_limits}"
            raise ArgumentError(self.name, "", given, limits, "use smaller tensors")
        block = tuple(self._integer(p, values, "the block", range(1, 1025)) for p in self.block)
        slots = []
        for kind, item in self.slots:
            if isinstance(item, str):
                slots.append(where[item].data_ptr())
            else:
                accepted = INT32 if kind == "int32" else range(-(2**63), 2**63)
                slots.append(_slot(kind, self._integer(item, values, f"the kernel's {kind} argument", accepted)))
        return Launch(grid, block, tuple(slots))

    def keep_apart(self, arguments: Sequence[Any]) -> None:
        """Refuses an ``out`` that may share memory with another argument: some rows are written while others are
        read. Raises :class:`ArgumentError`."""
        given = {a.name: x for a, x in zip(self.arguments, arguments, strict=True) if isinstance(a, Tensor)}
        for argument in self.arguments:
            if not isinstance(argument, Tensor) or argument.role != "out":
                continue
            out = given[argument.name]
            for name, other in given.items():
                apart = name == argument.name or not out.numel() or not other.numel()
                if not apart and _meet(out, other, other.data_ptr() - out.data_ptr()):
                    raise ArgumentError(
                        self.name, argument.name, f"shares memory with {name}", "memory of its own",
                        "pass a tensor that nothing else uses",
                    )  # fmt: skip

    def _integer(self, program: Program, values: Mapping[str, int], what: str, accepted: range) -> int:
        try:
            value = evaluate(program, values)
        except ExpressionError as error:
            value, reason = None, str(error)
        if value is None or value not in accepted:
            given = ", ".join(f"{n} = {values[n]}" for n in names(program))
            raise ArgumentError(
                self.name, "", f"{given} gives {what} {value if value is not None else reason}",
                f"{accepted.start} to {accepted.stop - 1}", "use smaller tensors",
            )  # fmt: skip
        return value

    def _bind(self, arguments: Sequence[Any]) -> tuple[dict[str, int], dict[str, torch.Tensor]]:
        self._none_missing([a.name for a in self.arguments[len(arguments) :]])
        if len(arguments) > len(self.arguments):
            order = ", ".join(a.name for a in self.arguments)
            raise ArgumentError(
                self.name, "", f"{len(arguments)} arguments are given", f"{len(self.arguments)}: {order}"
            )
        values: dict[str, int] = {}
        where: dict[str, torch.Tensor] = {}
        source: dict[str, str] = {}
        for argument, given in zip(self.arguments, arguments, strict=True):
            if isinstance(argument, Scalar):
                values[argument.name] = self._scalar(argument, given)
                continue
            self._kind(argument, given, next(iter(where.values()), None))
            self._shape(argument, given, values, source)
            self._strides(argument, given, values)
            where[argument.name] = given
        for argument in self.arguments:
            if isinstance(argument, Tensor):
                for axis, size in enumerate(argument.sizes):
                    if size.program and where[argument.name].shape[axis] != evaluate(size.program, values):
                        expected = f"{size.text} = {evaluate(size.program, values)}"
                        self._refuse_size(argument, where[argument.name], axis, expected)
        return values, where

    def _scalar(self, argument: Scalar, given: Any) -> int:
        if isinstance(given, bool) or not isinstance(given, int):
            raise ArgumentError(self.name, argument.name, f"is {_type(given)}", "an int", "pass a Python int")
        if given not in INT32:
            raise ArgumentError(self.name, argument.name, f"is {given}", f"{INT32.start} to {INT32.stop - 1}")
        return given

    def _kind(self, argument: Tensor, given: Any, first: torch.Tensor | None) -> None:
        """Type, device, dtype and number of axes."""
        if not isinstance(given, torch.Tensor):
            fix = "use torch.from_numpy" if type(given).__module__ == "numpy" else "pass a tensor"
            raise ArgumentError(self.name, argument.name, f"is {_type(given)}", "a torch.Tensor", fix)
        if given.layout is not torch.strided:
            raise ArgumentError(
                self.name, argument.name, f"has layout {given.layout}", "torch.strided", "use to_dense()"
            )
        if given.device.type != self.device_type:
            raise ArgumentError(
                self.name, argument.name, f"is on {given.device}", f"a {self.device_type} device",
                f"move it there, or load the kernel for {given.device}",
            )  # fmt: skip
        if first is not None and given.device != first.device:
            fix = f"move it with .to({str(first.device)!r})"
            raise ArgumentError(
                self.name, argument.name, f"is on {given.device}", f"{first.device}, as the others", fix
            )
        dtype = str(given.dtype).removeprefix("torch.")
        if dtype not in argument.dtypes:
            fix = f"use .to(torch.{argument.dtypes[0]})"
            if argument.role in ("state", "record", "input", "out"):
                fix += ", or load the kernel for this dtype"
            raise ArgumentError(self.name, argument.name, f"has dtype {dtype}", " or ".join(argument.dtypes), fix)
        if given.ndim != len(argument.sizes):
            raise ArgumentError(
                self.name, argument.name, f"has {given.ndim} axes, shape {tuple(given.shape)}",
                f"{len(argument.sizes)} axes, shape ({', '.join(s.text for s in argument.sizes)})",
            )  # fmt: skip

    def _shape(self, argument: Tensor, given: torch.Tensor, values: dict[str, int], source: dict[str, str]) -> None:
        for axis, (size, actual) in enumerate(zip(argument.sizes, given.shape, strict=True)):
            if size.program:
                continue
            expected, at = size.offset, ""
            if size.symbol:
                expected += max(values.setdefault(size.symbol, actual - size.offset), 0)
                if source.setdefault(size.symbol, argument.name) != argument.name:
                    at = f" = {expected}, as in {source[size.symbol]}"
            if expected != actual:
                self._refuse_size(argument, given, axis, f"{size.text}{at}")

    def _refuse_size(self, argument: Tensor, given: torch.Tensor, axis: int, expected: str) -> None:
        shape = ", ".join(s.text for s in argument.sizes)
        raise ArgumentError(
            self.name, argument.name, f"has size {given.shape[axis]} in axis {axis}, shape {tuple(given.shape)}",
            f"{expected} there, shape ({shape})",
        )  # fmt: skip

    def _strides(self, argument: Tensor, given: torch.Tensor, values: dict[str, int]) -> None:
        """Contiguous axes, alignment, no element twice where it is written. Strides of axes that are never stepped
        along do not count."""
        shape, strides = given.shape, given.stride()
        words = given.element_size() // 4 if argument.dtype == "index" else 1
        if argument.dtype == "index":
            values[f"{argument.name}_words"] = words
        empty, expected = 0 in shape, 1
        for axis in reversed(range(given.ndim)):
            skipped = empty or shape[axis] == 1
            stride = 0 if skipped else strides[axis]
            if argument.free[axis]:
                values[f"{argument.name}_s{axis}"] = stride * words
                self._aligned(argument, f"stride {stride} in axis {axis}", stride * given.element_size())
            elif not skipped and stride != expected:
                hint = "; is the state of the other layout? Load the kernel with it" if argument.role == "state" else ""
                raise ArgumentError(
                    self.name, argument.name, f"has stride {strides[axis]} in axis {axis}, strides {tuple(strides)}",
                    f"{expected} there", f"lay it out so that axis {axis} is contiguous{hint}",
                )  # fmt: skip
            expected = (expected if skipped else stride) * shape[axis]
        if empty:
            return
        self._aligned(argument, "a base address", given.data_ptr())
        if argument.written and _overlaps(shape, strides):
            given_as = f"shape {tuple(shape)}, strides {tuple(strides)}"
            raise ArgumentError(
                self.name, argument.name, f"has elements that share memory, {given_as}",
                "one place for each element, as it is written", "pass a tensor that was not expanded",
            )  # fmt: skip

    def _aligned(self, argument: Tensor, what: str, value: int) -> None:
        item = ITEM_BYTES[argument.dtypes[0]] if argument.dtype != "index" else 4
        if value % argument.align == 0:
            return
        fix = (
            f"pad it to multiples of {argument.align // item} elements"
            if argument.align > item
            else "pass an aligned tensor"
        )
        raise ArgumentError(
            self.name, argument.name, f"has {what} that is not a multiple of {argument.align} bytes",
            f"multiples of {argument.align} bytes", fix,
        )  # fmt: skip


def _argument(data: Mapping[str, Any]) -> Tensor | Scalar:
    if "shape" not in data:
        return Scalar(data["name"])
    return Tensor(
        data["name"],
        data["role"],
        data["dtype"],
        tuple(_size(s) for s in data["shape"]),
        tuple(axis in data["free_strides"] for axis in range(len(data["shape"]))),
        data["align"],
        data["access"] != "read",
    )


def _size(text: str | int) -> Size:
    match [(step.op, step.value) for step in parse(text)]:
        case [("integer", int(number))]:
            return Size(str(text), offset=number)
        case [("name", str(symbol))]:
            return Size(str(text), symbol)
        case [("name", str(symbol)), ("integer", int(number)), ("+", _)]:
            return Size(str(text), symbol, number)
    return Size(str(text), program=parse(text))


def _constraints(manifest: Manifest, arguments: Sequence[Tensor | Scalar]) -> Iterator[Constraint]:
    """What the sizes of a call must be for the specialised numbers of the binary."""
    source: dict[str, str] = {}  # the first tensor with a size
    for argument in arguments:
        if isinstance(argument, Tensor):
            source = {**{size.symbol: argument.name for size in argument.sizes}, **source}
    buffer, kv_only, window, ratio = (manifest[k] for k in ("buffer", "kv_only", "window", "ratio"))
    if "R" in source:
        tokens = max(window, int(manifest["form"] in ("decode", "verify")))
        least = max(buffer, kv_only, tokens) + tokens
        yield Constraint(
            parse(f"R - {least}"), source["R"], f"a ring of R >= max(buffer, kv_only, window) + window = {least} rows"
        )
    if manifest["target"]["kind"] == "cuda":
        yield from _spans(manifest)
    if "H" in source and "HV" in source:
        accepted = f"HV = {ratio} * H, the ratio that the kernel was built for"
        yield Constraint(parse(f"HV - {ratio} * H"), source["H"], accepted)
        yield Constraint(parse(f"{ratio} * H - HV"), source["H"], accepted)


def _spans(manifest: Manifest) -> Iterator[Constraint]:
    """Offsets inside a row are 32-bit numbers on a GPU."""
    for argument in manifest["arguments"]:
        if "shape" not in argument:
            continue
        inner = inner_axes(argument["shape"])
        steps = [
            f" - ({argument['shape'][a]} - 1) * {argument['name']}_s{a}" for a in inner if a in argument["free_strides"]
        ]
        if steps:
            rest = [argument["shape"][a] for a in inner if a not in argument["free_strides"]]
            program = parse(f"{2**31 - 1} - {rest[-1] if rest else 0}{''.join(steps)}")
            accepted = "strides with which a row (of a batch, a slot or a layer) spans less than 2^31 elements"
            yield Constraint(program, argument["name"], accepted)


def _three(expressions: Sequence[str | int]) -> tuple[Program, ...]:
    return tuple(parse(e) for e in (*expressions, 1, 1)[:3])


def _slot(kind: str, value: int) -> int:
    if kind == "float32":
        return int.from_bytes(array.array("f", [value]).tobytes(), "little")
    return value % 2**64


def _overlaps(shape: Sequence[int], strides: Sequence[int]) -> bool:
    reach = 0  # the last element of the axes so far
    for stride, size in sorted(zip(strides, shape, strict=True)):
        if size > 1:
            if stride <= reach:
                return True
            reach += stride * (size - 1)
    return False


def _meet(a: torch.Tensor, b: torch.Tensor, gap: int, axis: int = 0) -> bool:
    """Whether axes ``axis``.. of both may share memory, b's beginning ``gap`` bytes after a's: not where one ends
    before the other begins, nor where they are cut side by side out of the rows of a larger tensor."""
    if gap >= _extent(a, axis) or -gap >= _extent(b, axis):
        return False
    if axis >= min(a.ndim, b.ndim):
        return True
    if a.shape[axis] == b.shape[axis] == 1:  # such an axis has no stride
        return _meet(a, b, gap, axis + 1)
    step = a.stride(axis) * a.element_size()
    if step != b.stride(axis) * b.element_size() or step < max(_extent(a, axis + 1), _extent(b, axis + 1)):
        return True
    return _meet(a, b, gap % step, axis + 1) or _meet(a, b, gap % step - step, axis + 1)


def _extent(x: torch.Tensor, axis: int) -> int:
    """Bytes from the first to behind the last element of the axes from ``axis`` on."""
    axes = zip(x.shape[axis:], x.stride()[axis:], strict=True)
    return (sum((n - 1) * stride for n, stride in axes) + 1) * x.element_size()


def _type(value: Any) -> str:
    return (
        "None"
        if value is None
        else f"of type {type(value).__module__}.{type(value).__qualname__}".replace("builtins.", "")
    )
