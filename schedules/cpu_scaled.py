"""An 8-bit state on a CPU: its scales, and folds and steps, which choose new ones from the whole new tile."""

from __future__ import annotations

from typing import Any

import tilelang.language as T

from kvbuffer_codegen.ir.storage import FORMATS, LEAST_SCALE
from kvbuffer_codegen.schedules import common
from kvbuffer_codegen.schedules.cpu import Cell
from kvbuffer_codegen.schedules.cpu_blocks import clear_reads
from kvbuffer_codegen.schedules.cpu_random import draw


@T.macro
def load_scales(c: Any) -> None:
    for v in T.serial(c.V):
        c.row_scale[v] = c.arguments.state_rows[(*c.lead, c.slot[0], c.head[0], v)]
    for k in T.serial(c.K):
        c.channel_scale[k] = c.arguments.state_channels[(*c.lead, c.slot[0], c.head[0], k)]


@T.macro
def fold_scaled(c: Any) -> None:
    """As ``cpu_blocks.fold``: the new tile as a whole, then its scales, its codes and what they give the reads."""
    if c.fresh[0] == 0:
        load_scales(c)
    for line in T.serial(c.lines):
        for x in T.serial(c.width):
            c.tile[line, x] = T.float32(0)
        for group in T.serial(c.groups):
            for x in T.serial(c.width):
                c.tile[line, x] = c.with_gathered(c.tile[line, x], group, line, x)
        if c.fresh[0] == 0:
            for x in T.serial(c.width):
                c.tile[line, x] = c.tile[line, x] + c.kept(line, x)
    store_tile(c)
    if c.T > 0:
        clear_reads(c)
        for line in T.serial(c.lines):
            for x in T.serial(c.width):
                c.tile[line, x] = stored(c, line, x)
        read_tile(c)


@T.macro
def update_scaled(c: Any) -> None:
    """As ``cpu_blocks.update``: the one token of a step applied to a state whose scales are loaded."""
    for line in T.serial(c.lines):
        if c.blank[0] == 0:
            for x in T.serial(c.width):
                c.tile[line, x] = stored(c, line, x) * c.token_decay(line, x) + c.written(line, x)
        else:
            for x in T.serial(c.width):
                c.tile[line, x] = c.written(line, x)
    store_tile(c)


def stored(c: Cell, line: Any, x: Any) -> Any:
    """A state element as its code and scales have it."""
    v, k = c.channels(line, x)
    return c.state(line, x) * c.row_scale[v] * c.channel_scale[k]


@T.macro
def read_tile(c: Any) -> None:
    """h += the reads of ``tile``."""
    for read in c.reads:
        for t in T.serial(c.length[0]):
            if c.spec.layout == "VK":
                for v in T.serial(c.V):
                    for lane in T.serial(c.lanes):
                        c.acc[lane] = c.side_by_side(tile_times(c, read, t, v), lane)
                    for half in c.halves:
                        for lane in T.serial(half):
                            c.acc[lane] = c.acc[lane] + c.acc[lane + half]
                    read.h[t, v] = c.acc[0]
            else:
                for k in T.serial(c.K):
                    for v in T.serial(c.V):
                        read.h[t, v] = read.h[t, v] + c.tile[k, v] * read.y[t, k]


def tile_times(c: Cell, read: Any, t: Any, v: Any) -> Any:
    """The terms over K of row ``v`` of the tile times a read's vector for token ``t``."""
    return lambda k: c.tile[v, k] * read.y[t, k]


@T.macro
def store_tile(c: Any) -> None:
    """Scales and codes of ``tile`` to the state (``ir.storage.scaled``)."""
    for line in T.serial(c.lines):
        for x in T.serial(c.width):
            c.tile[line, x] = common.saturated(c.tile[line, x], c.spec.state)
    if c.spec.layout == "VK":
        largest_across(c, c.channel_scale)
        invert(c.K, c.channel_scale, c.channel_inverse, 1.0)
        for line in T.serial(c.lines):
            for x in T.serial(c.width):
                c.tile[line, x] = c.tile[line, x] * c.channel_inverse[x]
        largest_along(c, c.row_scale)
    else:
        largest_along(c, c.channel_scale)
        invert(c.K, c.channel_scale, c.channel_inverse, 1.0)
        for line in T.serial(c.lines):
            for x in T.serial(c.width):
                c.tile[line, x] = c.tile[line, x] * c.channel_inverse[line]
        largest_across(c, c.row_scale)
    invert(c.V, c.row_scale, c.row_inverse, FORMATS[c.spec.state].largest)
    for line in T.serial(c.lines):
        for x in T.serial(c.width):
            c.tile[line, x] = c.tile[line, x] * c.row_inverse[c.channels(line, x)[0]]
        if c.spec.stochastic:
            draw(c, line)
        for x in T.serial(c.width):
            c.tile[line, x] = common.on_grid(c.tile[line, x], c.spec.state, c.offsets[x] if c.spec.stochastic else None)
        for x in T.serial(c.width):
            c.arguments.state[c.state_at(line, x, c.target)] = common.encoded(c.tile[line, x], c.spec.state)
    for v in T.serial(c.V):
        c.arguments.state_rows[(*c.lead, c.target[0], c.head[0], v)] = c.row_scale[v]
    for k in T.serial(c.K):
        c.arguments.state_channels[(*c.lead, c.target[0], c.head[0], k)] = c.channel_scale[k]


@T.macro
def largest_across(c: Any, out: Any) -> None:
    """out[x] = the largest magnitude in place x of the tile's lines."""
    for x in T.serial(c.width):
        out[x] = T.float32(0)
    for line in T.serial(c.lines):
        for x in T.serial(c.width):
            out[x] = T.max(out[x], T.max(c.tile[line, x], -c.tile[line, x]))


@T.macro
def largest_along(c: Any, out: Any) -> None:
    """out[line] = the largest magnitude of a line of the tile."""
    for line in T.serial(c.lines):
        out[line] = T.float32(0)
        for x in T.serial(c.width):
            out[line] = T.max(out[line], T.max(c.tile[line, x], -c.tile[line, x]))


@T.macro
def invert(count: int, scale: Any, inverse: Any, top: float) -> None:
    """inverse = top / scale, scale = scale / top; both 0 where the scale is as good as zero."""
    for i in T.serial(count):
        inverse[i] = T.Select(scale[i] > common.number(LEAST_SCALE), T.float32(top) / scale[i], T.float32(0))
    for i in T.serial(count):
        scale[i] = T.Select(scale[i] > common.number(LEAST_SCALE), scale[i] * common.number(1.0 / top), T.float32(0))
