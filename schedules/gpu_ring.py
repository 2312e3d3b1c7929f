"""Records of the ring on CUDA: how they are read, weighted by the decays after them, and folded into the state.

Lane l of every group carries one record of a chunk of ``lanes``: its weight and the rows of its left vectors that the
group holds. The right vectors, which all groups need, are dealt to the groups. Chunks are walked from the newest to
the oldest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tilelang.language as T

from kvbuffer_codegen.ir.expr import Expr
from kvbuffer_codegen.schedules.geometry import ceil_div
from kvbuffer_codegen.schedules.gpu_tile import (
    F32,
    ZERO,
    Cell,
    Leaves,
    access,
    existing,
    leaves_of,
    load_columns,
    load_rows,
    lower,
    number_at,
    suffix_sum,
)


@dataclass
class Ring:
    """Registers for records.

    leaves                what right vectors and decays are built from: of a batch of records what is stored
    lefts                 [slots * rank * rows] left vectors of the carried records
    rights                [rank * columns] right vectors of one record
    decay, value_decay    [slots], [slots * rows] log-decay of the carried records, then the weight it makes
    carry, value_carry    [1], [rows] the sum over the chunks walked
    """

    leaves: Leaves
    lefts: Any
    rights: Any
    decay: Any
    carry: Any
    value_decay: Any
    value_carry: Any


def key_leaves(cell: Cell) -> list[Expr]:
    """Leaves of the stored right vectors and of a stored log-decay over K: what is loaded once a record."""
    layout = cell.spec.record_layout
    return leaves_of([*(r.expr for r in layout.rights), layout.log_decay_key], "field", "input")


def ring_registers(cell: Cell) -> Ring:
    g, leaves = cell.geo, Leaves(cell.spec)
    layout = cell.spec.record_layout
    for node in key_leaves(cell):
        dtype = getattr(cell.args, node.value if node.op == "field" else node.value[0]).dtype
        leaves.held[node] = T.alloc_local(((g.columns if node.axes else 1) * g.batch,), dtype)
    for node in leaves_of([layout.log_decay_scalar], "input"):
        leaves.held.setdefault(node, T.alloc_local((1,), F32))
    for node in leaves_of([layout.log_decay_value], "input"):
        leaves.held.setdefault(node, T.alloc_local((g.rows if node.axes else 1,), F32))
    rows = g.rows if layout.log_decay_value is not None else 1
    slots = max(1, g.slots)
    return Ring(
        leaves,
        T.alloc_local((slots * g.rank * g.rows,), F32),
        T.alloc_local((g.rank * g.columns,), F32),
        T.alloc_local((slots,), F32),
        T.alloc_local((1,), F32),
        T.alloc_local((slots * rows,), F32),
        T.alloc_local((rows,), F32),
    )


@T.macro
def load_parameters(cell: Cell, ring: Ring) -> None:
    """Parameters that stored records still need."""
    for node, buffer in ring.leaves.held.items():
        if node.op == "input":
            if "K" in node.axes:
                load_columns(cell, buffer, cell.input(node, 0), access(cell.spec, node.value[0], cell.geo.piece))
            elif "V" in node.axes:
                load_rows(cell, buffer, 0, cell.input(node, 0), access(cell.spec, node.value[0], cell.geo.rows))
            else:
                buffer[0] = number_at(cell.input(node, 0))


@T.macro
def clear_carry(ring: Ring) -> None:
    """Before the newest chunk of a walk."""
    ring.carry[0] = ZERO
    for p in T.unroll(ring.value_carry.shape[0]):
        ring.value_carry[p] = ZERO


@T.macro
def load_lefts(cell: Cell, ring: Ring, j: Any, n: Any, slot: int) -> None:
    """Record ``j``'s left vectors and its log-decays over V and of the head to slot ``slot``; zeros where there is no
    such record."""
    g = cell.geo
    layout = cell.spec.record_layout
    rows = ring.value_carry.shape[0]
    at = slot * g.rank * g.rows
    ring.decay[slot] = ZERO
    for p in T.unroll(g.rank * g.rows):
        ring.lefts[at + p] = ZERO
    for p in T.unroll(rows):
        ring.value_decay[slot * rows + p] = ZERO
    if j < n:
        for r, left in enumerate(layout.lefts):
            load_left(cell, ring, left, j, at + r * g.rows)
        if layout.log_decay_scalar is not None:
            ring.decay[slot] = ring.leaves.lower(
                layout.log_decay_scalar, 0, lambda node: number_at(cell.record(node.value, j))
            )
        if layout.log_decay_value is not None:
            load_value_decay(cell, ring, layout.log_decay_value, j, slot * rows)


@T.macro
def load_left(cell: Cell, ring: Ring, left: Expr, j: Any, at: int) -> None:
    """The rows of one left vector of record ``j``: a field, or the sum of a high and a low part."""
    g = cell.geo
    if left.op == "field":
        load_rows(cell, ring.lefts, at, cell.record(left.value, j), access(cell.spec, left.value, g.rows))
    else:
        low = T.alloc_local((g.rows,), F32)
        names = [part.value for part in left.args]
        load_rows(cell, ring.lefts, at, cell.record(names[0], j), access(cell.spec, names[0], g.rows))
        load_rows(cell, low, 0, cell.record(names[1], j), access(cell.spec, names[1], g.rows))
        for p in T.unroll(g.rows):
            ring.lefts[at + p] = ring.lefts[at + p] + low[p]


@T.macro
def load_value_decay(cell: Cell, ring: Ring, value: Expr, j: Any, at: int) -> None:
    if value.op == "field":
        width = access(cell.spec, value.value, cell.geo.rows)
        load_rows(cell, ring.value_decay, at, cell.record(value.value, j), width)
    else:
        for p in T.unroll(cell.geo.rows):
            ring.value_decay[at + p] = ring.leaves.lower(value, p)


@T.macro
def weigh_lefts(cell: Cell, ring: Ring, slot: int) -> None:
    """Multiply the left vectors of slot ``slot`` by the decays after them. Called by whole warps; newest slot
    first."""
    g = cell.geo
    layout = cell.spec.record_layout
    at = slot * g.rank * g.rows
    if layout.log_decay_scalar is not None:
        suffix_sum(cell, ring.decay, slot, ring.carry, 0)
        ring.decay[slot] = T.exp(ring.decay[slot])
        for p in T.unroll(g.rank * g.rows):
            ring.lefts[at + p] = ring.lefts[at + p] * ring.decay[slot]
    if layout.log_decay_value is not None:
        for p in T.unroll(g.rows):
            q = slot * g.rows + p
            suffix_sum(cell, ring.value_decay, q, ring.value_carry, p)
            ring.value_decay[q] = T.exp(ring.value_decay[q])
            for r in T.unroll(g.rank):
                ring.lefts[at + r * g.rows + p] = ring.lefts[at + r * g.rows + p] * ring.value_decay[q]


@T.macro
def load_right(cell: Cell, ring: Ring, j: Any, m: Any) -> None:
    """What record ``j``'s right vectors are built from, this lane's columns, to place ``m`` of the batch; the record
    exists."""
    g = cell.geo
    for node in key_leaves(cell):
        if node.op == "field":
            if len(node.axes) > 0:
                width = access(cell.spec, node.value, g.piece)
                load_columns(cell, ring.leaves.held[node], cell.record(node.value, j), width, m * g.columns)
            else:
                ring.leaves.held[node][m] = number_at(cell.record(node.value, j))


@T.macro
def load_batch(cell: Cell, ring: Ring, first: Any, n: Any) -> None:
    """Records first + group, first + groups + group, ... to the batch, as far as they exist."""
    for m in T.unroll(cell.geo.batch):
        if first + m * cell.geo.groups + cell.group < n:
            load_right(cell, ring, first + m * cell.geo.groups + cell.group, m)


def right_value(cell: Cell, ring: Ring, r: int, m: Any, c: Any, scaled: bool = True) -> Any:
    """Column register ``c`` of right vector ``r`` of place ``m`` of the batch, with or without the number that
    multiplies it (:func:`right_scale`)."""
    right = cell.spec.record_layout.rights[r]
    return existing(cell, c, lower_right(cell, ring, right.expr if scaled else right.vector, m, c))


def right_scale(cell: Cell, ring: Ring, r: int, m: Any) -> Any:
    """The number that multiplies right vector ``r`` of place ``m`` of the batch."""
    scale = cell.spec.record_layout.rights[r].scale
    assert scale is not None
    return lower_right(cell, ring, scale, m, 0)


def lower_right(cell: Cell, ring: Ring, expr: Expr, m: Any, c: Any) -> Any:
    def leaf(node: Expr) -> Any:
        place = m if node.op == "field" else 0
        return T.cast(ring.leaves.held[node][place * cell.geo.columns + c if node.axes else place], F32)

    return lower(expr, leaf, cell.spec)


@T.macro
def load_records(cell: Cell, ring: Ring) -> None:
    """Whatever of the records is in registers at once, without a use of it in between."""
    g = cell.geo
    load_parameters(cell, ring)
    if not g.key_decay:
        load_batch(cell, ring, 0, cell.count)
    for slot in reversed(range(max(g.slots, g.one_chunk))):
        load_lefts(cell, ring, slot * g.lanes + cell.lane, cell.count, slot)


@T.macro
def weigh_records(cell: Cell, ring: Ring) -> None:
    """Weigh the carried left vectors, slot by slot from the newest."""
    clear_carry(ring)
    for slot in reversed(range(max(cell.geo.slots, cell.geo.one_chunk))):
        weigh_lefts(cell, ring, slot)


@T.macro
def stage_lefts(cell: Cell, ring: Ring) -> None:
    g = cell.geo
    for r in T.unroll(g.rank):
        for p in T.unroll(g.rows):
            cell.shared["ring_lefts"][cell.lane * g.rank + r, cell.group_row + p] = ring.lefts[r * g.rows + p]


@T.macro
def stage_records(cell: Cell, ring: Ring) -> None:
    """The records of a row that has one chunk of them, weighted, from registers to shared memory."""
    g = cell.geo
    stage_lefts(cell, ring)
    for m in T.unroll(g.batch):
        j = m * g.groups + cell.group
        if j < cell.count:
            for r in list(range(g.rank)):
                for c in T.unroll(g.columns):
                    cell.shared["ring_rights"][j * g.rank + r, cell.column(c)] = right_value(cell, ring, r, m, c)


@T.macro
def stage_rights(cell: Cell, ring: Ring, first: Any, n: Any) -> None:
    """Right vectors of records first .. first + lanes - 1 to shared memory, weighted where a log-decay over K is after
    them.

    Ends with a barrier. Shared ``decay`` holds the sum over the newer chunks of the log-decay over K, and gains this
    chunk's.
    """
    g = cell.geo
    key = cell.spec.record_layout.log_decay_key
    staged = cell.shared["ring_rights"]
    total = T.alloc_local((1,), F32)
    for q in T.unroll(ceil_div(g.lanes, g.groups)):
        if q * g.groups + cell.group < T.min(g.lanes, n - first):
            load_right(cell, ring, first + q * g.groups + cell.group, 0)
            for r in list(range(g.rank)):
                for c in T.unroll(g.columns):
                    at = (q * g.groups + cell.group) * g.rank + r
                    staged[at, cell.column(c)] = right_value(cell, ring, r, 0, c)
            if key is not None:
                for c in T.unroll(g.columns):
                    cell.shared["ring_decay"][q * g.groups + cell.group, cell.column(c)] = ring.leaves.lower(key, c)
    T.sync_threads()
    if key is not None:
        for q in T.serial(ceil_div(g.padded_k, g.schedule.threads)):
            if q * g.schedule.threads + cell.thread < g.padded_k:
                total[0] = cell.shared["decay"][0, q * g.schedule.threads + cell.thread]
                for i in T.serial(T.min(g.lanes, n - first)):
                    for r in T.unroll(g.rank):
                        at = (T.min(g.lanes, n - first) - 1 - i) * g.rank + r
                        staged[at, q * g.schedule.threads + cell.thread] = staged[
                            at, q * g.schedule.threads + cell.thread
                        ] * T.exp(total[0])
                    newest = T.min(g.lanes, n - first) - 1 - i
                    total[0] = total[0] + cell.shared["ring_decay"][newest, q * g.schedule.threads + cell.thread]
                cell.shared["decay"][0, q * g.schedule.threads + cell.thread] = total[0]
        T.sync_threads()


@T.macro
def clear_key_decay(cell: Cell) -> None:
    """Each thread clears the channels that it walks in :func:`stage_rights`."""
    g = cell.geo
    if g.key_decay:
        for q in T.serial(ceil_div(g.padded_k, g.schedule.threads)):
            if q * g.schedule.threads + cell.thread < g.padded_k:
                cell.shared["decay"][0, q * g.schedule.threads + cell.thread] = ZERO


@T.macro
def sum_records(cell: Cell, ring: Ring, into: Any) -> None:
    """``into[rows * columns]`` = sum over the row's records of weight * left (x) right, in float32; at least one
    record is there."""
    g = cell.geo
    n = cell.count
    for i in T.unroll(g.rows * g.columns):
        into[i] = ZERO
    clear_carry(ring)
    clear_key_decay(cell)
    for chunk in T.serial(T.ceildiv(n, g.lanes)):
        first = (T.ceildiv(n, g.lanes) - 1 - chunk) * g.lanes
        load_lefts(cell, ring, first + cell.lane, n, 0)
        weigh_lefts(cell, ring, 0)
        stage_lefts(cell, ring)
        stage_rights(cell, ring, first, n)
        for e in T.serial(T.min(g.lanes, n - first)):
            for r in T.unroll(g.rank):
                for p in T.unroll(g.rows):
                    ring.lefts[r * g.rows + p] = cell.shared["ring_lefts"][e * g.rank + r, cell.group_row + p]
                for c in T.unroll(g.columns):
                    ring.rights[r * g.columns + c] = cell.shared["ring_rights"][e * g.rank + r, cell.column(c)]
                for p in T.unroll(g.rows):
                    for c in T.unroll(g.columns):
                        into[p * g.columns + c] = (
                            into[p * g.columns + c] + ring.lefts[r * g.rows + p] * ring.rights[r * g.columns + c]
                        )
        T.sync_threads()


def state_decay(cell: Cell, ring: Ring, p: Any, c: Any) -> Any:
    """The checkpoint's weight at register row ``p``, column ``c``, after all records were walked."""
    layout = cell.spec.record_layout
    weight: Any = T.float32(1)
    if layout.log_decay_scalar is not None:
        weight = weight * T.exp(ring.carry[0])
    if layout.log_decay_value is not None:
        weight = weight * T.exp(ring.value_carry[p])
    if layout.log_decay_key is not None:
        weight = weight * T.exp(cell.shared["decay"][0, cell.column(c)])
    return weight
