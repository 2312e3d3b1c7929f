"""The state tile on CUDA: to registers, folded, and back, 16 bytes an access where K (layout VK) or V (KV) allows
it."""

from __future__ import annotations

import math
from typing import Any

import tilelang.language as T
from tilelang import tvm

from kvbuffer_codegen.ir.forms import STATES
from kvbuffer_codegen.ir.philox import WORDS
from kvbuffer_codegen.schedules import common
from kvbuffer_codegen.schedules.geometry import Geometry
from kvbuffer_codegen.schedules.gpu_random import draw
from kvbuffer_codegen.schedules.gpu_ring import (
    Ring,
    load_parameters,
    load_records,
    stage_records,
    state_decay,
    sum_records,
    weigh_records,
)
from kvbuffer_codegen.schedules.gpu_scaled import choose_scales, load_scales
from kvbuffer_codegen.schedules.gpu_tile import F32, Cell, access


def state_access(g: Geometry) -> int:
    """Values of one access: neighbours along K in layout VK, along V in KV."""
    contiguous = g.piece if g.spec.layout == "VK" else g.rows
    return min(access(g.spec, "state", contiguous), 16 // STATES[g.spec.state])


def pieces(g: Geometry) -> int:
    """Accesses of a lane to its part of the tile."""
    return g.state // state_access(g)


def start(g: Geometry, i: Any) -> tuple[Any, Any]:
    """Register (row, column) at which access ``i`` starts."""
    width = state_access(g)
    if g.spec.layout == "VK":
        return i // (g.columns // width), i % (g.columns // width) * width
    return i % (g.rows // width) * width, i // (g.rows // width)


def register(g: Geometry, i: Any, e: Any) -> Any:
    """The register of value ``e`` of access ``i``."""
    p, c = start(g, i)
    return p * g.columns + c + (e if g.spec.layout == "VK" else e * g.columns)


def address(cell: Cell, i: Any, e: Any) -> tuple[Any, ...]:
    p, c = start(cell.geo, i)
    if cell.spec.layout == "VK":
        return cell.state(cell.row + p, cell.column(c) + e)
    return cell.state(cell.row + p + e, cell.column(c))


def exists(cell: Cell, i: Any) -> Any:
    """Whether access ``i`` lies inside the tile; it does so wholly or not at all."""
    p, c = start(cell.geo, i)
    return tvm.tirx.all(cell.column(c) < cell.geo.K, cell.row + p < cell.geo.V)


@T.macro
def load_state(cell: Cell, state: Any) -> None:
    """``state[rows * columns]`` in float32 from memory, 0 outside the tile and for a kv_only row, whose state is
    nothing."""
    request_state(cell, state)
    settle_state(cell, state)


@T.macro
def request_state(cell: Cell, state: Any) -> None:
    """The loads of :func:`load_state`. Where kv_only rows are expected, theirs is not read; where not, no load waits
    for the cursor that says so, and before its first use the state wants :func:`settle_state`."""
    if cell.spec.kv_only > 0:
        if cell.kv_only == 0:
            request_tile(cell, state)
        else:
            if not cell.geo.schedule.stage:
                clear_state(cell, state)
    else:
        request_tile(cell, state)
    if cell.geo.schedule.stage:
        T.ptx_commit_group()


@T.macro
def settle_state(cell: Cell, state: Any) -> None:
    """Nothing for a kv_only row that was read. It waits for the loads: whatever else can be done goes before it."""
    if cell.geo.schedule.stage:
        T.ptx_wait_group(0)
        take_tile(cell, state)
    if tvm.tirx.all(bool(cell.geo.schedule.stage) or cell.spec.kv_only == 0, cell.kv_only != 0):
        clear_state(cell, state)


@T.macro
def request_tile(cell: Cell, state: Any) -> None:
    if cell.geo.schedule.stage:
        copy_tile(cell)
    else:
        read_state(cell, state)


@T.macro
def copy_tile(cell: Cell) -> None:
    """The state on its way to shared memory, to where :func:`take_tile` of the same thread finds it."""
    g = cell.geo
    width = state_access(g)
    size = width * STATES[g.spec.state]
    for i in T.unroll(pieces(g)):
        if g.masked_columns or g.masked_rows:
            if exists(cell, i):
                copy_piece(cell, i, size)
            else:
                for e in T.vectorized(width):
                    cell.shared["tile"][parked(cell, i) + e] = T.cast(0, cell.args.state.dtype)
        else:
            copy_piece(cell, i, size)


@T.macro
def copy_piece(cell: Cell, i: Any, size: int) -> None:
    source = T.address_of(cell.args.state[address(cell, i, 0)])
    T.call_extern("handle", f"tl::cp_async_gs<{size}>", T.address_of(cell.shared["tile"][parked(cell, i)]), source)


@T.macro
def take_tile(cell: Cell, state: Any) -> None:
    g = cell.geo
    width = state_access(g)
    raw = T.alloc_local((width,), cell.args.state.dtype)
    for i in T.unroll(pieces(g)):
        for e in T.vectorized(width):
            raw[e] = cell.shared["tile"][parked(cell, i) + e]
        for e in T.unroll(width):
            state[register(g, i, e)] = common.decoded(raw[e], g.spec.state)


def parked(cell: Cell, i: Any) -> Any:
    """Where access ``i`` waits in shared memory: neighbouring threads touch different banks."""
    return (i * cell.geo.schedule.threads + cell.thread) * state_access(cell.geo)


@T.macro
def clear_state(cell: Cell, state: Any) -> None:
    for i in T.unroll(cell.geo.rows * cell.geo.columns):
        state[i] = T.float32(0)


@T.macro
def read_state(cell: Cell, state: Any, records: Ring | None = None) -> None:
    """The checkpoint to ``state``; with ``records``, decayed by them and added to the ``state`` that is there."""
    g = cell.geo
    width = state_access(g)
    raw = T.alloc_local((width,), cell.args.state.dtype)
    if g.spec.scaled:
        row_scales, channel_scales = T.alloc_local((g.rows,), F32), T.alloc_local((g.columns,), F32)
        load_scales(cell, row_scales, channel_scales)
    for i in T.unroll(pieces(g)):
        if g.masked_columns or g.masked_rows:
            for e in T.unroll(width):
                raw[e] = T.cast(0, raw.dtype)
            if exists(cell, i):
                for e in T.vectorized(width):
                    raw[e] = cell.args.state[address(cell, i, e)]
        else:
            for e in T.vectorized(width):
                raw[e] = cell.args.state[address(cell, i, e)]
        for e in T.unroll(width):
            at = register(g, i, e)
            value = common.decoded(raw[e], g.spec.state)
            if g.spec.scaled:
                value = value * row_scales[at // g.columns] * channel_scales[at % g.columns]
            if records is None:
                state[at] = value
            else:
                weight = state_decay(cell, records, at // g.columns, at % g.columns)
                state[at] = weight * value + state[at]


@T.macro
def store_state(cell: Cell, state: Any, write: bool, writes: Any = 0, rounding: int = 0) -> None:
    """Round ``state`` to the state's dtype (out of range saturates), and write it back where ``write``. ``writes``:
    those of this call before. Called by whole blocks; ``rounding`` as in ``choose_scales``."""
    g = cell.geo
    width = state_access(g)
    raw = T.alloc_local((width,), cell.args.state.dtype)
    if g.spec.scaled or g.spec.stochastic:
        offsets, rounded = T.alloc_local((width,), F32), T.alloc_local((width,), F32)
    if g.spec.scaled:
        row_scales, channel_scales = T.alloc_local((g.rows,), F32), T.alloc_local((g.columns,), F32)
        choose_scales(cell, state, row_scales, channel_scales, cell.final(write), rounding)
    for i in T.unroll(pieces(g)):
        if g.spec.stochastic:
            draw_access(cell, i, writes, offsets)
        for e in T.unroll(width):
            at = register(g, i, e)
            if g.spec.scaled or g.spec.stochastic:
                # Into a buffer of its own: TileLang reads what was reinterpreted once no second time after a store.
                rounded[e] = common.on_grid(state[at], g.spec.state, offsets[e] if g.spec.stochastic else None)
            if g.spec.scaled:
                raw[e] = common.encoded(rounded[e], g.spec.state)
                state[at] = rounded[e] * row_scales[at // g.columns] * channel_scales[at % g.columns]
            elif g.spec.stochastic:
                raw[e] = T.cast(rounded[e], g.spec.state)
                state[at] = T.cast(raw[e], F32)
            else:
                raw[e] = T.cast(common.saturated(state[at], g.spec.state), g.spec.state)
                state[at] = T.cast(raw[e], F32)
        if cell.final(write):
            if g.masked_columns or g.masked_rows:
                if exists(cell, i):
                    for e in T.vectorized(width):
                        cell.args.state[address(cell, i, e)] = raw[e]
            else:
                for e in T.vectorized(width):
                    cell.args.state[address(cell, i, e)] = raw[e]


@T.macro
def draw_access(cell: Cell, i: Any, writes: Any, offsets: Any) -> None:
    """The offsets of access ``i``'s values."""
    g = cell.geo
    count = math.gcd(state_access(g), WORDS)
    p, c = start(g, i)
    row, column = cell.row + p, cell.column(c)
    line, place = (row, column) if g.spec.layout == "VK" else (column, row)
    for e in list(range(0, state_access(g), count)):
        draw(cell, line, place + e, writes, offsets, e, count)


@T.macro
def fold(cell: Cell, ring: Ring, state: Any) -> None:
    """``state`` with all records folded in, however many: their sum, and the decayed checkpoint added to it once.

    The checkpoint is read here, whatever ``state`` held before: registers hold one tile, not two.
    """
    sum_records(cell, ring, state)
    if cell.kv_only == 0:
        read_state(cell, state, ring)
    if cell.geo.key_decay:
        T.sync_threads()  # before whoever walks records next clears the decays


@T.macro
def fold_pending(cell: Cell, ring: Ring, state: Any) -> None:
    """``state`` = checkpoint and records, of which there is at least one, and nothing is loaded yet."""
    if cell.geo.one_chunk:
        load_state(cell, state)
        load_records(cell, ring)
        weigh_records(cell, ring)
        stage_records(cell, ring)
        T.sync_threads()
        fold_staged(cell, ring, state)
    else:
        load_parameters(cell, ring)
        fold(cell, ring, state)


@T.macro
def fold_staged(cell: Cell, ring: Ring, state: Any) -> None:
    """As :func:`fold`, after :func:`stage_records` and a barrier, a few columns at a time: their sum needs few
    registers."""
    g = cell.geo
    width = min(4 if g.resident else 16 // g.rows, g.piece)  # a window leaves fewer registers
    total = T.alloc_local((g.rows * width,), F32)
    left = T.alloc_local((g.rows,), F32)
    right = T.alloc_local((width,), F32)
    for m in T.unroll(g.columns // width):
        for i in T.unroll(g.rows * width):
            total[i] = T.float32(0)
        for e in T.unroll(cell.count, unroll_factor=2):  # more in flight would need more registers
            for r in T.unroll(g.rank):
                for p in T.unroll(g.rows):
                    left[p] = cell.shared["ring_lefts"][e * g.rank + r, cell.group_row + p]
                for c in T.unroll(width):
                    right[c] = cell.shared["ring_rights"][e * g.rank + r, cell.column(m * width) + c]
                for p in T.unroll(g.rows):
                    for c in T.unroll(width):
                        total[p * width + c] = total[p * width + c] + left[p] * right[c]
        for p in T.unroll(g.rows):
            for c in T.unroll(width):
                at = p * g.columns + m * width + c
                state[at] = state[at] * state_decay(cell, ring, p, m * width + c) + total[p * width + c]
