"""Which row a CPU cell works on, what its cursors say, and the outputs of what does not exist."""

from __future__ import annotations

from typing import Any

import tilelang.language as T
from tilelang import tvm

from kvbuffer_codegen.ir.signature import (
    BASE,
    COUNT,
    FAULT,
    FAULT_LENGTH,
    FAULT_PARENT,
    FAULT_TARGET,
    KV_ONLY,
    SKIPPED,
    WINDOW,
    WRITES,
)
from kvbuffer_codegen.schedules import common
from kvbuffer_codegen.schedules.cpu import Cell


@T.macro
def find_row(c: Any) -> None:
    """Which layer, row, head and block the cell works on, whether slot and ring exist, and the row's cursors."""
    a = c.arguments
    c.block[0] = T.truncmod(a.cell, c.schedule.splits)
    c.row[0] = T.truncdiv(a.cell, c.schedule.splits)
    c.head[0] = T.truncmod(c.row[0], a.HV)
    c.row[0] = T.truncdiv(c.row[0], a.HV)
    c.layer[0] = 0
    if c.layers:
        c.layer[0] = T.truncdiv(c.row[0], a.B)
        c.row[0] = T.truncmod(c.row[0], a.B)
    slot, slot_rest = common.index_words(a.slots, c.row[0])
    ring, ring_rest = common.index_words(a.rings, c.row[0])
    c.slot[0] = T.cast(slot, "int64")
    c.ring[0] = T.cast(ring, "int64")
    c.valid[0] = T.if_then_else(common.in_range(slot, slot_rest, a.P), 1, 0)
    c.valid[0] = T.if_then_else(common.in_range(ring, ring_rest, a.N), c.valid[0], 0)
    c.n[0] = 0
    c.base[0] = 0
    c.fresh[0] = 0
    if c.valid[0] == 1:
        c.n[0] = T.min(a.cursors[COUNT, c.slot[0]], c.capacity)
        c.base[0] = a.cursors[BASE, c.slot[0]]
        if c.spec.stochastic:
            c.writes_before[0] = a.cursors[WRITES, c.slot[0]]
            c.seed[0] = a.cursors[WRITES, a.P]
        if c.spec.kv_only > 0:
            c.fresh[0] = a.cursors[KV_ONLY, c.slot[0]]
    elif first_cell(c):
        if common.in_range(slot, slot_rest, a.P):
            if c.spec.form != "publish":  # after which no cursors move
                a.cursors[WINDOW, c.slot[0]] = SKIPPED
            common.report_index(a, ring, ring_rest)
        else:
            common.report_index(a, slot, slot_rest)


def first_cell(c: Cell) -> Any:
    return tvm.tirx.all(c.block[0] == 0, c.head[0] == 0)


@T.macro
def find_length(c: Any) -> None:
    """The row's own number of tokens; verify stores it, and one that is out of range counts as 0."""
    c.length[0] = 1
    if c.spec.form == "verify":
        value, rest = common.index_words(c.arguments.lengths, c.row[0])
        c.length[0] = T.if_then_else(common.in_range(value, rest, c.T + 1), value, 0)
        if c.spec.tree:
            find_parents(c)
        if first_cell(c):
            c.arguments.cursors[WINDOW, c.slot[0]] = c.length[0]
            if tvm.tirx.Not(common.in_range(value, rest, c.T + 1)):
                c.arguments.cursors[FAULT, c.slot[0]] = c.arguments.cursors[FAULT, c.slot[0]] | FAULT_LENGTH


@T.macro
def find_parents(c: Any) -> None:
    """The parents of the row's nodes; where one does not come before its node, the row has none of them."""
    c.at[0] = 1
    for t in T.serial(c.length[0]):
        c.parent[t] = common.index_words(c.arguments.parents, c.row[0], t)[0]
        if tvm.tirx.Not(comes_before(common.index_words(c.arguments.parents, c.row[0], t), t)):
            c.at[0] = 0
    if c.at[0] == 0:
        c.length[0] = 0
        if first_cell(c):
            c.arguments.cursors[FAULT, c.slot[0]] = c.arguments.cursors[FAULT, c.slot[0]] | FAULT_PARENT


def comes_before(words: tuple[Any, Any], t: Any) -> Any:
    """Whether an index from :func:`common.index_words` is the history, -1, or a node before ``t``."""
    return tvm.tirx.any(common.is_padding(*words), common.in_range(*words, t))


@T.macro
def find_target(c: Any) -> None:
    """The second slot of a row; a row without one is not valid."""
    if c.valid[0] == 1:
        value, rest = common.index_words(c.arguments.dst, c.row[0])
        c.target[0] = T.cast(value, "int64")
        if tvm.tirx.Not(tvm.tirx.all(common.in_range(value, rest, c.arguments.P), c.target[0] != c.slot[0])):
            c.valid[0] = 0
            if tvm.tirx.all(first_cell(c), c.layer[0] == 0, tvm.tirx.Not(common.is_padding(value, rest))):
                c.arguments.cursors[FAULT, c.slot[0]] = c.arguments.cursors[FAULT, c.slot[0]] | FAULT_TARGET


@T.macro
def start_target(c: Any) -> None:
    """The second slot becomes an ordinary row without records."""
    if tvm.tirx.all(first_cell(c), c.layer[0] == 0):
        for i in [*range(FAULT), *([WRITES] if c.spec.stochastic else [])]:
            c.arguments.cursors[i, c.target[0]] = 0


@T.macro
def zero_outputs(c: Any) -> None:
    """Outputs of the tokens past the length."""
    for t in T.serial(c.T):
        if t >= c.length[0]:
            for v in T.serial(c.V):
                c.arguments.out[c.out_at(t, v)] = T.cast(T.float32(0), c.spec.io)
