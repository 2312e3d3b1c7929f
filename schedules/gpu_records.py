"""decode and verify on CUDA of rows without a checkpoint (kv_only): all that they read is records.

    r_i(t) = sum_j e^{s_j} (b_j . x_i) a_j + sum over earlier tokens of the window

Keys go from memory to the operands of tensor cores: the sum over K has no order, so a lane's share of 32 columns is 8
neighbours, one access. A tile of 16 records is one warp's, which weighs its scores and leaves them in shared memory.
Behind a barrier every thread sums its share of the left vectors, which it has asked for long before (they wait in
shared memory, where each thread looks after its own); behind another a thread has one row and solves the tokens as in
any window. A block serves as many rows of V as it has threads, and both of two value heads that share a key head: the
blocks of their other tiles leave. Fewer scores, and fewer waits for slot, cursors and records.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import tilelang.language as T
from tilelang import tvm

from kvbuffer_codegen.ir.expr import Expr
from kvbuffer_codegen.ir.forms import Definition
from kvbuffer_codegen.schedules.geometry import STEP, STRIP, WARP, Alone, ceil_div, factored
from kvbuffer_codegen.schedules.gpu_mma import multiply
from kvbuffer_codegen.schedules.gpu_tile import (
    F32,
    ZERO,
    Cell,
    Leaves,
    Place,
    access,
    leaves_of,
    number_at,
    suffix_sum,
)
from kvbuffer_codegen.schedules.gpu_token import (
    Token,
    append_token,
    compute_numbers,
    families,
    load_token,
    own_token,
    recall_numbers,
    share_numbers,
    take_token,
    token_fields,
    token_registers,
)
from kvbuffer_codegen.schedules.gpu_window import (
    Rows,
    load_values,
    lower_row,
    row_registers,
    solve_token,
    value_exprs,
    window_row,
    write_token,
)

PIECE = 4  #: neighbouring columns of a lane in a product
WIDE = 2 * PIECE  #: and in an access


@dataclass
class Part:
    """An array in shared memory from row ``first`` on, or one of ``columns`` columns inside one without any."""

    array: Any
    first: int = 0
    columns: int = 0

    @property
    def dtype(self) -> str:
        return str(self.array.dtype)

    def at(self, row: Any, column: Any) -> tuple[Any, ...]:
        """Index of a value, or of the first of an access."""
        row = row + self.first
        return (row, column) if len(self.array.shape) == 2 else (row * self.columns + column,)

    def __getitem__(self, at: tuple[Any, Any]) -> Any:
        return self.array[self.at(*at)]

    def __setitem__(self, at: tuple[Any, Any], value: Any) -> None:
        T.buffer_store(self.array, value, self.at(*at))


class OwnRow(Cell):
    """A thread that has one of the rows of V that its block serves. ``geo`` is that of ordinary rows."""

    @property
    def row(self) -> Any:
        return self.tile * self.span + self.thread

    @property
    def own(self) -> Any:
        return 0

    @property
    def owner(self) -> Any:
        return self.thread < self.span

    @property
    def span(self) -> int:
        return Alone(self.spec, self.geo.schedule).span

    @classmethod
    def of(cls, cell: Cell, h: int) -> OwnRow:
        """The row of value head ``h`` of the block's."""
        alone = {f.name: getattr(cell, f.name) for f in dataclasses.fields(cell)}
        numbers = Part(cell.shared["numbers"].array, h * cell.geo.T)
        return cls(**{**alone, "hv": cell.hv + h, "shared": {**cell.shared, "numbers": numbers}})


class AloneCell(Cell):
    """A thread of a block whose row has records alone."""

    geo: Alone

    @classmethod
    def of(cls, cell: Cell, alone: Alone) -> AloneCell:
        return cls(**{**{f.name: getattr(cell, f.name) for f in dataclasses.fields(cell)}, "geo": alone})


@dataclass
class Walk:
    """Registers for a row's records; lane (g, t) of a warp, ``rank`` = 1.

    numbers  of each head: parameters that decays and scales need
    vectors  [tiles of 8 * K / 4] read vector g of each tile, the lane's columns
    keys     [own tiles * 2 * K / 4] stored right vectors of records g and g + 8 of each, the same columns
    scales   [own tiles * 2] what multiplies them
    decay    [heads * slots] log-decay of records lane, lane + 32, ..., then the weight it makes
    """

    numbers: list[Leaves]
    vectors: Any
    keys: Any
    scales: Any
    decay: Any


@dataclass
class Lane:
    """A lane's warp and its place (g, t) in an operand."""

    warp: Any
    g: Any
    t: Any

    @classmethod
    def of(cls, cell: Cell) -> Lane:
        lane = cell.thread % WARP
        return cls(cell.thread // WARP, lane // 4, lane % 4)

    def tile(self, cell: AloneCell, m: int) -> Any:
        """The warp's tile number ``m``."""
        return m * cell.geo.warps + self.warp


def record_registers(cell: AloneCell) -> Walk:
    g, layout = cell.geo, cell.spec.record_layout
    needed = leaves_of([layout.log_decay_scalar, *(right.scale for right in layout.rights)], "input")
    numbers = [Leaves(cell.spec, {node: T.alloc_local((1,), F32) for node in needed}) for _ in range(g.heads)]
    wide = g.K // PIECE
    return Walk(
        numbers,
        T.alloc_local((g.read_tiles * wide,), cell.spec.io),
        T.alloc_local((g.own_tiles * g.rank * 2 * wide,), cell.spec.io),
        T.alloc_local((g.own_tiles * g.rank * 2,), F32),
        T.alloc_local((g.heads * g.weight_slots,), F32),
    )


@T.macro
def load_lane(cell: AloneCell, lane: Lane, into: Any, at: Any, name: str, source: Place) -> None:
    """``into[at : at + K / 4]`` = the lane's columns of a vector over K."""
    width = access(cell.spec, name, WIDE)
    for c in T.unroll(cell.geo.K // (4 * width)):
        for e in T.vectorized(width):
            into[at + c * width + e] = source.tensor[(*source.where, (4 * c + lane.t) * width + e)]


@T.macro
def load_vectors(cell: AloneCell, lane: Lane, walk: Walk) -> None:
    """The operands that read vectors are, those that do not exist being copies of the last."""
    g = cell.geo
    for m in list(range(g.read_tiles)):
        vector = T.min(m * STEP + lane.g, g.vectors - 1)
        for i, read in enumerate(cell.spec.program.reads):
            node = factored(read)[1]
            if tvm.tirx.any(g.reads == 1, vector % g.reads == i):
                source = cell.input(node, vector // g.reads)
                load_lane(cell, lane, walk.vectors, m * (g.K // PIECE), node.value[0], source)


@T.macro
def load_keys(cell: AloneCell, lane: Lane, walk: Walk) -> None:
    """Right vectors of the warp's records, and what multiplies them."""
    g, layout = cell.geo, cell.spec.record_layout
    for h, numbers in enumerate(walk.numbers):
        for node, buffer in numbers.held.items():
            buffer[0] = number_at(dataclasses.replace(cell, hv=cell.hv + h).input(node, 0))
    for m in list(range(g.own_tiles)):
        if lane.tile(cell, m) * STRIP < cell.count:
            for r, right in enumerate(layout.rights):
                for p in list(range(2)):
                    j = T.min(lane.tile(cell, m) * STRIP + STEP * p + lane.g, cell.count - 1)
                    at = (m * g.rank + r) * 2 + p
                    name = right.vector.value
                    load_lane(cell, lane, walk.keys, at * (g.K // PIECE), name, cell.record(name, j))
                    if right.scale is not None:
                        walk.scales[at] = record_number(cell, walk.numbers[0], right.scale, j)


def record_number(cell: Cell, numbers: Leaves, expr: Expr | None, j: Any) -> Any:
    """A number of record ``j``; 0 where no record has one."""
    return ZERO if expr is None else numbers.lower(expr, 0, lambda node: number_at(cell.record(node.value, j)))


@T.macro
def load_decays(cell: AloneCell, walk: Walk) -> None:
    """Log-decays of all records, by every warp for itself."""
    log_decay = cell.spec.record_layout.log_decay_scalar
    for h in list(range(cell.geo.heads)):
        head = dataclasses.replace(cell, hv=cell.hv + h)
        for slot in list(range(cell.geo.weight_slots)):
            at = h * cell.geo.weight_slots + slot
            walk.decay[at] = ZERO
            j = slot * WARP + cell.lane
            if tvm.tirx.all(log_decay is not None, j < cell.count):
                walk.decay[at] = record_number(head, walk.numbers[h], log_decay, j)


def left_row(cell: AloneCell, tile: Any, q: Any, h: int, r: Any) -> Any:
    """Where left vector ``r`` of head ``h`` of the thread's record ``q`` of a tile waits."""
    g = cell.geo
    place = ((tile % g.waiting * g.heads + h) * g.rounds + q) * g.depth + cell.thread // g.parts
    return place * g.rank + r


def piece_row(cell: AloneCell, m: Any) -> Any:
    """First of the rows of V of the thread's piece ``m``, inside the block's."""
    g = cell.geo
    return (m * g.parts + cell.thread % g.parts) * g.piece


def own_record(cell: AloneCell, tile: Any, q: Any) -> Any:
    """The thread's record number ``q`` of a tile."""
    return tile * STRIP + q * cell.geo.depth + cell.thread // cell.geo.parts


@T.macro
def fetch_lefts(cell: AloneCell, tile: Any) -> None:
    """The thread's left vectors of a tile on their way to shared memory, where there is such a tile."""
    g = cell.geo
    lefts = cell.shared["record_lefts"]
    if tile * STRIP < cell.count:
        for q in T.unroll(g.rounds):
            j = T.min(own_record(cell, tile, q), cell.count - 1)
            for h in list(range(g.heads)):
                for r, left in enumerate(cell.spec.record_layout.lefts):
                    source = dataclasses.replace(cell, hv=cell.hv + h).record(left.value, j)
                    for m in T.unroll(g.rows // g.piece):
                        row = cell.tile * g.span + piece_row(cell, m)
                        T.call_extern(
                            "handle",
                            "tl::cp_async_gs<16>",
                            T.address_of(lefts[left_row(cell, tile, q, h, r), piece_row(cell, m)]),
                            T.address_of(source.tensor[(*source.where, row)]),
                        )
    T.ptx_commit_group()


@T.macro
def multiply_vectors(
    cell: AloneCell, into: Any, at: int, keys: Any, first: Any, second: Any, walk: Walk, m: int
) -> None:
    """``into[at : at + 4]`` = the products of right vectors, the lane's two from ``first`` and ``second`` on, with read
    vectors of tile ``m``."""
    words = T.alloc_local((8,), keys.dtype)
    wide = cell.geo.K // PIECE
    for i in list(range(4)):
        into[at + i] = ZERO
    for c in list(range(wide // PIECE)):
        for h in list(range(2)):
            for p, start in enumerate((first, second)):
                for e in T.vectorized(2):
                    words[4 * h + 2 * p + e] = keys[start + c * PIECE + 2 * h + e]
        multiply(into, at, words, 0, walk.vectors, m * wide + c * PIECE)


@T.macro
def weigh_records(cell: AloneCell, walk: Walk) -> None:
    """Weights of all records, from their log-decays, newest first. Called by whole warps."""
    g = cell.geo
    carry = T.alloc_local((g.heads,), F32)
    if cell.spec.record_layout.log_decay_scalar is not None:
        for h in list(range(g.heads)):
            carry[h] = ZERO
            for slot in reversed(range(g.weight_slots)):
                suffix_sum(cell, walk.decay, h * g.weight_slots + slot, carry, h)
                walk.decay[h * g.weight_slots + slot] = T.exp(walk.decay[h * g.weight_slots + slot])


@T.macro
def take_weight(cell: AloneCell, walk: Walk, h: int, j: Any, into: Any, at: int) -> None:
    """``into[at]`` = the weight of record ``j``. Called by whole warps, the records of which share a slot."""
    g = cell.geo
    into[at] = T.float32(1)
    if cell.spec.record_layout.log_decay_scalar is not None:
        for slot in list(range(g.weight_slots)):
            weight = T.shfl_sync(walk.decay[h * g.weight_slots + slot], j % WARP, WARP)
            into[at] = T.Select(j // WARP == slot, weight, into[at])


@T.macro
def score_records(cell: AloneCell, lane: Lane, walk: Walk) -> None:
    """Weighed scores of the warp's records against all read vectors to shared memory, 0 where there is no record."""
    g, layout = cell.geo, cell.spec.record_layout
    sums, weights, pair = T.alloc_local((4,), F32), T.alloc_local((2 * g.heads,), F32), T.alloc_local((2,), F32)
    scores = cell.shared["record_scores"]
    wide = g.K // PIECE
    for m in list(range(g.own_tiles)):
        if lane.tile(cell, m) * STRIP < cell.count:
            for h in list(range(g.heads)):
                for p in list(range(2)):
                    j = lane.tile(cell, m) * STRIP + STEP * p + lane.g
                    take_weight(cell, walk, h, j, weights, 2 * h + p)
            for r, right in enumerate(layout.rights):
                for n in list(range(g.read_tiles)):
                    at = (m * g.rank + r) * 2
                    multiply_vectors(cell, sums, 0, walk.keys, at * wide, (at + 1) * wide, walk, n)
                    for p in list(range(2)):
                        j = lane.tile(cell, m) * STRIP + STEP * p + lane.g
                        if n * STEP + 2 * lane.t < g.vectors:
                            for h in list(range(g.heads)):
                                weight = weights[2 * h + p]
                                for e in list(range(2)):
                                    scale = weight if right.scale is None else weight * walk.scales[at + p]
                                    pair[e] = T.Select(j < cell.count, sums[2 * p + e] * scale, ZERO)
                                for e in T.vectorized(2):
                                    column = h * 2 * g.pairs + n * STEP + 2 * lane.t + e
                                    scores[j * g.rank + r, column] = pair[e]


@T.macro
def score_window(own: OwnRow, cell: AloneCell, lane: Lane, walk: Walk) -> None:
    """The scores of the window's own right vectors, without their numbers, by one warp a rank, to shared memory."""
    g = cell.geo
    keys, sums = T.alloc_local((g.K // PIECE,), cell.spec.io), T.alloc_local((4,), F32)
    for r, right in enumerate(cell.spec.program.rights):
        node = factored(right)[1]
        if lane.warp == g.warps - 1 - r % g.warps:
            load_lane(cell, lane, keys, 0, node.value[0], cell.input(node, T.min(lane.g, g.T - 1)))
            for n in list(range(g.read_tiles)):
                multiply_vectors(cell, sums, 0, keys, 0, 0, walk, n)
                for e in list(range(2)):
                    vector = n * STEP + 2 * lane.t + e
                    if tvm.tirx.all(lane.g < g.T, vector < g.vectors):
                        cell.shared["scores"][window_row(own) + lane.g, r * g.vectors + vector] = sums[e]


@T.macro
def sum_tile(cell: AloneCell, tile: Any, totals: Any) -> None:
    """``totals[heads * vectors * rows]`` += left vectors of the thread's records of a tile, times their scores."""
    g = cell.geo
    lefts, score = T.alloc_local((g.rows,), g.left_dtype), T.alloc_local((2 * g.pairs,), F32)
    for q in T.unroll(g.rounds):
        j = own_record(cell, tile, q)
        for h in list(range(g.heads)):
            for r in T.unroll(g.rank):
                for m in T.unroll(g.pairs):
                    for e in T.vectorized(2):
                        score[2 * m + e] = cell.shared["record_scores"][j * g.rank + r, (h * g.pairs + m) * 2 + e]
                for m in T.unroll(g.rows // g.piece):
                    for e in T.vectorized(g.piece):
                        row = left_row(cell, tile, q, h, r)
                        lefts[m * g.piece + e] = cell.shared["record_lefts"][row, piece_row(cell, m) + e]
                for v in T.unroll(g.vectors):
                    for e in T.unroll(g.rows):
                        at = (h * g.vectors + v) * g.rows + e
                        totals[at] = totals[at] + score[v] * T.cast(lefts[e], F32)


@T.macro
def sum_records(cell: AloneCell) -> None:
    """What is read of all records, to shared memory in ``depth`` parts."""
    g = cell.geo
    totals = T.alloc_local((g.heads * g.vectors * g.rows,), F32)
    partial = cell.shared["partial"]
    for i in T.unroll(g.heads * g.vectors * g.rows):
        totals[i] = ZERO
    for tile in T.serial(T.ceildiv(cell.count, STRIP)):
        T.ptx_wait_group(g.waiting - 1)
        sum_tile(cell, tile, totals)
        if g.waiting < g.record_tiles:
            fetch_lefts(cell, tile + g.waiting)
        else:
            T.ptx_commit_group()
    if g.together:
        T.sync_threads()
    for v in list(range(g.heads * g.vectors)):
        row = cell.thread // g.parts * g.heads * g.vectors + v
        for m in list(range(g.rows // g.piece)):
            for e in T.vectorized(g.piece):
                partial[row, piece_row(cell, m) + e] = totals[v * g.rows + m * g.piece + e]


@T.macro
def take_reads(cell: AloneCell, h: int, rows: Rows) -> None:
    """A thread's own row of what head ``h`` read of all records."""
    g = cell.geo
    for v in list(range(g.vectors)):
        read, t = rows.reads[v % g.reads], v // g.reads
        for d in list(range(g.depth)):
            part = cell.shared["partial"][(d * g.heads + h) * g.vectors + v, cell.thread]
            read[t] = part if d == 0 else read[t] + part


@T.macro
def take_nothing(cell: AloneCell, rows: Rows) -> None:
    for buffer in rows.reads:
        for t in T.unroll(cell.geo.T):
            buffer[t] = ZERO


def wanted(cell: Cell, *exprs: Expr | None) -> list[Definition]:
    """The numbers of a token that ``exprs`` need."""
    names = {n.value for n in leaves_of(exprs, "scalar")}
    return [d for d in cell.spec.program.definitions if d.name in names]


def row_numbers(cell: Cell) -> list[Definition]:
    """The numbers that a thread needs for its row, or for the record's fields."""
    program = cell.spec.program
    numbers = [factored(e)[0] for e in (*program.reads, *program.rights)]
    fields = [f.expr for f in token_fields(cell)]
    return wanted(cell, *value_exprs(cell), program.log_decay_scalar, *numbers, *fields)


@T.macro
def deal_heads(cell: Cell, token: Token, head: Any) -> None:
    """The numbers of the one token, those that need each other by one warp, the groups of which have a head each."""
    warps = cell.geo.schedule.threads // WARP
    dealt, shared = families(cell.spec.program.definitions), row_numbers(cell)
    for warp in list(range(min(warps, len(dealt)))):
        mine = [d for family in dealt[warp::warps] for d in family]
        if cell.thread // WARP == warp:
            compute_numbers(cell, token, mine)
            share_numbers(cell, token, head, [d for d in mine if d in shared])


@T.macro
def deal_window(cell: Cell, token: Token, length: Any) -> None:
    """The numbers of a window's tokens, a group each, and what they append."""
    g = cell.geo
    for q in list(range(ceil_div(g.T, g.groups))):
        if q * g.groups + cell.warp_group < g.T:
            take_token(cell, token, length, q)
            if own_token(cell, q) < g.T:
                share_numbers(cell, token, own_token(cell, q))


@T.macro
def append_heads(cell: Cell, token: Token, head: Any, heads: int) -> None:
    """The records of the one token, after a barrier, a group each."""
    if cell.group < heads:
        recall_numbers(cell, token, wanted(cell, *(f.expr for f in token_fields(cell))), head)
        append_token(cell, token, 0)


@T.macro
def solve_tokens(cell: Cell, token: Token, rows: Rows, length: Any) -> None:
    """The tokens of a thread's row, what was read of records being there."""
    rows.passed[0] = T.float32(1)
    for t in T.unroll(cell.geo.T):
        solve_token(cell, token, rows, t)
        for r, right in enumerate(cell.spec.program.rights):
            rows.weighed[r][t] = rows.weighed[r][t] * lower_row(cell, token, rows, factored(right)[0], t)
        write_token(cell, token, rows, length, t)


def parts(cell: Cell, shapes: dict[str, tuple[int, ...]], homes: dict[str, tuple[str, int]]) -> dict[str, Part]:
    """Arrays in shared memory that may lie inside others."""
    placed = {name: homes.get(name, (name, 0)) for name in shapes}
    return {name: Part(cell.shared[home], first, shapes[name][1]) for name, (home, first) in placed.items()}


def with_fold_arrays(cell: Cell) -> Cell:
    """``cell`` with what a fold needs in shared memory."""
    g = cell.geo
    shapes = {name: shape for name, shape in g.folding.fold_arrays.items() if name in g.fold_homes}
    return dataclasses.replace(cell, geo=g.folding, shared={**cell.shared, **parts(cell, shapes, g.fold_homes)})


def with_arrays(cell: Cell, alone: Alone) -> Cell:
    """``cell`` with what :attr:`Alone.needed` names in shared memory."""
    made = parts(cell, alone.needed, alone.homes)
    if alone.together:
        made["partial"] = made["record_lefts"]
    return dataclasses.replace(cell, shared={**cell.shared, **made, "numbers": made["head_numbers"]})


@T.macro
def run_records(cell: Cell, alone: AloneCell, length: Any) -> None:
    """One row with at least one token and no checkpoint, that does not fold. ``cell`` and ``alone``: the same with the
    geometry of ordinary rows, which tokens are dealt by, and with that of rows that have records alone."""
    g, a = cell.geo, alone.geo
    lane = Lane.of(alone)
    heads = [OwnRow.of(cell, h) for h in range(a.heads)]
    head = cell.group % a.heads
    numbers = cell.shared["numbers"].array
    dealt = dataclasses.replace(cell, hv=cell.hv + head, shared={**cell.shared, "numbers": numbers})
    token, walk, rows = token_registers(cell), record_registers(alone), [row_registers(own) for own in heads]
    if g.T == 1:
        load_token(dealt, token, 0)
    elif cell.warp_group < g.T:
        load_token(cell, token, T.min(cell.group, g.T - 1))
    load_keys(alone, lane, walk)
    load_vectors(alone, lane, walk)
    load_decays(alone, walk)
    if heads[0].owner:
        for h, own in enumerate(heads):
            load_values(own, rows[h])
    for tile in list(range(a.waiting)):
        fetch_lefts(alone, tile)
    if g.T == 1:
        deal_heads(dealt, token, head)
    else:
        deal_window(dealt, token, length)
    weigh_records(alone, walk)
    score_records(alone, lane, walk)
    if g.T > 1:
        score_window(heads[0], alone, lane, walk)
    T.sync_threads()
    if cell.count > 0:
        sum_records(alone)
        T.sync_threads()
        if heads[0].owner:
            for h in list(range(a.heads)):
                take_reads(alone, h, rows[h])
    else:
        for h in list(range(a.heads)):
            take_nothing(alone, rows[h])
    if heads[0].owner:
        for h, own in enumerate(heads):
            solve_tokens(own, token, rows[h], length)
    if g.T == 1:
        append_heads(dealt, token, head, a.heads)
