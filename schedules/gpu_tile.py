"""What the CUDA templates share: a block's place, a lane's columns, sums over lanes, leaves in registers.

Everything is at thread level: shapes of registers are those of
:class:`~kvbuffer_codegen.schedules.geometry.Geometry`, and loops over registers unroll. A macro that shuffles is
called by whole warps only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import tilelang.language as T
from tilelang import tvm

from kvbuffer_codegen.ir import expr as ex
from kvbuffer_codegen.ir.expr import Expr
from kvbuffer_codegen.ir.forms import STATES, KernelSpec
from kvbuffer_codegen.ir.signature import TensorArg, signature
from kvbuffer_codegen.schedules import common
from kvbuffer_codegen.schedules.geometry import WARP, Geometry

F32 = "float32"
ZERO = T.float32(0)


#: As the language's, to two units in the last place, without the branches that a GPU's exact division has.
OPERATIONS = {
    **common.OPERATIONS,
    "rsqrt": lambda x: T.rsqrt(x),
    "sigmoid": lambda x: T.call_pure_extern("float32", "__fdividef", T.float32(1), T.float32(1) + T.exp(-x)),
    "softplus": lambda x: T.max(x, T.log1p(T.exp(T.min(x, common.SOFTPLUS_LINEAR)))),
}


def lower(expr: Expr, leaf: Callable[[Expr], Any], spec: KernelSpec) -> Any:
    """``expr`` in float32: ``common.lower`` with the operations of a GPU."""
    return common.lower(expr, leaf, spec, OPERATIONS)


@dataclass
class Place:
    """A tensor and the leading part of an index into it."""

    tensor: Any
    where: tuple[Any, ...]


@dataclass
class Cell:
    """One block, which owns tile number ``tile`` of V of value head ``hv`` of batch row ``b``, and one of its threads.

    ``args`` are the kernel's arguments (``common.build``). ``lead`` indexes the axes that a flush has in front (its
    layer). ``slot``, ``ring`` and the cursors ``base``, ``count`` and ``kv_only`` are the row's, in range wherever
    they are used. ``origin``: the slot that the row was read from, where ``slot`` is another that it is written to.
    ``phase``: of a sweep over the tiles (``gpu_sweep``). ``again``: where a fold writes the state, its addresses are
    worked out again; else nvcc keeps them from where it was read, in registers that a kernel with several kinds of rows
    has not.
    """

    geo: Geometry
    args: Any
    lead: tuple[Any, ...]
    b: Any
    hv: Any
    tile: Any
    thread: Any
    shared: dict[str, Any]
    slot: Any = None
    ring: Any = None
    base: Any = None
    count: Any = None
    kv_only: Any = None
    origin: Any = None
    phase: Any = None
    again: bool = False

    @property
    def spec(self) -> KernelSpec:
        return self.geo.spec

    @property
    def hk(self) -> Any:
        return T.truncdiv(self.hv, self.spec.ratio)

    @property
    def lane(self) -> Any:
        return self.thread % self.geo.lanes

    @property
    def group(self) -> Any:
        return self.thread // self.geo.lanes

    @property
    def warp_group(self) -> Any:
        """The first group of this thread's warp: what depends on it is the same for whole warps."""
        return self.thread // WARP * (WARP // self.geo.lanes)

    @property
    def group_row(self) -> Any:
        """First row of this lane, inside the tile."""
        return self.group * self.geo.rows

    @property
    def row(self) -> Any:
        """First row of this lane, of V."""
        return self.tile * self.geo.schedule.block_v + self.group_row

    @property
    def own(self) -> Any:
        """Which of its rows a lane holds after :func:`sum_lanes`; ``lanes / rows`` neighbours hold the same one."""
        return self.lane // (self.geo.lanes // self.geo.rows)

    @property
    def owner(self) -> Any:
        """Whether this lane is the one that writes its own row."""
        first = self.lane % (self.geo.lanes // self.geo.rows) == 0
        return tvm.tirx.all(first, self.row + self.own < self.geo.V) if self.geo.masked_rows else first

    def final(self, condition: Any) -> Any:
        """``condition``, and that what is computed now is to be kept."""
        if self.phase is None or condition is False:
            return condition
        last = self.phase == self.geo.roundings
        return last if condition is True else tvm.tirx.all(last, condition)

    def column(self, c: Any) -> Any:
        """The column of K that register ``c`` of a vector over K holds."""
        piece = self.geo.piece
        return (c // piece * self.geo.lanes + self.lane) * piece + c % piece

    def head(self, heads: str) -> Any:
        return self.hk if heads == "key" else self.hv

    def state(self, row: Any, column: Any) -> tuple[Any, ...]:
        """Index of one value of the state."""
        where = (*self.lead, self.slot, self.hv)
        return (*where, row, column) if self.spec.layout == "VK" else (*where, column, row)

    def record(self, name: str, j: Any) -> Place:
        """Field ``name`` of record ``j``."""
        field = next(f for f in self.spec.record_layout.fields if f.name == name)
        row = common.record_row(self.base, j, self.args.R, True)
        return Place(getattr(self.args, name), (*self.lead, self.ring, T.cast(row, "int64"), self.head(field.heads)))

    def input(self, node: Expr, t: Any) -> Place:
        """An input leaf at token ``t``."""
        name, part = node.value
        assert self.spec.recurrence is not None
        argument = next(a for a in self.spec.recurrence.arguments if a.name == name)
        window = (t,) if self.spec.form == "verify" else ()
        front = self.lead if argument.parameter else (self.b, *window)
        count = () if part is None else (part,)
        return Place(getattr(self.args, name), (*front, *count, self.head(argument.heads)))


@dataclass
class Leaves:
    """Registers that hold leaves: one value a column (axis K), a row (axis V) or one in all."""

    spec: KernelSpec
    held: dict[Expr, Any] = field(default_factory=dict)

    def lower(self, expr: Expr, index: Any = 0, others: Callable[[Expr], Any] | None = None) -> Any:
        """``expr`` in float32 at column or row ``index``; ``others`` gives leaves that are not held."""

        def leaf(node: Expr) -> Any:
            if node in self.held:
                return T.cast(self.held[node][index if node.axes else 0], F32)
            if others is None:
                raise KeyError(f"leaf {node} of {expr} is not loaded")
            return others(node)

        return lower(expr, leaf, self.spec)


def leaves_of(exprs: Iterable[Expr | None], *ops: str) -> list[Expr]:
    """The distinct leaves of kinds ``ops``, in order of first use."""
    return [n for n in ex.walk(*(e for e in exprs if e is not None)) if n.op in ops]


def access(spec: KernelSpec, name: str, contiguous: int) -> int:
    """Elements of one access to tensor ``name`` where ``contiguous`` neighbours are wanted: as many as its alignment
    allows."""
    argument = next(a for a in signature(spec) if a.name == name)
    assert isinstance(argument, TensorArg)
    return max(
        w
        for w in (1, 2, 4, 8)
        if contiguous % w == 0 and (w == 1 or w * STATES.get(argument.dtype, 4) <= argument.align)
    )


def halving(count: int, lanes: int) -> list[tuple[int, int]]:
    """Steps (mask, half) that sum ``count`` values over ``lanes`` lanes: while several are left, a lane sends one half
    of them and keeps the other, so that each step halves the work; half 0 is a plain butterfly step on the one value
    left."""
    steps, mask = [], lanes // 2
    while mask:
        steps.append((mask, count // 2))
        count, mask = max(count // 2, 1), mask // 2
    return steps


@T.macro
def sum_lanes(cell: Cell, values: Any, count: int, sets: int = 1) -> None:
    """Sum ``sets`` times ``count`` values (a power of two of them) over the lanes of a group; the sets' shuffles do
    not wait for each other.

    With count <= lanes, lane l ends with the sum of value ``l // (lanes / count)`` of a set in the set's first one;
    with more, with ``count / lanes`` sums from value ``l * count / lanes`` on.
    """
    for mask, half in halving(count, cell.geo.lanes):
        for s in list(range(sets)):
            if half > 0:
                for i in T.unroll(half):
                    at = s * count + i
                    kept = T.Select((cell.lane & mask) != 0, values[at + half], values[at])
                    sent = T.Select((cell.lane & mask) != 0, values[at], values[at + half])
                    values[at] = kept + T.shfl_xor(sent, mask)
            else:
                values[s * count] = values[s * count] + T.shfl_xor(values[s * count], mask)


@T.macro
def suffix_sum(cell: Cell, value: Any, at: Any, carry: Any, i: Any) -> None:
    """``value[at]``, one number a lane, becomes the sum of the later lanes' numbers and ``carry[i]``, which then
    gains them all.

    Sums run from the newest backwards and are never a difference, so that -inf (a decay of exactly 0) stays exact.
    """
    lanes = cell.geo.lanes
    other = T.alloc_local((1,), F32)
    for distance in [1 << s for s in range(lanes.bit_length() - 1)]:
        other[0] = T.shfl_down(value[at], distance, lanes)
        value[at] = value[at] + T.Select(cell.lane + distance < lanes, other[0], ZERO)
    other[0] = T.shfl_down(value[at], 1, lanes)
    other[0] = T.Select(cell.lane + 1 < lanes, other[0], ZERO) + carry[i]
    carry[i] = carry[i] + T.shfl_sync(value[at], 0, lanes)
    value[at] = other[0]


@T.macro
def load_columns(cell: Cell, into: Any, source: Place, width: int, at: Any = 0) -> None:
    """``into[at + c] = source[ column c]`` with ``width`` columns an access; 0 for columns that do not exist."""
    for m in T.unroll(cell.geo.columns // width):
        if cell.geo.masked_columns:
            if cell.column(m * width) < cell.geo.K:
                for e in T.vectorized(width):
                    into[at + m * width + e] = source.tensor[(*source.where, cell.column(m * width) + e)]
            else:
                for e in T.unroll(width):
                    into[at + m * width + e] = T.cast(0, into.dtype)
        else:
            for e in T.vectorized(width):
                into[at + m * width + e] = source.tensor[(*source.where, cell.column(m * width) + e)]


@T.macro
def store_columns(cell: Cell, values: Any, target: Place, width: int) -> None:
    """``target[ column c] = values[c]`` for the columns that exist."""
    for m in T.unroll(cell.geo.columns // width):
        if cell.geo.masked_columns:
            if cell.column(m * width) < cell.geo.K:
                for e in T.vectorized(width):
                    target.tensor[(*target.where, cell.column(m * width) + e)] = values[m * width + e]
        else:
            for e in T.vectorized(width):
                target.tensor[(*target.where, cell.column(m * width) + e)] = values[m * width + e]


@T.macro
def load_rows(cell: Cell, into: Any, at: Any, source: Place, width: int) -> None:
    """``into[at + p] = source[ row p of this lane]`` as float32; 0 for rows that do not exist."""
    for m in T.unroll(cell.geo.rows // width):
        if cell.geo.masked_rows:
            for e in T.unroll(width):
                into[at + m * width + e] = ZERO
                if cell.row + m * width + e < cell.geo.V:
                    into[at + m * width + e] = T.cast(source.tensor[(*source.where, cell.row + m * width + e)], F32)
        else:
            for e in T.vectorized(width):
                into[at + m * width + e] = T.cast(source.tensor[(*source.where, cell.row + m * width + e)], F32)


def existing(cell: Cell, c: Any, value: Any) -> Any:
    """``value`` where register ``c`` of a vector over K is a column, else 0."""
    return T.Select(cell.column(c) < cell.geo.K, value, ZERO) if cell.geo.masked_columns else value


def number_at(place: Place, *wide: Any) -> Any:
    """The one value at ``place``."""
    return place.tensor[(*place.where, *wide)]
