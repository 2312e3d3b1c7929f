"""decode and verify on CUDA with tensor cores: what tokens read of checkpoint, records and each other, as products.

A block's rows come in strips of 16: a warp owns ``owned`` of them, or ``parts`` warps share one, each with its own
chunks of 16 columns. The state is asked for before anything else and waits in shared memory: a warp copies what it
reads, so that no barrier is needed.

    scores    read vectors times right vectors of records (each warp those that it needs) and of the window
    history   left vectors (transposed) times the weighed scores, which stay where the product left them
    fold      left vectors times weighed right vectors, added to the decayed state, which is written and read
    read-out  state times all read vectors, T * reads of them
    window    one thread a row, as in any window (:mod:`~kvbuffer_codegen.schedules.gpu_window`)

Products of 16-bit operands of one dtype are m16n8k16 of it. All others are m16n8k8 of tf32, of operands in two parts
(:func:`high`): the part that is left has 2^-22 of the value, as a sum in float32 loses. What is 16 bits wide is one
part. The sum over columns has no order, so they are dealt to the lanes until a *piece*, four neighbours, is a lane's
share of 16: lane 4 g + t has columns 4 t .. 4 t + 3 of a chunk, and of the state the neighbouring rows 2 g and 2 g + 1.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from types import SimpleNamespace
from typing import Any

import tilelang.language as T

from kvbuffer_codegen.schedules import common
from kvbuffer_codegen.schedules.gpu_mma_load import (
    Lane,
    Records,
    append_tokens,
    clear_missing,
    clear_tile,
    fetch_state,
    key_row,
    load_keys,
    load_lefts,
    load_numbers,
    order,
    record_registers,
    stage_keys,
    stage_token,
    stage_weights,
    weight_of,
    weight_place,
)
from kvbuffer_codegen.schedules.gpu_tile import F32, ZERO, Cell
from kvbuffer_codegen.schedules.gpu_token import load_token, token_registers
from kvbuffer_codegen.schedules.gpu_window import load_values, lower_row, row_registers, solve_token, write_token
from kvbuffer_codegen.schedules.space_gpu import STEP, STRIP, ceil_div, factored

FORMAT = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}  #: dtypes as ``ptx_mma`` names them


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
def multiply(into: Any, at: Any, a: Any, a_at: Any, b: Any, b_at: Any) -> None:
    """``into[at : at + 4]`` += a b, of a warp: m16n8k8 of tf32, or m16n8k16 of 16-bit operands."""
    shape, kind = ("m16n8k8", "tf32") if a.dtype == F32 else ("m16n8k16", FORMAT[a.dtype])
    T.ptx_mma(F32, shape, "row", "col", kind, kind, "fp32", a.data, a_at, b.data, b_at, into.data, at, T.bool(False))


@dataclass
class Operand:
    """Registers of an operand of tf32 and its two parts; ``low`` is None for one that tf32 holds."""

    high: Any
    low: Any

    @classmethod
    def of(cls, size: int, dtype: str = F32) -> Operand:
        return cls(T.alloc_local((size,), F32), T.alloc_local((size,), F32) if dtype == F32 else None)


@T.macro
def put(operand: Operand, i: Any, value: Any) -> None:
    """``value``, an element of a buffer, as number ``i`` of an operand."""
    if operand.low is None:
        operand.high[i] = T.cast(value, F32)
    else:
        operand.high[i] = high(value)
        operand.low[i] = value - operand.high[i]


@T.macro
def add_product(into: Any, rest: Any, at: int, a: Operand, b: Operand, a_at: int = 0) -> None:
    """``into`` += a b, its small terms to ``rest``."""
    multiply(into, at, a.high, a_at, b.high, 0)
    if a.low is not None:
        multiply(rest, at, a.low, a_at, b.high, 0)
    if b.low is not None:
        multiply(rest, at, a.high, a_at, b.low, 0)


@T.macro
def add_chunk(into: Any, rest: Any, at: int, rows: Any, first: int, vectors: Any, vector: int) -> None:
    """As :func:`add_product`, of pieces: ``rows`` has those of the lane's two rows from ``first`` on, ``vectors`` that
    of a vector from ``vector`` on."""
    if rows.dtype == vectors.dtype and rows.dtype != F32:
        words = T.alloc_local((8,), rows.dtype)
        for h in list(range(2)):
            for p in list(range(2)):
                for e in T.vectorized(2):
                    words[4 * h + 2 * p + e] = rows[first + 4 * p + 2 * h + e]
        multiply(into, at, words, 0, vectors, vector)
    else:
        a, b = Operand.of(4, rows.dtype), Operand.of(2, vectors.dtype)
        for h in list(range(2)):
            for i in list(range(4)):
                put(a, i, rows[first + i % 2 * 4 + 2 * h + i // 2])
            for e in list(range(2)):
                put(b, e, vectors[vector + 2 * h + e])
            add_product(into, rest, at, a, b)


@T.macro
def load_piece(into: Any, at: Any, source: Any, row: Any, column: Any) -> None:
    """``into[at : at + 4]`` = four columns of a row in shared memory."""
    for e in T.vectorized(4):
        into[at + e] = source[row, column + e]


def read_of(cell: Cell, i: Any) -> Any:
    """The number of the read vector that column ``i`` of a product has."""
    return i if cell.geo.spread == 1 else i // cell.geo.spread


def read_row(cell: Cell, i: Any) -> Any:
    """The row of that read vector, or the last: products of others are not used."""
    return T.min(read_of(cell, i), cell.geo.T * cell.geo.reads - 1)


@T.macro
def clear(*buffers: Any) -> None:
    for buffer in buffers:
        for i in T.unroll(buffer.shape[0]):
            buffer[i] = ZERO


@T.macro
def score(cell: Cell, lane: Lane, first: Any, sums: Any) -> None:
    """``sums[4 * tiles]``: all read vectors, 16 a tile, times the eight right vectors from row ``first`` of the shared
    keys on: lane (g, t) gets those of read vectors g and g + 8 and right vectors ``order(2 t)`` and ``order(2 t + 1)``.
    """
    g = cell.geo
    vectors, right = T.alloc_local((8,), g.read_dtype), T.alloc_local((4,), g.key_dtype)
    rest = T.alloc_local((4 * ceil_div(g.read_tiles, 2),), F32)
    key = T.min(first + order(lane.g), cell.shared["keys"].shape[0] - 1)
    clear(sums, rest)
    for c in T.unroll(g.K // STRIP):
        column = c * STRIP + 4 * lane.t
        load_piece(right, 0, cell.shared["keys"], key, column)
        for m in list(range(ceil_div(g.read_tiles, 2))):
            for p in list(range(2)):
                row = m * STRIP + (8 * p if m * STRIP + 8 * p < g.T * g.reads else 0) + lane.g
                load_piece(vectors, 4 * p, cell.shared["reads"], read_row(cell, row), column)
            add_chunk(sums, rest, 4 * m, vectors, 0, right, 0)
    for i in T.unroll(4 * ceil_div(g.read_tiles, 2)):
        sums[i] = sums[i] + rest[i]


@T.macro
def score_window(cell: Cell, lane: Lane) -> None:
    """The scores of the window's own right vectors, without their numbers, by one warp a rank, to shared memory."""
    g = cell.geo
    sums = T.alloc_local((4 * ceil_div(g.read_tiles, 2),), F32)
    for r in list(range(g.rank)):
        if lane.warp == g.warps - 1 - r % g.warps:
            score(cell, lane, key_row(cell, r, g.padded_records), sums)
            for i in list(range(4 * ceil_div(g.read_tiles, 2))):
                t, vector = order(2 * lane.t + i % 2), read_of(cell, i // 2 * 8 + lane.g)
                if t < g.T and vector < g.T * g.reads:
                    cell.shared["scores"][t, r * g.T * g.reads + vector] = sums[i]


@T.macro
def read_history(cell: Cell, lane: Lane, records: Records, into: Any) -> None:
    """``into`` += left vectors of the records, times their weighed scores; parts share the steps."""
    g = cell.geo
    a, b = Operand.of(4, g.left_dtype), Operand.of(2)
    scores = T.alloc_local((4 * ceil_div(g.read_tiles, 2),), F32)
    for r in list(range(g.rank)):
        for s in list(range(g.record_steps)):
            step = r * g.record_steps + s
            if step % g.parts == lane.part and s * STEP < cell.count:
                score(cell, lane, key_row(cell, r, s * STEP), scores)
                for i in list(range(4 * ceil_div(g.read_tiles, 2))):
                    scores[i] = scores[i] * weight_of(cell, lane, r, s, i % 2)
                for o in list(range(g.owned)):
                    for i in list(range(4)):
                        put(a, i, records.lefts[g.left_at(o, r, s) + i])
                    for n in list(range(g.read_tiles)):
                        for e in list(range(2)):
                            put(b, e, scores[2 * n + e])
                        add_product(into, into, (o * g.read_tiles + n) * 4, a, b)


@T.macro
def take_state(cell: Cell, lane: Lane, c: Any, into: Any) -> None:
    """Chunk ``c`` of the warp's columns: a piece of each of the lane's rows."""
    for o in list(range(cell.geo.owned)):
        for p in list(range(2)):
            load_piece(into, 8 * o + 4 * p, cell.shared["state"], lane.row(o) + p, chunk_column(cell, lane, c))


def chunk_column(cell: Cell, lane: Lane, c: Any) -> Any:
    return lane.part * (cell.geo.K // cell.geo.parts) + c * STRIP + 4 * lane.t


@T.macro
def read_chunk(cell: Cell, lane: Lane, state: Any, c: Any, sums: Any, rest: Any) -> None:
    """Chunk ``c`` of the state times all read vectors."""
    g = cell.geo
    vector = T.alloc_local((4,), g.read_dtype)
    for n in list(range(g.read_tiles)):
        load_piece(vector, 0, cell.shared["reads"], read_row(cell, n * STEP + lane.g), chunk_column(cell, lane, c))
        for o in list(range(g.owned)):
            add_chunk(sums, rest, (o * g.read_tiles + n) * 4, state, 8 * o, vector, 0)


@T.macro
def sum_records(cell: Cell, lane: Lane, lefts: Operand, c: Any, gain: Any) -> None:
    """``gain[8 * owned]``: what all records, whose left vectors are weighed, add to chunk ``c`` of the state."""
    g, keys = cell.geo, cell.shared["keys"]
    b = [Operand.of(2, g.key_dtype) for _ in range(2)]
    raw = T.alloc_local((2,), keys.dtype)
    first = chunk_column(cell, lane, c) - 4 * lane.t
    clear(gain)
    for r in list(range(g.rank)):
        for s in list(range(g.record_steps)):
            for e in list(range(2)):
                j = s * STEP + order(2 * lane.t + e)
                for h in T.vectorized(2):
                    raw[h] = keys[key_row(cell, r, j), first + 2 * lane.g + h]
                for h in list(range(2)):
                    put(b[h], e, raw[h])
            for o in list(range(g.owned)):
                for h in list(range(2)):  # columns 2 g + h of the chunk
                    add_product(gain, gain, 8 * o + 4 * h, lefts, b[h], g.left_at(o, r, s))


def gain_at(o: int, p: int, e: int) -> int:
    """Where :func:`sum_records` leaves column ``e`` of the lane's piece of row ``p`` of strip ``o``."""
    return 8 * o + e % 2 * 4 + 2 * p + e // 2


@T.macro
def fold_chunk(cell: Cell, lane: Lane, lefts: Operand, state: Any, c: Any, decay: Any) -> None:
    """Chunk ``c`` of the state with all records folded in, whose left vectors are weighed; written back."""
    g = cell.geo
    gain, value = T.alloc_local((8 * g.owned,), F32), T.alloc_local((1,), F32)
    stored = T.alloc_local((4,), state.dtype)
    column = chunk_column(cell, lane, c)
    sum_records(cell, lane, lefts, c, gain)
    for o in list(range(g.owned)):
        for p in list(range(2)):
            for e in list(range(4)):
                at = 8 * o + 4 * p + e
                value[0] = T.cast(state[at], F32) * decay + gain[gain_at(o, p, e)]
                stored[e] = T.cast(common.saturated(value[0], g.spec.state), g.spec.state)
                state[at] = stored[e]
            row = cell.tile * g.schedule.block_v + lane.row(o) + p
            for e in T.vectorized(4):
                cell.args.state[cell.state(row, column + e)] = stored[e]


@T.macro
def weigh_lefts(cell: Cell, lane: Lane, records: Records, lefts: Operand) -> None:
    """Left vectors of records, weighed, as an operand."""
    g = cell.geo
    for r in list(range(g.rank)):
        for s in list(range(g.record_steps)):
            for o in list(range(g.owned)):
                for i in list(range(4)):
                    at = g.left_at(o, r, s) + i
                    records.lefts[at] = records.lefts[at] * weight_of(cell, lane, r, s, i // 2)
                    put(lefts, at, records.lefts[at])


@T.macro
def read_state(cell: Cell, lane: Lane, records: Records, folds: Any, scales: None) -> None:
    """The reads against checkpoint and records, each part's share of them, to shared memory. Where the row folds, the
    new state is written and read."""
    g = cell.geo
    state = T.alloc_local((8 * g.owned,), g.spec.state)
    past, sums, rest = (T.alloc_local((4 * g.owned * g.read_tiles,), F32) for _ in range(3))
    chunks = g.K // STRIP // g.parts
    decay = T.alloc_local((1,), F32)
    clear(past, sums, rest)
    decay[0] = T.Select(cell.kv_only == 0, cell.shared["weights"][weight_place(g, g.rank, 0)], ZERO)
    if folds:
        clear_missing(cell, lane, records)
        lefts = Operand.of(records.lefts.shape[0])
        weigh_lefts(cell, lane, records, lefts)
        await_state(cell, lane)
        for c in T.unroll(chunks, unroll_factor=1):  # else nvcc asks for all chunks of all right vectors at once
            take_state(cell, lane, c, state)
            fold_chunk(cell, lane, lefts, state, c, decay[0])
            read_chunk(cell, lane, state, c, sums, rest)
    else:
        if cell.count > 0:
            clear_missing(cell, lane, records)
            read_history(cell, lane, records, past)
        await_state(cell, lane)
        for c in T.unroll(chunks):
            take_state(cell, lane, c, state)
            read_chunk(cell, lane, state, c, sums, rest)
        for i in T.unroll(4 * g.owned * g.read_tiles):
            sums[i] = (sums[i] + rest[i]) * decay[0]
            rest[i] = past[i]
    store_sums(cell, lane, sums, rest)


@T.macro
def store_sums(cell: Cell, lane: Lane, sums: Any, rest: Any) -> None:
    """The sums of all reads, of checkpoint and records, to shared memory."""
    g = cell.geo
    for o in list(range(g.owned)):
        for n in list(range(g.read_tiles)):
            for p in list(range(2)):
                row = lane.part * g.schedule.block_v + lane.row(o) + p
                at = (o * g.read_tiles + n) * 4 + 2 * p
                if g.spread > 1:
                    if 2 * lane.t < g.T * g.reads * g.spread:
                        cell.shared["sums"][row, read_of(cell, 2 * lane.t)] = sums[at] + rest[at]
                else:
                    if n * STEP + 2 * lane.t < g.T * g.reads:
                        for e in T.vectorized(2):
                            cell.shared["sums"][row, n * STEP + 2 * lane.t + e] = sums[at + e] + rest[at + e]


def nothing(*_: Any) -> None:
    """What a state without scales has to do for them."""


@T.macro
def await_state(cell: Cell, lane: Lane) -> None:
    """What this warp asked for is there, or nothing where the row has no checkpoint."""
    T.ptx_wait_group(0)
    if cell.kv_only != 0:
        clear_tile(cell, lane)
    T.sync_warp()


@T.macro
def take_reads(cell: Cell, rows: Any) -> None:
    """A thread's own row of the reads, summed over the parts."""
    g = cell.geo
    values = T.alloc_local((4,), F32)
    for q in list(range(ceil_div(g.T * g.reads, 4))):
        for part in list(range(g.parts)):
            for e in T.vectorized(4):
                values[e] = cell.shared["sums"][part * g.schedule.block_v + cell.thread, 4 * q + e]
            for i in list(range(4 * q, min(4 * q + 4, g.T * g.reads))):
                read, t = rows.reads[i % g.reads], i // g.reads
                read[t] = values[i % 4] if part == 0 else read[t] + values[i % 4]


#: What depends on what the state is: registers for its scales, their loads, what is staged of them, and the reads.
PLAIN = SimpleNamespace(registers=nothing, load=nothing, stage=nothing, read=read_state)


@T.macro
def run_window(cell: Cell, length: Any, folds: Any, kit: Any = PLAIN) -> None:
    """One row with at least one token: all loads, then shared memory and a barrier, the products, and another."""
    g = cell.geo
    lane, own = Lane.of(cell), RowCell(**{f.name: getattr(cell, f.name) for f in fields(cell)})
    token, rows, records = token_registers(cell), row_registers(own), record_registers(cell)
    scales = kit.registers(cell)
    if cell.warp_group < g.T:
        load_token(cell, token, T.min(cell.group, g.T - 1))
    load_keys(cell, records)
    if lane.warp == g.warps - 1:
        load_numbers(cell, records)
    load_lefts(cell, lane, records)
    if own.owner:
        load_values(own, rows)
    kit.load(cell, lane, token, scales)
    if cell.spec.kv_only > 0:  # after the records: what is done with them takes longest
        if cell.kv_only == 0:
            fetch_state(cell, lane)
    else:
        fetch_state(cell, lane)
    T.ptx_commit_group()
    for q in list(range(ceil_div(g.T, g.groups))):
        if q * g.groups + cell.warp_group < g.T:
            stage_token(cell, token, length, q)
    stage_keys(cell, records)
    kit.stage(cell, token, scales, folds)
    if lane.warp == g.warps - 1:
        stage_weights(cell, records)
    T.sync_threads()
    if g.T > 1:
        score_window(cell, lane)
    kit.read(cell, lane, records, folds, scales)
    T.sync_threads()
    if own.owner:
        take_reads(cell, rows)
        rows.passed[0] = T.float32(1)
        for t in T.unroll(g.T):
            solve_token(own, token, rows, t)
            for r, right in enumerate(cell.spec.program.rights):
                rows.weighed[r][t] = rows.weighed[r][t] * lower_row(own, token, rows, factored(right)[0], t)
            write_token(own, token, rows, length, t)
    if g.appends_late:
        append_tokens(cell, token, length)
