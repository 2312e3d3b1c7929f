"""What the tensor-core templates load and stage (:mod:`~kvbuffer_codegen.schedules.gpu_mma`): the tile and the records
of a row, and the vectors of its tokens, to shared memory; left vectors to registers as operands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tilelang.language as T

from kvbuffer_codegen.ir import expr as ex
from kvbuffer_codegen.ir.expr import Expr
from kvbuffer_codegen.ir.forms import STATES
from kvbuffer_codegen.schedules.geometry import STEP, STRIP, WARP, Geometry, factored
from kvbuffer_codegen.schedules.gpu_tile import (
    F32,
    ZERO,
    Cell,
    Leaves,
    Place,
    access,
    leaves_of,
    load_columns,
    lower,
    number_at,
    store_columns,
    suffix_sum,
)
from kvbuffer_codegen.schedules.gpu_token import (
    Token,
    append_token,
    compute_token,
    own_token,
    recall_numbers,
    share_numbers,
    take_token,
)


@dataclass
class Lane:
    """Where a lane of a product stands: its warp's first strip and part of the columns, and its number ``l`` and place
    (g, t) in the warp."""

    warp: Any
    strip: Any
    part: Any
    l: Any
    g: Any
    t: Any

    @classmethod
    def of(cls, cell: Cell) -> Lane:
        warp, lane = cell.thread // WARP, cell.thread % WARP
        return cls(warp, warp // cell.geo.parts * cell.geo.owned, warp % cell.geo.parts, lane, lane // 4, lane % 4)

    def row(self, o: int) -> Any:
        """The first of its two rows of the warp's ``o``-th strip, inside the tile."""
        return (self.strip + o) * STRIP + 2 * self.g


@dataclass
class Records:
    """Registers for a row's records.

    numbers  parameters that decays and scales need
    keys     leaves of the right vectors that this group stages, unless they are copied
    lefts    [owned * rank * steps * 4] of lane (g, t), as operands: records 2 t and 2 t + 1 of a step, two rows
             each
    decay    [slots] log-decay of records lane, lane + lanes, ..., then the weight it makes
    scales   [rank * slots] what multiplies their stored right vectors
    carry    [1] sum of all log-decays
    """

    numbers: Leaves
    keys: Leaves
    lefts: Any
    decay: Any
    scales: Any
    carry: Any


def key_row(cell: Cell, r: int, j: Any) -> Any:
    """The row of shared keys that has right vector ``r`` of record ``j``; the window's tokens follow the records."""
    return r * (cell.geo.padded_records + cell.geo.T) + j


def existing(cell: Cell, j: Any) -> Any:
    """Record ``j``, or where there is none, one that is there or the next to be: a load that no branch guards, so that
    the addresses of all are computed together."""
    return T.max(T.min(j, cell.count - 1), 0)


def record_registers(cell: Cell) -> Records:
    g, layout = cell.geo, cell.spec.record_layout
    numbers, keys = Leaves(cell.spec), Leaves(cell.spec)
    scales = [right.scale for right in layout.rights]
    for node in leaves_of([layout.log_decay_scalar, *scales], "input"):
        numbers.held[node] = T.alloc_local((1,), F32)
    for node in leaves_of([] if g.copied_keys else [right.vector for right in layout.rights], "field", "input"):
        name = node.value if node.op == "field" else node.value[0]
        size = (g.columns if node.axes else 1) * (g.key_rounds if node.op == "field" else 1)
        keys.held[node] = T.alloc_local((size,), getattr(cell.args, name).dtype)
    return Records(
        numbers,
        keys,
        T.alloc_local((g.left_at(g.owned, 0, 0),), F32),
        T.alloc_local((g.weight_slots,), F32),
        T.alloc_local((g.rank * g.weight_slots,), F32),
        T.alloc_local((1,), F32),
    )


def tile_accesses(cell: Cell, lane: Lane) -> list[tuple[Any, Any]]:
    """(row, column) inside the tile of each of this lane's 16-byte accesses to the warp's rows and columns."""
    g = cell.geo
    width, values = g.K // g.parts, 16 // STATES[g.spec.state]
    pieces = [i * WARP + cell.thread % WARP for i in range(g.owned * STRIP * width // (values * WARP))]
    first = lane.strip * STRIP, lane.part * width
    return [(first[0] + n // (width // values), first[1] + n % (width // values) * values) for n in pieces]


@T.macro
def fetch_state(cell: Cell, lane: Lane) -> None:
    """The warp's rows and columns of the tile on their way to shared memory."""
    for row, column in tile_accesses(cell, lane):
        T.call_extern(
            "handle",
            "tl::cp_async_gs<16>",
            T.address_of(cell.shared["state"][row, column]),
            T.address_of(cell.args.state[cell.state(cell.tile * cell.geo.schedule.block_v + row, column)]),
        )


@T.macro
def clear_tile(cell: Cell, lane: Lane) -> None:
    """The same of a row without a checkpoint, whose state is 0."""
    state, width = cell.shared["state"], 16 // STATES[cell.spec.state]
    zeros = T.alloc_local((width,), state.dtype)
    for e in T.unroll(width):
        zeros[e] = T.cast(0, state.dtype)
    for row, column in tile_accesses(cell, lane):
        for e in T.vectorized(width):
            state[row, column + e] = zeros[e]


@T.macro
def write_tile(cell: Cell, lane: Lane) -> None:
    """The warp's rows and columns of the tile from shared memory to the pool."""
    first, values = cell.tile * cell.geo.schedule.block_v, 16 // STATES[cell.spec.state]
    for row, column in tile_accesses(cell, lane):
        for e in T.vectorized(values):
            cell.args.state[cell.state(first + row, column + e)] = cell.shared["state"][row, column + e]


@T.macro
def load_numbers(cell: Cell, records: Records) -> None:
    """Log-decays and scales of the records that this lane weighs."""
    g, layout = cell.geo, cell.spec.record_layout
    for node, buffer in records.numbers.held.items():
        buffer[0] = number_at(cell.input(node, 0))
    for slot in list(range(g.weight_slots)):
        j = slot * g.lanes + cell.lane
        if layout.log_decay_scalar is not None:
            records.decay[slot] = record_number(cell, records, layout.log_decay_scalar, j)
        for r, right in enumerate(layout.rights):
            one = ex.const(1.0) if right.scale is None else right.scale
            records.scales[r * g.weight_slots + slot] = record_number(cell, records, one, j)


def record_number(cell: Cell, records: Records, expr: Expr, j: Any) -> Any:
    j = existing(cell, j)
    return records.numbers.lower(expr, 0, lambda node: number_at(cell.record(node.value, j)))


@T.macro
def copy_keys(cell: Cell) -> None:
    """Right vectors that are stored as they are on their way to shared memory, 0 where there is no record."""
    g, keys = cell.geo, cell.shared["keys"]
    size = g.piece * STATES[keys.dtype]
    for q in list(range(g.key_rounds)):
        j = q * g.groups + cell.group
        if j < g.padded_records:
            for r, right in enumerate(cell.spec.record_layout.rights):
                source = cell.record(right.vector.value, existing(cell, j))
                for m in list(range(g.pieces)):
                    T.call_extern(
                        "handle",
                        f"tl::cp_async_gs_conditional<{size}>",
                        T.address_of(keys[key_row(cell, r, j), cell.column(m * g.piece)]),
                        T.address_of(source.tensor[(*source.where, cell.column(m * g.piece))]),
                        j < cell.count,
                    )


@T.macro
def load_keys(cell: Cell, records: Records) -> None:
    """What the right vectors are built from of records group, groups + group, ..."""
    g = cell.geo
    for node, buffer in records.keys.held.items():
        if node.op == "input":
            load_columns(cell, buffer, cell.input(node, 0), access(cell.spec, node.value[0], g.piece))
    for q in list(range(g.key_rounds)):
        for node, buffer in records.keys.held.items():
            if node.op == "field":
                source = cell.record(node.value, existing(cell, q * g.groups + cell.group))
                if len(node.axes) > 0:
                    load_columns(cell, buffer, source, access(cell.spec, node.value, g.piece), q * g.columns)
                else:
                    buffer[q] = number_at(source)


@T.macro
def load_lefts(cell: Cell, lane: Lane, records: Records) -> None:
    """This lane's operands of left vectors."""
    g, layout = cell.geo, cell.spec.record_layout
    first = cell.tile * g.schedule.block_v
    for r, left in enumerate(layout.lefts):
        for i in list(range(2 * g.record_steps)):
            for n, part in enumerate(left.args if left.op == "add" else (left,)):
                source = cell.record(part.value, existing(cell, left_record(lane, i)))
                for o in list(range(g.owned)):
                    at = g.left_at(o, r, i // 2) + i % 2 * 2
                    raw = T.alloc_local((2,), source.tensor.dtype)
                    for p in T.vectorized(2):
                        raw[p] = source.tensor[(*source.where, first + lane.row(o) + p)]
                    for p in list(range(2)):
                        if n == 0:
                            records.lefts[at + p] = T.cast(raw[p], F32)
                        else:
                            records.lefts[at + p] = records.lefts[at + p] + T.cast(raw[p], F32)


def left_record(lane: Lane, i: int) -> Any:
    """The record of the lane's ``i``-th pair of left values: two a step."""
    return i // 2 * STEP + 2 * lane.t + i % 2


@T.macro
def clear_missing(cell: Cell, lane: Lane, records: Records) -> None:
    """Left vectors of records that do not exist become nothing."""
    g = cell.geo
    for i in list(range(2 * g.record_steps)):
        for r in list(range(g.rank)):
            for o in list(range(g.owned)):
                for p in list(range(2)):
                    at = g.left_at(o, r, i // 2) + i % 2 * 2 + p
                    records.lefts[at] = T.Select(left_record(lane, i) < cell.count, records.lefts[at], ZERO)


@T.macro
def stage_weights(cell: Cell, records: Records) -> None:
    """What multiplies each record's stored right vectors, its scale and the decays after it, and behind the last the
    decay of all: to shared memory. Called by one warp."""
    g, weights = cell.geo, cell.shared["weights"]
    records.carry[0] = ZERO
    for slot in reversed(range(g.weight_slots)):
        there = slot * g.lanes + cell.lane < cell.count
        records.decay[slot] = T.Select(there, records.decay[slot], ZERO)
        for r in list(range(g.rank)):
            at = r * g.weight_slots + slot
            records.scales[at] = T.Select(there, records.scales[at], ZERO)
        if cell.spec.record_layout.log_decay_scalar is not None:
            suffix_sum(cell, records.decay, slot, records.carry, 0)
            records.decay[slot] = T.exp(records.decay[slot])
            for r in list(range(g.rank)):
                at = r * g.weight_slots + slot
                records.scales[at] = records.scales[at] * records.decay[slot]
        for r in list(range(g.rank)):  # by all groups of the warp, the same values
            weights[weight_place(g, r, slot * g.lanes + cell.lane)] = records.scales[r * g.weight_slots + slot]
    weights[weight_place(g, g.rank, 0)] = T.exp(records.carry[0])


def weight_of(cell: Cell, lane: Lane, r: int, s: int, e: int) -> Any:
    """The weight of right vector ``r`` of the lane's record ``e`` of step ``s``."""
    return cell.shared["weights"][weight_place(cell.geo, r, s * STEP + 2 * lane.t + e)]


def weight_place(g: Geometry, r: int, j: Any) -> Any:
    return r * g.weight_slots * g.lanes + j


@T.macro
def stage_keys(cell: Cell, records: Records) -> None:
    """Right vectors of records to shared memory, 0 where there is none."""
    g, keys = cell.geo, cell.shared["keys"]
    values = T.alloc_local((g.columns,), keys.dtype)
    for q in list(range(g.key_rounds)):
        j = q * g.groups + cell.group
        if j < g.padded_records:
            for r, right in enumerate(cell.spec.record_layout.rights):
                row = Place(keys, (key_row(cell, r, j),))
                if j < cell.count:
                    for c in T.unroll(g.columns):
                        values[c] = key_value(cell, records, right.vector, q, c)
                    store_columns(cell, values, row, shared_width(g, keys))
                else:
                    for c in T.unroll(g.columns):
                        values[c] = T.cast(0, keys.dtype)
                    store_columns(cell, values, row, shared_width(g, keys))


def shared_width(g: Geometry, array: Any) -> int:
    """Columns of one access to an array in shared memory."""
    return min(g.piece, 16 // STATES[array.dtype])


def key_value(cell: Cell, records: Records, vector: Expr, q: int, c: Any) -> Any:
    """Column register ``c`` of a right vector of the group's ``q``-th record."""

    def leaf(node: Expr) -> Any:
        place = q if node.op == "field" else 0
        return T.cast(records.keys.held[node][place * cell.geo.columns + c if node.axes else place], F32)

    if cell.geo.key_dtype != F32:  # a field as it is stored
        return records.keys.held[vector][q * cell.geo.columns + c]
    return lower(vector, leaf, cell.spec)


@T.macro
def stage_token(cell: Cell, token: Token, length: Any, q: int) -> None:
    """The group's ``q``-th token of the window; called by whole warps."""
    g, program = cell.geo, cell.spec.program
    t = own_token(cell, q)
    if g.appends_late:
        compute_token(cell, token)
    else:
        take_token(cell, token, length, q)
    if t < g.T:
        own = [key_row(cell, r, g.padded_records + t) for r in range(g.rank)]
        stage_vectors(cell, token, program.reads, cell.shared["reads"], [t * g.reads + i for i in range(g.reads)])
        stage_vectors(cell, token, program.rights, cell.shared["keys"], own)
        share_numbers(cell, token, t)
        if program.log_decay_scalar is not None and cell.lane == 0:
            cell.shared["numbers"][t, len(program.definitions)] = T.exp(token.leaves.lower(program.log_decay_scalar))


@T.macro
def append_tokens(cell: Cell, token: Token, length: Any) -> None:
    """The record of the group's one token."""
    if cell.group < length:
        recall_numbers(cell, token, cell.spec.program.definitions, cell.group)
        append_token(cell, token, cell.group)


@T.macro
def stage_vectors(cell: Cell, token: Token, vectors: Any, into: Any, rows: Any) -> None:
    """Vectors over K without the numbers that multiply them."""
    values = T.alloc_local((cell.geo.columns,), into.dtype)
    for vector, row in zip(vectors, rows, strict=True):
        rest = factored(vector)[1]
        for c in T.unroll(cell.geo.columns):
            values[c] = token.leaves.lower(rest, c) if into.dtype == F32 else token.leaves.held[rest][c]
        store_columns(cell, values, Place(into, (row,)), shared_width(cell.geo, into))
