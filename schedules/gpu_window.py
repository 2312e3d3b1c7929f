"""decode, step and verify on CUDA: the tokens of a row against checkpoint and records, solved one after another.

    r_i(t) = w_t (e^{s_0} (S0 @ x_i) + sum_j e^{s_j} (b_j . x_i) a_j) + sum over earlier tokens m of the window of w_mt
    (b_m . x_i) a_m

Every lane sums its columns of S0 @ x and its records' terms; one reduction over the lanes of a group sums both. What
happens to a row: docs/architecture.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import tilelang.language as T
from tilelang import tvm

from kvbuffer_codegen.ir.expr import Expr
from kvbuffer_codegen.ir.forms import FORMS
from kvbuffer_codegen.schedules.geometry import WARP, factored
from kvbuffer_codegen.schedules.gpu_ring import (
    Ring,
    load_records,
    ring_registers,
    stage_records,
    state_decay,
    weigh_records,
)
from kvbuffer_codegen.schedules.gpu_state import fold, fold_staged, request_state, settle_state, store_state
from kvbuffer_codegen.schedules.gpu_tile import F32, ZERO, Cell, leaves_of, lower, number_at, sum_lanes
from kvbuffer_codegen.schedules.gpu_token import (
    Token,
    append_dealt,
    append_token,
    compute_token,
    deal_token,
    load_token,
    number_of,
    park_reads,
    read_vector,
    score_decayed,
    score_records,
    share_window,
    token_registers,
    walk_window,
)
from kvbuffer_codegen.schedules.gpu_tree import solve_tree


@dataclass
class Rows:
    """Registers of the V side, for the row that a lane owns after a reduction. Buffers over T hold one value a token.

    values   leaves over V (inputs, parameters)          reads    one buffer [T] a read
    lefts    one buffer [T] a write: the left vector     weighed  the same, times the decays since
    gate     [1] e^log-decay of the token                passed   [1] product of the gates so far
    """

    values: dict[Expr, Any]
    reads: list[Any]
    lefts: list[Any]
    weighed: list[Any]
    gate: Any
    passed: Any


def value_exprs(cell: Cell) -> list[Expr | None]:
    program = cell.spec.program
    fields = [f.expr for f in cell.spec.record_layout.fields if f.axis == "V"]
    return [*program.lefts, program.output, program.log_decay_value, *fields]


def row_registers(cell: Cell) -> Rows:
    g = cell.geo
    kept = 1 if cell.spec.tree else g.T
    values = {
        node: T.alloc_local((kept,), getattr(cell.args, node.value[0]).dtype)
        for node in leaves_of(value_exprs(cell), "input")
        if node.axes
    }
    reads, lefts, weighed = ([T.alloc_local((kept,), F32) for _ in range(n)] for n in (g.reads, g.rank, g.rank))
    return Rows(values, reads, lefts, weighed, T.alloc_local((1,), F32), T.alloc_local((1,), F32))


@T.macro
def load_values(cell: Cell, rows: Rows, first: Any = 0) -> None:
    """What is over V of tokens ``first``, first + 1, ..., as many as ``rows`` hold."""
    row = cell.row + cell.own
    last = T.min(row, cell.geo.V - 1) if cell.geo.masked_rows else row
    for node, buffer in rows.values.items():
        for t in T.unroll(1 if cell.spec.tree else cell.geo.T):
            buffer[t] = number_at(cell.input(node, first + t), last)


def lower_row(cell: Cell, token: Token, rows: Rows, expr: Expr, t: Any) -> Any:
    """``expr`` at token ``t`` and the lane's own row."""

    def leaf(node: Expr) -> Any:
        if node.op == "scalar":
            return number_of(cell, token, node.value, t)
        buffer = (
            {"read": rows.reads, "left": rows.lefts}[node.op][node.value] if node.op != "input" else rows.values[node]
        )
        return T.cast(buffer[0 if cell.spec.tree else t], F32)

    return lower(expr, leaf, cell.spec)


def weighed_read(cell: Cell, ring: Ring, value: Any, p: Any, folded: Any) -> Any:
    """What register row ``p`` of the state as it was loaded gave, decayed by the records after it."""
    weighed = T.Select(folded, value, value * state_decay(cell, ring, p, 0))
    kept = tvm.tirx.all(cell.kv_only != 0, tvm.tirx.Not(folded))
    return T.Select(kept, ZERO, weighed) if cell.spec.kv_only == 0 and not cell.geo.schedule.stage else weighed


@T.macro
def read_token(
    cell: Cell, token: Token, rows: Rows, ring: Ring, state: Any, n: Any, t: Any, folded: Any = False
) -> None:
    """The reads of token ``t`` against checkpoint and records; the lane's own row to ``rows.reads``. ``folded``: the
    state has the records and their decays in it already."""
    g = cell.geo
    vector = T.alloc_local((g.columns,), F32)
    sums = T.alloc_local((g.reads * g.rows,), F32)
    score = T.alloc_local((1,), F32)
    for i in list(range(g.reads)):
        read_vector(cell, token, t, i, vector, "reads" in cell.shared)
        for p in T.unroll(g.rows):
            sums[i * g.rows + p] = ZERO
            for c in T.unroll(g.columns):
                sums[i * g.rows + p] = sums[i * g.rows + p] + state[p * g.columns + c] * vector[c]
            if g.late_decay:
                sums[i * g.rows + p] = weighed_read(cell, ring, sums[i * g.rows + p], p, folded)
        for slot in list(range(g.slots)):
            for r in list(range(g.rank)):
                score[0] = ZERO
                if slot * g.lanes + cell.lane < n:
                    score[0] = cell.shared["scores"][slot * g.lanes + cell.lane, (r * g.T + t) * g.reads + i]
                for p in T.unroll(g.rows):
                    left = ring.lefts[(slot * g.rank + r) * g.rows + p]
                    sums[i * g.rows + p] = sums[i * g.rows + p] + score[0] * left
    sum_lanes(cell, sums, g.rows, g.reads)
    for i in list(range(g.reads)):
        rows.reads[i][0 if cell.spec.tree else t] = sums[i * g.rows]


@T.macro
def add_window(cell: Cell, rows: Rows, i: int, t: Any) -> None:
    """What the window's tokens before ``t`` wrote, to read ``i`` of token ``t``."""
    g = cell.geo
    for earlier in T.unroll(g.T - 1):
        if earlier < t:
            for r in list(range(g.rank)):
                score = cell.shared["scores"][window_row(cell) + earlier, (r * g.T + t) * g.reads + i]
                rows.reads[i][t] = rows.reads[i][t] + score * rows.weighed[r][earlier]


@T.macro
def solve_token(cell: Cell, token: Token, rows: Rows, t: Any) -> None:
    """Left vectors of token ``t`` on the lane's own row, from its reads and the window before it; then the decays move
    on."""
    g, program = cell.geo, cell.spec.program
    for i in list(range(g.reads)):
        rows.reads[i][t] = rows.reads[i][t] * rows.passed[0]
        if g.T > 1:
            add_window(cell, rows, i, t)
        rows.reads[i][t] = rows.reads[i][t] * lower_row(cell, token, rows, factored(program.reads[i])[0], t)
    for r, left in enumerate(program.lefts):
        rows.lefts[r][t] = lower_row(cell, token, rows, left, t)
        rows.weighed[r][t] = rows.lefts[r][t]
    decays = [d for d in (program.log_decay_scalar, program.log_decay_value) if d is not None]
    rows.gate[0] = T.float32(1)
    for decay in decays:
        rows.gate[0] = rows.gate[0] * gate_of(cell, token, rows, decay, t)
    if len(decays) > 0:
        rows.passed[0] = rows.passed[0] * rows.gate[0]
        for earlier in T.unroll(g.T - 1):
            if earlier < t:
                for r in list(range(g.rank)):
                    rows.weighed[r][earlier] = rows.weighed[r][earlier] * rows.gate[0]


def gate_of(cell: Cell, token: Token, rows: Rows, decay: Expr, t: Any) -> Any:
    """e to a log-decay of token ``t``, which may be behind its shared numbers already."""
    if cell.geo.gates_shared:
        return cell.shared["numbers"][t, len(cell.spec.program.definitions)]
    return T.exp(lower_row(cell, token, rows, decay, t))


def window_row(cell: Cell) -> int:
    """First row of the shared scores that belongs to the window's own tokens."""
    return cell.geo.slots * cell.geo.lanes


def out_index(cell: Cell, t: Any) -> tuple[Any, ...]:
    window = (t,) if cell.spec.form == "verify" else ()
    return (cell.b, *window, cell.hv, cell.row + cell.own)


@T.macro
def write_token(cell: Cell, token: Token, rows: Rows, length: Any, t: Any, first: Any = 0) -> None:
    """Output of token ``first + t``, which ``rows`` hold as ``t`` (0 past the row's length), and its record's fields
    over V."""
    if cell.final(cell.owner):
        result = lower_row(cell, token, rows, cell.spec.program.output, t)
        cell.args.out[out_index(cell, first + t)] = T.cast(T.Select(first + t < length, result, ZERO), cell.spec.io)
        if FORMS[cell.spec.form].appends and first + t < length:
            for field in [f for f in cell.spec.record_layout.fields if f.axis == "V"]:
                target = cell.record(field.name, cell.count + first + t)
                target.tensor[(*target.where, cell.row + cell.own)] = T.cast(
                    lower_row(cell, token, rows, field.expr, t), target.tensor.dtype
                )


@T.macro
def write_zeros(cell: Cell, first: Any = 0) -> None:
    """Outputs of the call's tokens from ``first`` on."""
    if cell.owner:
        for t in T.serial(cell.spec.tokens - first):
            cell.args.out[out_index(cell, first + t)] = T.cast(0, cell.spec.io)


#: What a tree does token by token.
TREE = SimpleNamespace(load=load_values, read=read_token, lower=lower_row, write=write_token, clear=write_zeros)


@T.macro
def advance_state(cell: Cell, token: Token, rows: Rows, state: Any) -> None:
    """The state after the one token, in the registers that hold the state before it."""
    g = cell.geo
    left = T.alloc_local((g.rank,), F32)
    gate = T.alloc_local((1,), F32)
    key = cell.spec.program.log_decay_key is not None
    for p in T.unroll(g.rows):
        gate[0] = T.shfl_sync(rows.gate[0], p * (g.lanes // g.rows), g.lanes)
        for r in list(range(g.rank)):
            left[r] = T.shfl_sync(rows.lefts[r][0], p * (g.lanes // g.rows), g.lanes)
        for c in T.unroll(g.columns):
            state[p * g.columns + c] = state[p * g.columns + c] * (gate[0] * T.exp(token.decay[c]) if key else gate[0])
            for r in T.unroll(g.rank):
                state[p * g.columns + c] = state[p * g.columns + c] + left[r] * token.rights[r * g.columns + c]


@T.macro
def store_folded(cell: Cell, state: Any) -> None:
    """The state of a row that folds."""
    write = not FORMS[cell.spec.form].writes_state
    if cell.again:
        slot = T.alloc_local((1,), "int32")
        slot[0] = T.shfl_sync(cell.slot, 0, WARP)
        store_state(replace(cell, slot=slot[0]), state, write)
    else:
        store_state(cell, state, write)


@T.macro
def run_row(cell: Cell, length: Any, folds: Any) -> None:
    """One row with at least one token: all loads, then shared memory, one barrier (two in a window), the read-out."""
    g = cell.geo
    state = T.alloc_local((g.rows * g.columns,), F32)
    read = T.alloc_local((1,), "int32")  # records that are read, not folded
    ring, token, rows = ring_registers(cell), token_registers(cell), row_registers(cell)
    if not g.schedule.stage:
        request_state(cell, state)
    if cell.warp_group < g.T or g.resident:
        load_token(cell, token, T.min(cell.group, g.T - 1))
    if not cell.spec.tree:
        load_values(cell, rows)
    if cell.spec.history > 0 or not g.one_chunk:
        load_records(cell, ring)
    if g.schedule.stage:  # records first: what is done with them takes longest
        request_state(cell, state)
    read[0] = T.Select(folds, 0, cell.count)
    if g.dealt:  # while records are on their way
        deal_token(cell, token)
        park_reads(cell, token)
    if g.one_chunk:
        if cell.spec.history > 0:
            weigh_records(cell, ring)
            if folds:
                stage_records(cell, ring)
        else:
            if folds:
                load_records(cell, ring)
                weigh_records(cell, ring)
                stage_records(cell, ring)
    else:
        if folds:
            fold(cell, ring, state)
            store_state(cell, state, not FORMS[cell.spec.form].writes_state)
        else:
            weigh_records(cell, ring)
    if not g.dealt:
        if g.resident:
            compute_token(cell, token)
            if cell.group == 0:
                append_token(cell, token, 0)
            if "reads" in cell.shared:
                park_reads(cell, token)
        else:
            share_window(cell, token, length)
    if g.key_decay:
        if not g.resident:
            walk_window(cell, ring, window_row(cell))
        if cell.spec.history > 0:
            score_decayed(cell, token, ring, read[0])
    else:
        if cell.spec.history > 0 or not g.resident:
            score_records(cell, token, ring, read[0], length)
    if "scores" in cell.shared or g.key_decay:
        T.sync_threads()
    if folds:
        if g.one_chunk:
            if "scores" not in cell.shared:
                T.sync_threads()
            settle_state(cell, state)
            fold_staged(cell, ring, state)
            store_folded(cell, state)
        for i in T.unroll(max(1, g.slots) * g.rank * g.rows):
            ring.lefts[i] = ZERO
    else:
        if g.schedule.stage or not g.late_decay:
            settle_state(cell, state)
        if cell.spec.history > 0 and not g.late_decay:
            for p in T.unroll(g.rows):
                for c in T.unroll(g.columns):
                    state[p * g.columns + c] = state[p * g.columns + c] * state_decay(cell, ring, p, c)
    rows.passed[0] = T.float32(1)
    if cell.spec.tree:
        solve_tree(cell, token, rows, ring, state, read[0], length, TREE)
    else:
        for t in T.unroll(g.T):
            read_token(cell, token, rows, ring, state, read[0], t, folds)
            solve_token(cell, token, rows, t)
            write_token(cell, token, rows, length, t)
    if g.dealt:
        append_dealt(cell, token)
    if FORMS[cell.spec.form].writes_state:
        advance_state(cell, token, rows, state)
        store_state(cell, state, True, T.Select(folds, 1, 0), 1)
