"""decode and verify on CUDA of rows without a checkpoint (kv_only): all that they read is records.

    r_i(t) = sum_j e^{s_j} (b_j . x_i) a_j + sum over earlier tokens of the window

Keys go from memory to the operands of tensor cores: the sum over K has no order, so a lane's share of 32 columns is 8
neighbours, one access. A tile of 16 records is one warp's, which weighs its scores and leaves them in shared memory.
Behind a barrier every thread sums some records' left vectors, four rows of V, which it has asked for long before;
behind another a thread has one row and solves the tokens as in any window. Where a block has more threads than a
tile of V has rows, it serves rows of V of other tiles too, and their blocks leave: fewer scores, fewer waits.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import tilelang.language as T
from tilelang import tvm

from kvbuffer_codegen.ir.expr import Expr
from kvbuffer_codegen.schedules.gpu_mma import multiply
from kvbuffer_codegen.schedules.gpu_tile import (
    F32,
    ZERO,
    Cell,
    Leaves,
    Place,
    access,
    leaves_of,
    lower,
    number_at,
    suffix_sum,
)
from kvbuffer_codegen.schedules.gpu_token import (
    append_dealt,
    deal_token,
    load_token,
    own_token,
    share_numbers,
    take_token,
    token_registers,
)
from kvbuffer_codegen.schedules.gpu_window import (
    Rows,
    load_values,
    lower_row,
    row_registers,
    solve_token,
    window_row,
    write_token,
)
from kvbuffer_codegen.schedules.space_gpu import STEP, STRIP, WARP, Alone, ceil_div, factored

PIECE = 4  #: neighbouring columns of a lane in a product
WIDE = 2 * PIECE  #: and in an access


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


@dataclass
class Walk:
    """Registers for a row's records; lane (g, t) of a warp, ``rank`` = 1.

    numbers  parameters that decays and scales need
    vectors  [tiles of 8 * K / 4] read vector g of each tile, the lane's columns
    keys     [own tiles * 2 * K / 4] stored right vectors of records g and g + 8 of each, the same columns
    scales   [own tiles * 2] what multiplies them
    decay    [slots] log-decay of records lane, lane + 32, ..., then the weight it makes
    """

    numbers: Leaves
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

    def tile(self, cell: Cell, m: int) -> Any:
        """The warp's tile number ``m``."""
        return m * cell.geo.warps + self.warp


def record_registers(cell: Cell) -> Walk:
    g, layout = cell.geo, cell.spec.record_layout
    numbers = Leaves(cell.spec)
    for node in leaves_of([layout.log_decay_scalar, *(right.scale for right in layout.rights)], "input"):
        numbers.held[node] = T.alloc_local((1,), F32)
    wide = g.K // PIECE
    return Walk(
        numbers,
        T.alloc_local((g.read_tiles * wide,), cell.spec.io),
        T.alloc_local((g.own_tiles * g.rank * 2 * wide,), cell.spec.io),
        T.alloc_local((g.own_tiles * g.rank * 2,), F32),
        T.alloc_local((g.weight_slots,), F32),
    )


@T.macro
def load_lane(cell: Cell, lane: Lane, into: Any, at: Any, name: str, source: Place) -> None:
    """``into[at : at + K / 4]`` = the lane's columns of a vector over K."""
    width = access(cell.spec, name, WIDE)
    for c in T.unroll(cell.geo.K // (4 * width)):
        for e in T.vectorized(width):
            into[at + c * width + e] = source.tensor[(*source.where, (4 * c + lane.t) * width + e)]


@T.macro
def load_vectors(cell: Cell, lane: Lane, walk: Walk) -> None:
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
def load_keys(cell: Cell, lane: Lane, walk: Walk) -> None:
    """Right vectors of the warp's records, and what multiplies them."""
    g, layout = cell.geo, cell.spec.record_layout
    for node, buffer in walk.numbers.held.items():
        buffer[0] = number_at(cell.input(node, 0))
    for m in list(range(g.own_tiles)):
        if lane.tile(cell, m) * STRIP < cell.count:
            for r, right in enumerate(layout.rights):
                for p in list(range(2)):
                    j = T.min(lane.tile(cell, m) * STRIP + STEP * p + lane.g, cell.count - 1)
                    at = (m * g.rank + r) * 2 + p
                    name = right.vector.value
                    load_lane(cell, lane, walk.keys, at * (g.K // PIECE), name, cell.record(name, j))
                    if right.scale is not None:
                        walk.scales[at] = record_number(cell, walk, right.scale, j)


def record_number(cell: Cell, walk: Walk, expr: Expr, j: Any) -> Any:
    return walk.numbers.lower(expr, 0, lambda node: number_at(cell.record(node.value, j)))


@T.macro
def load_decays(cell: Cell, walk: Walk) -> None:
    """Log-decays of all records, by every warp for itself."""
    log_decay = cell.spec.record_layout.log_decay_scalar
    for slot in list(range(cell.geo.weight_slots)):
        walk.decay[slot] = ZERO
        if log_decay is not None:
            if slot * WARP + cell.lane < cell.count:
                walk.decay[slot] = record_number(cell, walk, log_decay, slot * WARP + cell.lane)


def left_place(cell: Cell, j: Any, r: Any, m: Any, e: Any = 0) -> tuple[Any, ...]:
    """Where value ``e`` of piece ``m`` of the thread's rows of left vector ``r`` of record ``j`` waits in shared
    memory."""
    g = cell.geo
    row, column = j * g.rank + r, piece_row(cell, m) + e
    return (row * g.span + column,) if len(cell.shared[g.parking].shape) == 1 else (row, column)


def piece_row(cell: Cell, m: Any) -> Any:
    """First of the rows of V of the thread's piece ``m``, inside the block's."""
    g = cell.geo
    return (m * g.parts + cell.thread % g.parts) * g.piece


def own_record(cell: Cell, tile: Any, q: Any) -> Any:
    """The thread's record number ``q`` of a tile."""
    return tile * STRIP + q * cell.geo.depth + cell.thread // cell.geo.parts


@T.macro
def fetch_lefts(cell: Cell) -> None:
    """The thread's left vectors on their way to shared memory, of the tiles that there are."""
    g = cell.geo
    for tile in T.serial(T.ceildiv(cell.count, STRIP)):
        for q in T.unroll(g.rounds):
            j = own_record(cell, tile, q)
            for r, left in enumerate(cell.spec.record_layout.lefts):
                source = cell.record(left.value, T.min(j, cell.count - 1))
                for m in T.unroll(g.rows // g.piece):
                    row = cell.tile * g.span + piece_row(cell, m)
                    T.call_extern(
                        "handle",
                        "tl::cp_async_gs<16>",
                        T.address_of(cell.shared[g.parking][left_place(cell, j, r, m)]),
                        T.address_of(source.tensor[(*source.where, row)]),
                    )
    T.ptx_commit_group()


@T.macro
def multiply_vectors(cell: Cell, into: Any, at: int, keys: Any, first: Any, second: Any, walk: Walk, m: int) -> None:
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
def weigh_records(cell: Cell, walk: Walk) -> None:
    """Weights of all records, from their log-decays, newest first. Called by whole warps."""
    carry = T.alloc_local((1,), F32)
    carry[0] = ZERO
    if cell.spec.record_layout.log_decay_scalar is not None:
        for slot in reversed(range(cell.geo.weight_slots)):
            suffix_sum(cell, walk.decay, slot, carry, 0)
            walk.decay[slot] = T.exp(walk.decay[slot])


@T.macro
def take_weight(cell: Cell, walk: Walk, j: Any, into: Any) -> None:
    """``into[0]`` = the weight of record ``j``. Called by whole warps, the records of which share a slot."""
    into[0] = T.float32(1)
    if cell.spec.record_layout.log_decay_scalar is not None:
        for slot in list(range(cell.geo.weight_slots)):
            weight = T.shfl_sync(walk.decay[slot], j % WARP, WARP)
            into[0] = T.Select(j // WARP == slot, weight, into[0])


@T.macro
def score_records(cell: Cell, lane: Lane, walk: Walk) -> None:
    """Weighed scores of the warp's records against all read vectors to shared memory, 0 where there is no record."""
    g, layout = cell.geo, cell.spec.record_layout
    sums, weight = T.alloc_local((4,), F32), T.alloc_local((1,), F32)
    weights, pair = T.alloc_local((2,), F32), T.alloc_local((2,), F32)
    wide = g.K // PIECE
    for m in list(range(g.own_tiles)):
        if lane.tile(cell, m) * STRIP < cell.count:
            for p in list(range(2)):
                take_weight(cell, walk, lane.tile(cell, m) * STRIP + STEP * p + lane.g, weight)
                weights[p] = weight[0]
            for r, right in enumerate(layout.rights):
                for n in list(range(g.read_tiles)):
                    at = (m * g.rank + r) * 2
                    multiply_vectors(cell, sums, 0, walk.keys, at * wide, (at + 1) * wide, walk, n)
                    for p in list(range(2)):
                        j = lane.tile(cell, m) * STRIP + STEP * p + lane.g
                        for e in list(range(2)):
                            scale = weights[p] if right.scale is None else weights[p] * walk.scales[at + p]
                            pair[e] = T.Select(j < cell.count, sums[2 * p + e] * scale, ZERO)
                        if n * STEP + 2 * lane.t < g.vectors:
                            for e in T.vectorized(2):
                                cell.shared["record_scores"][j * g.rank + r, n * STEP + 2 * lane.t + e] = pair[e]


@T.macro
def score_window(own: OwnRow, cell: Cell, lane: Lane, walk: Walk) -> None:
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
def sum_records(cell: Cell) -> None:
    """The left vectors that the thread has asked for, times their scores, to shared memory."""
    g = cell.geo
    totals, lefts = T.alloc_local((g.vectors * g.rows,), F32), T.alloc_local((g.rows,), g.left_dtype)
    score = T.alloc_local((ceil_div(g.vectors, 2) * 2,), F32)
    for i in T.unroll(g.vectors * g.rows):
        totals[i] = ZERO
    T.ptx_wait_group(0)
    for tile in T.serial(T.ceildiv(cell.count, STRIP)):
        for q in T.unroll(g.rounds):
            j = own_record(cell, tile, q)
            for r in T.unroll(g.rank):
                for m in T.unroll(ceil_div(g.vectors, 2)):
                    for e in T.vectorized(2):
                        score[2 * m + e] = cell.shared["record_scores"][j * g.rank + r, 2 * m + e]
                for m in T.unroll(g.rows // g.piece):
                    for e in T.vectorized(g.piece):
                        lefts[m * g.piece + e] = cell.shared[g.parking][left_place(cell, j, r, m, e)]
                for v in T.unroll(g.vectors):
                    for e in T.unroll(g.rows):
                        at = v * g.rows + e
                        totals[at] = totals[at] + score[v] * T.cast(lefts[e], F32)
    for v in list(range(g.vectors)):
        part = cell.thread // g.parts * g.vectors + v
        for m in list(range(g.rows // g.piece)):
            for e in T.vectorized(g.piece):
                cell.shared["partial"][part, piece_row(cell, m) + e] = totals[v * g.rows + m * g.piece + e]


@T.macro
def take_reads(cell: Cell, rows: Rows) -> None:
    """A thread's own row of what was read of all records."""
    g = cell.geo
    for v in list(range(g.vectors)):
        read, t = rows.reads[v % g.reads], v // g.reads
        for d in list(range(g.depth)):
            part = cell.shared["partial"][d * g.vectors + v, cell.thread]
            read[t] = part if d == 0 else read[t] + part


@T.macro
def take_nothing(cell: Cell, rows: Rows) -> None:
    for buffer in rows.reads:
        for t in T.unroll(cell.geo.T):
            buffer[t] = ZERO


@T.macro
def run_records(cell: Cell, alone: Cell, length: Any) -> None:
    """One row with at least one token and no checkpoint, that does not fold. ``cell`` and ``alone``: the same with the
    geometry of ordinary rows, which tokens are dealt by, and with that of rows that have records alone."""
    g = cell.geo
    own, lane = OwnRow(**{f.name: getattr(cell, f.name) for f in dataclasses.fields(cell)}), Lane.of(alone)
    token, rows, walk = token_registers(cell), row_registers(own), record_registers(alone)
    if cell.warp_group < g.T or g.dealt:
        load_token(cell, token, T.min(cell.group, g.T - 1))
    load_keys(alone, lane, walk)
    load_vectors(alone, lane, walk)
    load_decays(alone, walk)
    if own.owner:
        load_values(own, rows)
    fetch_lefts(alone)
    if g.dealt:
        deal_token(cell, token)
    else:
        for q in list(range(ceil_div(g.T, g.groups))):
            if q * g.groups + cell.warp_group < g.T:
                take_token(cell, token, length, q)
                if own_token(cell, q) < g.T:
                    share_numbers(cell, token, own_token(cell, q))
    weigh_records(alone, walk)
    score_records(alone, lane, walk)
    if g.T > 1:
        score_window(own, alone, lane, walk)
    T.sync_threads()
    if cell.count > 0:
        sum_records(alone)
        T.sync_threads()
        if own.owner:
            take_reads(alone, rows)
    else:
        take_nothing(alone, rows)
    if own.owner:
        rows.passed[0] = T.float32(1)
        for t in T.unroll(g.T):
            solve_token(own, token, rows, t)
            for r, right in enumerate(cell.spec.program.rights):
                rows.weighed[r][t] = rows.weighed[r][t] * lower_row(own, token, rows, factored(right)[0], t)
            write_token(own, token, rows, length, t)
    if g.dealt:
        append_dealt(cell, token)
