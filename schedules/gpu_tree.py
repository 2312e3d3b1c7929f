"""A window that is a tree, on CUDA: a token sees its ancestors, met in order by a walk over the earlier tokens, newest
first. Tokens run in a loop of their own, not unrolled: left vectors and gates of up to 64 wait in local memory."""

from __future__ import annotations

from typing import Any

import tilelang.language as T
from tilelang import tvm

from kvbuffer_codegen.schedules import common
from kvbuffer_codegen.schedules.geometry import ceil_div, factored
from kvbuffer_codegen.schedules.gpu_ring import Ring
from kvbuffer_codegen.schedules.gpu_tile import F32, ZERO, Cell
from kvbuffer_codegen.schedules.gpu_token import Token


@T.macro
def find_parents(cell: Cell, length: Any) -> None:
    """The parents of the row's nodes to shared memory, -1 behind its length; ``length[0]`` = 0 where one does not come
    before its node. Ends with a barrier."""
    g = cell.geo
    for q in T.serial(ceil_div(g.T, g.schedule.threads)):
        t = q * g.schedule.threads + cell.thread
        if t < g.T:
            value, rest = common.index_words(cell.args.parents, cell.b, t)
            good = tvm.tirx.any(common.is_padding(value, rest), common.in_range(value, rest, t))
            cell.shared["parents"][0, t] = T.Select(t < length[0], T.Select(good, value, g.T), -1)
    T.sync_threads()
    for t in T.serial(g.T):
        if cell.shared["parents"][0, t] == g.T:
            length[0] = 0


@T.macro
def hear_ancestors(cell: Cell, rows: Any, past: Any, t: Any, first: int) -> None:
    """Reads of token ``t``, decayed over the path to it, and what its ancestors wrote. ``past``: their left vectors,
    then their gates; ``first``: the row of shared scores of the window's first token."""
    g = cell.geo
    heard = T.alloc_local((g.reads,), F32)
    ancestor = T.alloc_local((1,), "int32")
    rows.passed[0] = T.float32(1)
    for i in T.unroll(g.reads):
        heard[i] = ZERO
    ancestor[0] = cell.shared["parents"][0, t]
    for back in T.serial(t):
        if t - 1 - back == ancestor[0]:
            for i in list(range(g.reads)):
                for r in list(range(g.rank)):
                    score = cell.shared["scores"][first + t - 1 - back, (r * g.T + t) * g.reads + i]
                    heard[i] = heard[i] + rows.passed[0] * score * past[r][t - 1 - back]
            rows.passed[0] = rows.passed[0] * past[g.rank][t - 1 - back]
            ancestor[0] = cell.shared["parents"][0, t - 1 - back]
    for i in list(range(g.reads)):
        rows.reads[i][0] = rows.reads[i][0] * rows.passed[0] + heard[i]


@T.macro
def solve_tree(cell: Cell, token: Token, rows: Any, ring: Ring, state: Any, n: Any, length: Any, steps: Any) -> None:
    """Outputs and records of a row's nodes, one after another; zeros behind its length. ``steps``: what
    :mod:`~kvbuffer_codegen.schedules.gpu_window` does for a token of any window."""
    g, program = cell.geo, cell.spec.program
    past = [T.alloc_local((g.T,), F32) for _ in range(g.rank + 1)]
    decays = [d for d in (program.log_decay_scalar, program.log_decay_value) if d is not None]
    for t in T.serial(length):
        steps.load(cell, rows, t)
        steps.read(cell, token, rows, ring, state, n, t)
        hear_ancestors(cell, rows, past, t, g.slots * g.lanes)
        for i in list(range(g.reads)):
            rows.reads[i][0] = rows.reads[i][0] * steps.lower(cell, token, rows, factored(program.reads[i])[0], t)
        for r, left in enumerate(program.lefts):
            rows.lefts[r][0] = steps.lower(cell, token, rows, left, t)
            past[r][t] = rows.lefts[r][0]
        past[g.rank][t] = T.float32(1)
        for decay in decays:
            past[g.rank][t] = past[g.rank][t] * T.exp(steps.lower(cell, token, rows, decay, t))
        steps.write(cell, token, rows, length, t)
    steps.clear(cell, length)
