"""Blocks that own all of V of an 8-bit state too large for registers: they walk its tiles, several times over.

A channel's scale is a maximum over all of V, so no tile can be rounded before every tile was seen. Each *phase* walks
all tiles and computes them anew; phase ``r`` learns the channel scales of the call's rounding number ``r`` (a fold is
number 0, the update of a step 1), later phases use them, and only the last one writes.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import tilelang.language as T

from kvbuffer_codegen.schedules.geometry import WARP, ceil_div
from kvbuffer_codegen.schedules.gpu_scaled import scale_of
from kvbuffer_codegen.schedules.gpu_tile import ZERO, Cell


@T.macro
def sweep(cell: Cell, target: Cell, first: Any, writes: Any, run: Any) -> None:
    """``run(cell, target)`` of every tile in the phases from ``first`` on; ``writes``: whether the call rounds at all.

    ``target`` is the row that the state is written to.
    """
    g = cell.geo
    head = T.alloc_local((1,), "int32")
    for r in T.unroll(g.roundings):
        for q in T.serial(ceil_div(g.padded_k, g.schedule.threads)):
            if q * g.schedule.threads + cell.thread < g.padded_k:
                cell.shared["channels"][r, q * g.schedule.threads + cell.thread] = ZERO
    for phase in T.serial(first, g.roundings + 1):
        for tile in T.serial(g.sweeps):
            T.sync_threads()  # before the tile uses the shared memory of the last one
            # The same head, which no compiler sees: it would keep all that tiles have in common in registers.
            head[0] = T.shfl_sync(cell.hv, 0, WARP)
            run(at_tile(cell, head[0], phase, tile), at_tile(target, head[0], phase, tile))
    T.sync_threads()  # the old scales are read by every tile
    if writes:
        for q in T.serial(ceil_div(g.K, g.schedule.threads)):
            store_channel(target, q * g.schedule.threads + cell.thread)


def at_tile(cell: Cell, hv: Any, phase: Any, tile: Any) -> Cell:
    return dataclasses.replace(cell, hv=hv, phase=phase, tile=tile)


@T.macro
def store_channel(cell: Cell, k: Any) -> None:
    if k < cell.geo.K:
        channels = cell.args.state_channels
        channels[(*cell.lead, cell.slot, cell.hv, k)] = scale_of(cell.shared["channels"][cell.geo.roundings - 1, k])
