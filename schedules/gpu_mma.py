"""decode and verify on CUDA with tensor cores: what tokens read of checkpoint, records and each other, as products.

A block's rows come in strips of 16; ``parts`` warps share a strip, each with its own chunks of 16 columns. The state is
asked for before anything else and waits in shared memory: a warp copies what it reads, so that no barrier is needed.

    scores    right vectors of records and window times all read vectors; every warp takes some columns
    history   left vectors (transposed) times the weighed scores
    fold      left vectors times weighed right vectors, added to the decayed state, which is written and read
    read-out  state times all read vectors, T * reads of them
    window    one thread a row, as in any window (:mod:`~kvbuffer_codegen.schedules.gpu_window`)

All products are m16n8k8 of tf32, of operands in two parts (:func:`high`): the part that is left has 2^-22 of the
value, as a sum in float32 loses. A 16-bit input is one part. The sum over columns has no order, so they are dealt to
the lanes until 16 bytes of a row are a lane's share of two steps: lane 4 g + t has columns 4 t .. 4 t + 3 of a chunk,
and of the state the neighbouring rows 2 g and 2 g + 1.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import tilelang.language as T

from kvbuffer_codegen.schedules import common
from kvbuffer_codegen.schedules.gpu_mma_load import (
    Lane,
    Records,
    clear_missing,
    fetch_state,
    key_row,
    load_keys,
    load_lefts,
    load_numbers,
    record_registers,
    stage_keys,
    stage_token,
    stage_weights,
)
from kvbuffer_codegen.schedules.gpu_tile import F32, ZERO, Cell
from kvbuffer_codegen.schedules.gpu_token import Token, load_token, token_registers
from kvbuffer_codegen.schedules.gpu_window import load_values, lower_row, row_registers, solve_token, write_token
from kvbuffer_codegen.schedules.space_gpu import STEP, STRIP, ceil_div, factored


class RowCell(Cell):
    """A thread of a tile of ``block_v`` rows, one of which it owns."""

    @property
    def row(self) -> Any:
        return self.tile * self.geo.schedule.block_v + self.thread

    @property
    def own(self) -> Any:
        return 0

    @property
    def owner(self) -> Any:
        return self.thread < self.geo.schedule.block_v


def high(x: Any) -> Any:
    """The part of ``x`` that tf32 holds; what is left is the other part."""
    return T.reinterpret(T.reinterpret(x, "uint32") & T.uint32(0xFFFFE000), F32)


@T.macro
def multiply(into: Any, at: int, a: Any, b: Any, b_at: int) -> None:
    """``into[at : at + 4]`` += a b, of a warp: m16n8k8 of tf32."""
    types = ("float32", "m16n8k8", "row", "col", "tf32", "tf32", "fp32")
    T.ptx_mma(*types, a.data, 0, b.data, b_at, into.data, at, T.bool(False))


@dataclass
class Operand:
    """Registers of an operand and its two parts; ``low`` is None for one that tf32 holds."""

    high: Any
    low: Any

    @classmethod
    def of(cls, size: int, dtype: str = F32) -> Operand:
        return cls(T.alloc_local((size,), F32), T.alloc_local((size,), F32) if dtype == F32 else None)


@T.macro
def put(operand: Operand, i: Any, value: Any) -> None:
    """``value``, an element of a buffer, as number ``i`` of an operand."""
    if operand.low is None:
        operand.high[i] = value
    else:
        operand.high[i] = high(value)
        operand.low[i] = value - operand.high[i]


@T.macro
def add_product(into: Any, rest: Any, at: int, a: Operand, b: Operand, b_at: int = 0) -> None:
    """``into`` += a b, its small terms to ``rest``."""
    multiply(into, at, a.high, b.high, b_at)
    if a.low is not None:
        multiply(rest, at, a.low, b.high, b_at)
    if b.low is not None:
        multiply(rest, at, a.high, b.low, b_at)


@T.macro
def load_four(into: Any, at: Any, source: Any, row: Any, column: Any) -> None:
    """``into[at : at + 4]`` = four columns of a row in shared memory, as float32."""
    raw = T.alloc_local((4,), source.dtype)
    for e in T.vectorized(4):
        raw[e] = source[row, column + e]
    for e in T.vectorized(4):
        into[at + e] = T.cast(raw[e], F32)


@T.macro
def clear(*buffers: Any) -> None:
    for buffer in buffers:
        for i in T.unroll(buffer.shape[0]):
            buffer[i] = ZERO


@T.macro
def score(cell: Cell, lane: Lane, read: Any) -> None:
    """Right vectors of the ``read`` records that are read, and behind them the window's, times all read vectors: this
    warp's columns, to the partial scores."""
    g = cell.geo
    tiles, chunks = g.score_rows // STRIP, g.K // STRIP
    sums, rest = (T.alloc_local((g.rank * tiles * g.read_tiles * 4,), F32) for _ in range(2))
    rows, vectors = T.alloc_local((8,), F32), T.alloc_local((4 * g.read_tiles,), F32)
    a, b = Operand.of(4, g.key_dtype), Operand.of(2, g.read_dtype)
    clear(sums, rest)
    for q in list(range(ceil_div(chunks, g.splits))):
        column = (q * g.splits + lane.warp) * STRIP + 4 * lane.t
        if (q * g.splits + lane.warp) < chunks:
            for n in list(range(g.read_tiles)):
                load_vector(cell, lane, vectors, 4 * n, n * STEP, column)
            for r in list(range(g.rank)):
                for m in list(range(tiles)):
                    for p in list(range(2)):
                        i = m * STRIP + 8 * p + lane.g
                        j = T.Select(i < read, i, T.min(i - read, g.T - 1) + g.padded_records)
                        load_four(rows, 4 * p, cell.shared["keys"], key_row(cell, r, j), column)
                    for h in list(range(2)):
                        for i in list(range(4)):
                            put(a, i, rows[i % 2 * 4 + 2 * h + i // 2])
                        for n in list(range(g.read_tiles)):
                            for e in list(range(2)):
                                put(b, e, vectors[4 * n + 2 * h + e])
                            add_product(sums, rest, ((r * tiles + m) * g.read_tiles + n) * 4, a, b)
    if lane.warp < g.splits:
        for m in list(range(g.rank * tiles)):
            for n in list(range(g.read_tiles)):
                for p in list(range(2)):
                    for e in T.vectorized(2):
                        row = lane.warp * g.rank * g.score_rows + m * STRIP + 8 * p + lane.g
                        at = (m * g.read_tiles + n) * 4 + 2 * p
                        column = row * g.sum_stride + n * STEP + 2 * lane.t
                        cell.shared["partial"][column + e] = sums[at + e] + rest[at + e]


def score_sum(cell: Cell, r: Any, row: Any, column: Any) -> Any:
    """The score of right vector ``r`` of row ``row`` against a read vector."""
    g = cell.geo
    parts = [(p * g.rank + r) * g.score_rows + row for p in range(g.splits)]
    return sum((cell.shared["partial"][part * g.sum_stride + column] for part in parts), ZERO)


@T.macro
def gather_scores(cell: Cell, token: Token, rows: Any, read: Any) -> None:
    """The scores of the ``read`` records that are read, weighted, 0 behind them; and those of the window."""
    g, program = cell.geo, cell.spec.program
    vectors, padded = g.T * g.reads, g.padded_records
    if read > 0:
        for q in T.unroll(ceil_div(g.rank * padded * vectors, g.schedule.threads)):
            i = q * g.schedule.threads + cell.thread
            r, j, column = i // (padded * vectors), i // vectors % padded, i % vectors
            if i < g.rank * padded * vectors:
                value = score_sum(cell, r, T.min(j, g.score_rows - 1), column) * cell.shared["weights"][r, j]
                cell.shared["past"][r * padded + j, column] = T.Select(j < read, value, ZERO)
    for r in list(range(g.rank if g.T > 1 else 0)):
        for q in T.unroll(ceil_div(g.T * vectors, g.schedule.threads)):
            i = q * g.schedule.threads + cell.thread
            if i < g.T * vectors:
                number = lower_row(cell, token, rows, factored(program.rights[r])[0], i // vectors)
                score = score_sum(cell, r, T.min(read + i // vectors, g.score_rows - 1), i % vectors)
                cell.shared["scores"][i // vectors, r * vectors + i % vectors] = score * number


@T.macro
def read_history(cell: Cell, lane: Lane, records: Records, into: Any) -> None:
    """``into`` += weighed scores of the records that are read, times their left vectors; parts share the steps."""
    g = cell.geo
    a = Operand.of(4)
    b = [Operand.of(2) for _ in range(2)]
    value = T.alloc_local((1,), F32)
    for r in list(range(g.rank)):
        for s in list(range(g.record_steps)):
            if (r * g.record_steps + s) % g.parts == lane.part:
                for q in list(range(2)):
                    for e in list(range(2)):
                        put(b[q], e, records.lefts[(r * g.record_steps + s) * 4 + 2 * e + q])
                for m in list(range(vector_tiles(cell))):
                    for i in list(range(4)):
                        value[0] = ZERO
                        if m * STRIP + i % 2 * 8 < g.read_tiles * STEP:
                            row = (r * g.record_steps + s) * STEP + i // 2 * 4 + lane.t
                            value[0] = cell.shared["past"][row, m * STRIP + i % 2 * 8 + lane.g]
                        put(a, i, value[0])
                    for q in list(range(2)):
                        add_product(into, into, (2 * m + q) * 4, a, b[q])


@T.macro
def take_state(cell: Cell, lane: Lane, c: Any, into: Any) -> None:
    """Chunk ``c`` of the warp's columns: four of each of the lane's two rows."""
    column = chunk_column(cell, lane, c)
    for p in list(range(2)):
        load_four(into, 4 * p, cell.shared["state"], lane.row + p, column)


def chunk_column(cell: Cell, lane: Lane, c: Any) -> Any:
    return lane.part * (cell.geo.K // cell.geo.parts) + c * STRIP + 4 * lane.t


@T.macro
def read_chunk(cell: Cell, lane: Lane, state: Any, c: Any, sums: Any, rest: Any) -> None:
    """All read vectors times chunk ``c`` of the state: products of 16 vectors and 8 rows."""
    g = cell.geo
    vectors = T.alloc_local((8,), F32)
    a = Operand.of(4, g.read_dtype)
    b = [Operand.of(4) for _ in range(2)]
    for q in list(range(2)):
        for e in list(range(4)):
            put(b[q], e, state[4 * q + e])
    for m in list(range(vector_tiles(cell))):
        for p in list(range(2)):
            load_vector(cell, lane, vectors, 4 * p, m * STRIP + 8 * p, chunk_column(cell, lane, c))
        for h in list(range(2)):
            for i in list(range(4)):
                put(a, i, vectors[i % 2 * 4 + 2 * h + i // 2])
            for q in list(range(2)):
                add_product(sums, rest, (2 * m + q) * 4, a, b[q], 2 * h)


def vector_tiles(cell: Cell) -> int:
    return ceil_div(cell.geo.T * cell.geo.reads, STRIP)


@T.macro
def load_vector(cell: Cell, lane: Lane, into: Any, at: int, first: int, column: Any) -> None:
    """Four columns of read vector ``first`` + g; 0 where none of the eight exists."""
    g = cell.geo
    if first < g.T * g.reads:
        load_four(into, at, cell.shared["reads"], T.min(first + lane.g, g.T * g.reads - 1), column)
    else:
        for e in T.unroll(4):
            into[at + e] = ZERO


@T.macro
def fold_chunk(cell: Cell, lane: Lane, records: Records, state: Any, c: Any, decay: Any) -> None:
    """Chunk ``c`` of the state with all records folded in, whose left vectors are weighed; written back."""
    g, keys = cell.geo, cell.shared["keys"]
    gain = T.alloc_local((8,), F32)
    a = Operand.of(4)
    b = [Operand.of(2, g.key_dtype) for _ in range(2)]
    raw, value = T.alloc_local((2,), keys.dtype), T.alloc_local((1,), F32)
    column = chunk_column(cell, lane, c)
    clear(gain)
    for r in list(range(g.rank)):
        for s in list(range(g.record_steps)):
            for i in list(range(4)):
                put(a, i, records.lefts[(r * g.record_steps + s) * 4 + i])
            for e in list(range(2)):
                j = s * STEP + 4 * e + lane.t
                for h in T.vectorized(2):
                    raw[h] = keys[key_row(cell, r, j), column - 4 * lane.t + 2 * lane.g + h]
                for h in list(range(2)):
                    value[0] = T.cast(raw[h], F32)
                    put(b[h], e, value[0])
            for h in list(range(2)):  # columns 2 g + h of the chunk
                add_product(gain, gain, 4 * h, a, b[h])
    row = cell.tile * g.schedule.block_v + lane.row
    for p in list(range(2)):
        for e in list(range(4)):
            value[0] = T.Select(cell.kv_only == 0, state[4 * p + e] * decay, ZERO) + gain[e % 2 * 4 + 2 * p + e // 2]
            state[4 * p + e] = common.saturated(value[0], F32)
        for e in T.vectorized(4):
            cell.args.state[cell.state(row + p, column + e)] = state[4 * p + e]


@T.macro
def weigh_lefts(cell: Cell, lane: Lane, records: Records) -> None:
    g = cell.geo
    for r in list(range(g.rank)):
        for i in list(range(2 * g.record_steps)):
            for p in T.unroll(2):
                at = (r * g.record_steps * 2 + i) * 2 + p
                records.lefts[at] = records.lefts[at] * cell.shared["weights"][r, 4 * i + lane.t]


@T.macro
def read_state(cell: Cell, lane: Lane, records: Records, folds: Any) -> None:
    """The reads against checkpoint and records, each part's share of them, to shared memory. Where the row folds, the
    new state is written and read."""
    g = cell.geo
    state = T.alloc_local((8,), F32)
    past, sums, rest = (T.alloc_local((8 * vector_tiles(cell),), F32) for _ in range(3))
    chunks = g.K // STRIP // g.parts
    decay = T.alloc_local((1,), F32)
    clear(past, sums, rest)
    decay[0] = T.exp(records.carry[0]) if cell.spec.record_layout.log_decay_scalar is not None else T.float32(1)
    if folds:
        weigh_lefts(cell, lane, records)
        await_state()
        for c in T.unroll(chunks, unroll_factor=1):  # else nvcc keeps all parts of all left vectors
            take_state(cell, lane, c, state)
            fold_chunk(cell, lane, records, state, c, decay[0])
            read_chunk(cell, lane, state, c, sums, rest)
    else:
        if cell.count > 0:
            read_history(cell, lane, records, past)
        await_state()
        for c in T.unroll(chunks):
            take_state(cell, lane, c, state)
            read_chunk(cell, lane, state, c, sums, rest)
        for i in T.unroll(8 * vector_tiles(cell)):
            sums[i] = T.Select(cell.kv_only == 0, (sums[i] + rest[i]) * decay[0], ZERO)
            rest[i] = past[i]
    for m in list(range(vector_tiles(cell))):
        for q in list(range(2)):
            for i in list(range(4)):
                if m * STRIP + i // 2 * 8 < g.read_tiles * STEP:
                    row = lane.part * g.schedule.block_v + lane.strip * STRIP + 2 * (2 * lane.t + i % 2) + q
                    at = (2 * m + q) * 4 + i
                    column = m * STRIP + i // 2 * 8 + lane.g
                    cell.shared["partial"][row * g.read_stride + column] = sums[at] + rest[at]


@T.macro
def await_state() -> None:
    """What this warp asked for is there."""
    T.ptx_wait_group(0)
    T.sync_warp()


@T.macro
def run_window(cell: Cell, length: Any, folds: Any) -> None:
    """One row with at least one token."""
    g = cell.geo
    lane, own = Lane.of(cell), RowCell(**{f.name: getattr(cell, f.name) for f in fields(cell)})
    token, rows, records = token_registers(cell), row_registers(own), record_registers(cell)
    read = T.alloc_local((1,), "int32")  # records that are read, not folded
    if cell.spec.kv_only > 0:
        if cell.kv_only == 0:
            fetch_state(cell, lane)
    else:
        fetch_state(cell, lane)
    T.ptx_commit_group()
    if cell.warp_group < g.T:
        load_token(cell, token, T.min(cell.group, g.T - 1))
    load_keys(cell, records)
    load_numbers(cell, records)
    load_lefts(cell, lane, records)
    if own.owner:
        load_values(own, rows)
    read[0] = T.Select(folds, 0, cell.count)
    clear_missing(cell, lane, records)
    stage_keys(cell, records)
    stage_weights(cell, records)
    for q in list(range(ceil_div(g.T, g.groups))):
        if q * g.groups + cell.warp_group < g.T:
            stage_token(cell, token, length, q)
    T.sync_threads()
    score(cell, lane, read[0])
    T.sync_threads()
    gather_scores(cell, token, rows, read[0])
    T.sync_threads()
    read_state(cell, lane, records, folds)
    T.sync_threads()
    if own.owner:
        for t in T.unroll(g.T):
            for i in list(range(g.reads)):
                rows.reads[i][t] = ZERO
                for part in list(range(g.parts)):
                    row = (part * g.schedule.block_v + cell.thread) * g.read_stride
                    rows.reads[i][t] = rows.reads[i][t] + cell.shared["partial"][row + t * g.reads + i]
        rows.passed[0] = T.float32(1)
        for t in T.unroll(g.T):
            solve_token(own, token, rows, t)
            write_token(own, token, rows, length, t)
