"""The scales of an 8-bit state on CUDA: read with the checkpoint, chosen anew from a whole tile in registers."""

from __future__ import annotations

from typing import Any

import tilelang.language as T
from tilelang import tvm

from kvbuffer_codegen.ir.storage import FORMATS, LEAST_SCALE
from kvbuffer_codegen.schedules import common
from kvbuffer_codegen.schedules.geometry import ceil_div
from kvbuffer_codegen.schedules.gpu_tile import ZERO, Cell, Place, access, load_columns, load_rows


@T.macro
def load_scales(cell: Cell, rows: Any, channels: Any) -> None:
    """The scales of the lane's rows and columns, 0 for those that do not exist."""
    g, where = cell.geo, (*cell.lead, cell.slot, cell.hv)
    load_rows(cell, rows, 0, Place(cell.args.state_rows, where), access(cell.spec, "state_rows", g.rows))
    load_columns(cell, channels, Place(cell.args.state_channels, where), access(cell.spec, "state_channels", g.piece))


@T.macro
def choose_scales(cell: Cell, state: Any, rows: Any, channels: Any, write: Any, rounding: int) -> None:
    """``state`` becomes its quotients by the new scales (``ir.storage.scaled``), which are stored where ``write``.
    Called by whole blocks, which own all of V; ``rounding``: the number of this one in the call (``gpu_sweep``)."""
    g = cell.geo
    largest, all_channels = cell.shared["channel_largest"], cell.shared["channels"]
    for i in T.unroll(g.rows * g.columns):
        state[i] = common.saturated(state[i], g.spec.state)
    for c in T.unroll(g.columns):
        channels[c] = ZERO
        for p in T.unroll(g.rows):
            channels[c] = T.max(channels[c], magnitude(state[p * g.columns + c]))
        largest[cell.group, cell.column(c)] = channels[c]
    T.sync_threads()
    for q in T.serial(ceil_div(g.padded_k, g.schedule.threads)):
        k = q * g.schedule.threads + cell.thread
        if k < g.padded_k:
            if g.sweeps > 1:
                if cell.phase == rounding:
                    for i in T.serial(g.groups):
                        all_channels[rounding, k] = T.max(all_channels[rounding, k], largest[i, k])
            else:
                all_channels[0, k] = ZERO
                for i in T.serial(g.groups):
                    all_channels[0, k] = T.max(all_channels[0, k], largest[i, k])
                all_channels[0, k] = scale_of(all_channels[0, k])
                if tvm.tirx.all(bool(write), k < g.K):
                    cell.args.state_channels[(*cell.lead, cell.slot, cell.hv, k)] = all_channels[0, k]
    T.sync_threads()
    for c in T.unroll(g.columns):
        if g.sweeps > 1:
            channels[c] = scale_of(all_channels[rounding, cell.column(c)])
        else:
            channels[c] = all_channels[0, cell.column(c)]
    for p in T.unroll(g.rows):
        rows[p] = ZERO
        for c in T.unroll(g.columns):
            at = p * g.columns + c
            state[at] = state[at] * inverse_of(channels[c], 1.0)
            rows[p] = T.max(rows[p], magnitude(state[at]))
        for mask in [1 << i for i in range(g.lanes.bit_length() - 1)]:
            rows[p] = T.max(rows[p], T.shfl_xor(rows[p], mask))
        rows[p] = scale_of(rows[p])
        for c in T.unroll(g.columns):
            state[p * g.columns + c] = state[p * g.columns + c] * inverse_of(rows[p], top(cell))
        rows[p] = rows[p] * common.number(1 / top(cell))
        if tvm.tirx.all(write, cell.lane == 0, cell.row + p < g.V):
            cell.args.state_rows[(*cell.lead, cell.slot, cell.hv, cell.row + p)] = rows[p]


def top(cell: Cell) -> float:
    return FORMATS[cell.spec.state].largest


def magnitude(x: Any) -> Any:
    return T.max(x, -x)


def scale_of(largest: Any) -> Any:
    return T.Select(largest > common.number(LEAST_SCALE), largest, T.float32(0))


def inverse_of(scale: Any, top: float) -> Any:
    return T.Select(scale > T.float32(0), T.float32(top) / scale, T.float32(0))
