"""decode and verify on CUDA with tensor cores: what tokens read of checkpoint, records and each other, as products.

A block's rows come in strips of 16: a warp owns ``owned`` of them, or ``parts`` warps share one, each with its own
chunks of 16 columns. The state is asked for before anything else and waits in shared memory: a warp copies what it
reads, so that no barrier is needed.

    scores    read vectors times right vectors of records (each warp those that it needs) and of the window
    history   left vectors (transposed) times the weighed scores, which stay where the product left them
    fold      left vectors times weighed right vectors, added to the decayed state, which is written and read
    read-out  state times all read vectors, T * reads of them
    window    one thread a row, as in any window (:mod:`~kvbuffer_codegen.schedules.gpu_window`)

Read vectors are the left operand, 16 of them, state rows the right one, eight, whose registers are those that a load
from shared memory fills. Few read vectors are the right operand: as many products do twice as much, but a left operand
of tf32 has two rows of the state moved between each other.

Products of 16-bit operands of one dtype are m16n8k16 of it. All others are m16n8k8 of tf32, of operands in two parts
(:func:`high`): the part that is left has 2^-22 of the value, as a sum in float32 loses. What is 16 bits wide is one
part. A fold of right vectors in bfloat16 takes left ones in three parts of it, which lose nothing. The sum over columns
has no order, so lane 4 g + t has columns 2 t, 2 t + 1, 8 + 2 t and 9 + 2 t of a chunk, as matrix loads deal 16-bit
values, and of the state the neighbouring rows 2 g and 2 g + 1.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from types import SimpleNamespace
from typing import Any

import tilelang.language as T
from tilelang import tvm

from kvbuffer_codegen.schedules import common
from kvbuffer_codegen.schedules.geometry import STEP, STRIP, ceil_div, factored
from kvbuffer_codegen.schedules.gpu_mma_load import (
    Lane,
    Records,
    append_tokens,
    clear_missing,
    clear_tile,
    copy_keys,
    fetch_state,
    key_row,
    load_keys,
    load_lefts,
    load_numbers,
    record_registers,
    stage_keys,
    stage_token,
    stage_weights,
    weight_of,
    weight_place,
    write_tile,
)
from kvbuffer_codegen.schedules.gpu_tile import F32, ZERO, Cell
from kvbuffer_codegen.schedules.gpu_token import load_token, token_registers
from kvbuffer_codegen.schedules.gpu_window import load_values, lower_row, row_registers, solve_token, write_token

MOST_STEPS = 4  #: of records, whose scores a warp works out together
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
def multiply(into: Any, at: Any, a: Any, a_at: Any, b: Any, b_at: Any, dtype: str | None = None) -> None:
    """``into[at : at + 4]`` += a b, of a warp: m16n8k8 of tf32, or m16n8k16 of 16-bit operands; ``dtype``: of those in
    words."""
    kind = FORMAT[a.dtype if dtype is None else dtype]
    shape, kind = ("m16n8k8", "tf32") if kind == FORMAT[F32] else ("m16n8k16", kind)
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
    """``value``, in float32, as number ``i`` of an operand."""
    if operand.low is None:
        operand.high[i] = value
    else:
        operand.high[i] = high(value)
        operand.low[i] = value - operand.high[i]


@T.macro
def add_product(into: Any, rest: Any, at: int, a: Operand, b: Operand, a_at: int = 0, b_at: int = 0) -> None:
    """``into`` += a b, its small terms to ``rest``."""
    multiply(into, at, a.high, a_at, b.high, b_at)
    if a.low is not None:
        multiply(rest, at, a.low, a_at, b.high, b_at)
    if b.low is not None:
        multiply(rest, at, a.high, a_at, b.low, b_at)


@dataclass
class Share:
    """A lane's share of tiles of 8 rows and 8 columns: of each tile a pair, the columns 2 t and 2 t + 1 of row g (of a
    transposed one, rows 2 t and 2 t + 1 of column g). ``words``: in float32 two a pair, of 16-bit values one. Filled
    once: TileLang reads what was reinterpreted no second time after a store."""

    words: Any
    dtype: str

    @classmethod
    def of(cls, pairs: int, dtype: str) -> Share:
        return cls(T.alloc_local((pairs * pair_words(dtype),), F32 if dtype == F32 else "uint32"), dtype)

    def value(self, pair: int, e: int) -> Any:
        """Value ``e`` of a pair, in float32."""
        if self.dtype == F32:
            return self.words[2 * pair + e]
        word = self.words[pair]
        if self.dtype == "bfloat16":
            return T.reinterpret(word & T.uint32(0xFFFF0000) if e else word << T.uint32(16), F32)
        half = T.cast(word >> T.uint32(16 * e) & T.uint32(0xFFFF), "uint16")
        return T.cast(T.reinterpret(half, self.dtype), F32)


def pair_words(dtype: str) -> int:
    return 2 if dtype == F32 else 1


def packed(first: Any, second: Any) -> Any:
    """Two 16-bit values as a word."""
    low, high_half = (T.cast(T.reinterpret(x, "uint16"), "uint32") for x in (first, second))
    return low | high_half << T.uint32(16)


def upper(first: Any, second: Any) -> Any:
    """The upper halves of two float32, which are bfloat16 that are not larger, as a word."""
    words = (T.reinterpret(x, "uint32") for x in (first, second))
    return T.call_pure_extern("uint32", "__byte_perm", *words, T.uint32(0x7632))


def rest_of(x: Any) -> Any:
    """What :func:`upper` leaves of ``x``."""
    return x - T.reinterpret(T.reinterpret(x, "uint32") & T.uint32(0xFFFF0000), F32)


@T.macro
def load_matrices(into: Share, first: int, source: Any, row: Any, column: Any, kind: str = "x4") -> None:
    """Pairs ``first``, ``first + 1``, ... of two or four tiles of 16-bit values: lane l points to row l % 8 of tile
    l // 8."""
    name = f"tl::ptx_ldmatrix_{kind}"
    T.call_extern("handle", name, T.address_of(source[row, column]), T.address_of(into.words[first]))


@T.macro
def load_pair(into: Share, pair: int, source: Any, row: Any, column: Any) -> None:
    """One pair, of any dtype."""
    for e in T.vectorized(2):
        into.words[2 * pair + e] = source[row, column + e]


@T.macro
def add_chunk(into: Any, rest: Any, at: int, a: Share, a_first: int, b: Share, b_first: int) -> None:
    """``into`` += a b of 16 columns: pairs (columns, rows) of a strip of 16 rows, and two pairs of a tile of eight.
    Small terms to ``rest``."""
    if a.dtype == b.dtype and a.dtype != F32:
        multiply(into, at, a.words, a_first, b.words, b_first, a.dtype)
    else:
        x, y = Operand.of(4, a.dtype), Operand.of(2, b.dtype)
        for h in list(range(2)):
            for i in list(range(4)):
                put(x, i, a.value(a_first + 2 * h + i % 2, i // 2))
            for e in list(range(2)):
                put(y, e, b.value(b_first + h, e))
            add_product(into, rest, at, x, y)


def read_of(cell: Cell, i: Any) -> Any:
    """The number of the read vector that column ``i`` of a product has."""
    return i if cell.geo.spread == 1 else i // cell.geo.spread


def read_row(cell: Cell, i: Any) -> Any:
    """The row of that read vector, or the last: products of others are not used."""
    return T.min(read_of(cell, i), cell.geo.T * cell.geo.reads - 1)


@T.macro
def take_vectors(cell: Cell, lane: Lane, m: int, column: Any, into: Share) -> None:
    """16 columns of read vectors 16 m .. 16 m + 15."""
    reads = cell.shared["reads"]
    if into.dtype == F32:
        for i in list(range(4)):
            load_pair(into, i, reads, read_row(cell, m * STRIP + i % 2 * 8 + lane.g), column + i // 2 * 8 + 2 * lane.t)
    else:
        load_matrices(into, 0, reads, read_row(cell, m * STRIP + lane.l % 16), column + lane.l // 16 * 8)


@T.macro
def take_few(cell: Cell, lane: Lane, column: Any, into: Share) -> None:
    """16 columns of read vectors 0 .. 7."""
    reads = cell.shared["reads"]
    if into.dtype == F32:
        for h in list(range(2)):
            load_pair(into, h, reads, read_row(cell, lane.g), column + 8 * h + 2 * lane.t)
    else:
        load_matrices(into, 0, reads, read_row(cell, lane.l % 8), column + lane.l // 8 % 2 * 8, "x2")


@T.macro
def clear(*buffers: Any) -> None:
    for buffer in buffers:
        for i in T.unroll(buffer.shape[0]):
            buffer[i] = ZERO


@T.macro
def take_rights(cell: Cell, lane: Lane, row: Any, column: Any, into: Share) -> None:
    """32 columns of the eight right vectors from ``row`` on."""
    keys = cell.shared["keys"]
    if into.dtype == F32:
        for i in list(range(4)):
            load_pair(into, i, keys, T.min(row + lane.g, keys.shape[0] - 1), column + 8 * i + 2 * lane.t)
    else:
        load_matrices(into, 0, keys, T.min(row + lane.l % 8, keys.shape[0] - 1), column + lane.l // 8 * 8)


@T.macro
def score(cell: Cell, lane: Lane, rows: Any, sums: Any) -> None:
    """``sums[4 * strips * len(rows)]``: all read vectors, 16 a strip, times the eight right vectors from each of
    ``rows`` of the shared keys on: lane (g, t) gets those of read vectors g and g + 8 and right vectors 2 t and
    2 t + 1."""
    g = cell.geo
    rest = T.alloc_local((4 * g.read_strips * len(rows),), F32)
    clear(sums, rest)
    for c in T.unroll(g.K // (2 * STRIP)):
        rights = [Share.of(4, g.key_dtype) for _ in rows]
        for row, right in zip(rows, rights, strict=True):
            take_rights(cell, lane, row, c * 2 * STRIP, right)
        for half in list(range(2)):
            for m in list(range(g.read_strips)):
                vectors = Share.of(4, g.read_dtype)
                take_vectors(cell, lane, m, (2 * c + half) * STRIP, vectors)
                for i, right in enumerate(rights):
                    add_chunk(sums, rest, 4 * (i * g.read_strips + m), vectors, 0, right, 2 * half)
    if g.key_dtype == F32 or g.read_dtype == F32:
        for i in T.unroll(sums.shape[0]):
            sums[i] = sums[i] + rest[i]


@T.macro
def score_window(cell: Cell, lane: Lane) -> None:
    """The scores of the window's own right vectors, without their numbers, by one warp a rank, to shared memory."""
    g = cell.geo
    sums = T.alloc_local((4 * g.read_strips,), F32)
    for r in list(range(g.rank)):
        if lane.warp == g.warps - 1 - r % g.warps:
            score(cell, lane, [key_row(cell, r, g.padded_records)], sums)
            for i in list(range(4 * g.read_strips)):
                t, vector = 2 * lane.t + i % 2, read_of(cell, i // 2 * 8 + lane.g)
                if t < g.T and vector < g.T * g.reads:
                    cell.shared["scores"][t, r * g.T * g.reads + vector] = sums[i]


def sum_at(g: Any, o: int, p: int = 0, m: int = 0) -> int:
    """Where a lane's sums of the warp's strip ``o``, of its state rows ``p`` and strip ``m`` of read vectors, start; of
    few vectors, of tile ``m`` of them and both rows."""
    return (o * g.read_tiles + m) * 4 if g.few else ((o * 2 + p) * g.read_strips + m) * 4


@T.macro
def read_history(cell: Cell, lane: Lane, records: Records, into: Any) -> None:
    """``into`` += left vectors of the records, times their weighed scores. Parts share the steps, each a few at a time,
    whose scores do not wait for each other."""
    g = cell.geo
    for r in list(range(g.rank)):
        for first in list(range(0, g.record_steps, MOST_STEPS * g.parts)):
            for part in list(range(g.parts)):
                steps = list(range(first + part, g.record_steps, g.parts))[:MOST_STEPS]
                if len(steps) > 0 and tvm.tirx.all(lane.part == part, steps[0] * STEP < cell.count):
                    add_records(cell, lane, records, r, steps, into)


@T.macro
def add_records(cell: Cell, lane: Lane, records: Records, r: int, steps: Any, into: Any) -> None:
    g = cell.geo
    scores = T.alloc_local((4 * g.read_strips * len(steps),), F32)
    score(cell, lane, [key_row(cell, r, s * STEP) for s in steps], scores)
    for n, s in enumerate(steps):
        if s * STEP < cell.count:
            for m in list(range(g.read_strips)):
                add_step(cell, lane, records, r, s, m, scores, 4 * (n * g.read_strips + m), into)


@T.macro
def add_step(cell: Cell, lane: Lane, records: Records, r: int, s: int, m: int, scores: Any, at: int, into: Any) -> None:
    """Eight records: of read vectors g and g + 8 their scores with two of them are in ``scores[at : at + 4]``."""
    g = cell.geo
    weighed, lefts = Operand.of(4), Operand.of(4 * g.owned, g.left_dtype)
    for i in list(range(4)):  # vectors by records; as a right operand, records by two tiles of vectors
        e, half = (i % 2, i // 2) if g.few else (i // 2, i % 2)
        put(weighed, i, scores[at + 2 * half + e] * weight_of(cell, lane, r, s, e))
    for o in list(range(g.owned)):
        for p in list(range(2)):
            for e in list(range(2)):
                place = 4 * o + (2 * e + p if g.few else 2 * p + e)
                put(lefts, place, records.lefts[g.left_at(o, r, s) + 2 * e + p])
        if g.few:
            for half in list(range(min(2, g.read_tiles - 2 * m))):
                add_product(into, into, sum_at(g, o, 0, 2 * m + half), lefts, weighed, 4 * o, 2 * half)
        else:
            for p in list(range(2)):
                add_product(into, into, sum_at(g, o, p, m), weighed, lefts, 0, 4 * o + 2 * p)


@T.macro
def take_state(cell: Cell, lane: Lane, c: Any, into: Share) -> None:
    """Chunk ``c`` of the warp's columns of the lane's rows."""
    g, state, first = cell.geo, cell.shared["state"], chunk_column(cell, lane, c)
    for o in list(range(g.owned)):
        if into.dtype == F32:
            for p in list(range(2)):
                for h in list(range(2)):
                    load_pair(into, pair_at(g, o, p, h), state, lane.row(o) + p, first + 8 * h + 2 * lane.t)
        else:
            p, h = (lane.l // 8 % 2, lane.l // 16) if g.few else (lane.l // 16, lane.l // 8 % 2)
            load_matrices(into, 4 * o, state, (lane.strip + o) * STRIP + lane.l % 8 * 2 + p, first + 8 * h)


def pair_at(g: Any, o: int, p: int, h: int) -> int:
    """The pair of strip ``o`` and the lane's row ``p`` with columns ``h`` of a chunk: as a left operand wants it, or as
    a right one."""
    return 4 * o + (2 * h + p if g.few else 2 * p + h)


def chunk_column(cell: Cell, lane: Lane, c: Any) -> Any:
    return lane.part * (cell.geo.K // cell.geo.parts) + c * STRIP


@T.macro
def read_chunk(cell: Cell, lane: Lane, state: Share, c: Any, sums: Any, rest: Any) -> None:
    """Chunk ``c`` of the state times all read vectors."""
    g = cell.geo
    if g.few:
        few = Share.of(2, g.read_dtype)
        take_few(cell, lane, chunk_column(cell, lane, c), few)
        for o in list(range(g.owned)):
            add_chunk(sums, rest, sum_at(g, o), state, 4 * o, few, 0)
    else:
        for m in list(range(g.read_strips)):
            vectors = Share.of(4, g.read_dtype)
            take_vectors(cell, lane, m, chunk_column(cell, lane, c), vectors)
            for o in list(range(g.owned)):
                for p in list(range(2)):
                    add_chunk(sums, rest, sum_at(g, o, p, m), vectors, 0, state, 4 * o + 2 * p)


@dataclass
class Lefts:
    """Weighed left vectors as operands: against right vectors in bfloat16 three ``parts`` of them in it, the smallest
    first, whose sum is exact; else one of tf32."""

    geo: Any
    parts: list[Any]
    whole: Operand | None

    @classmethod
    def of(cls, geo: Any) -> Lefts:
        size = geo.left_at(geo.owned, 0, 0)
        if geo.key_dtype == "bfloat16":
            return cls(geo, [T.alloc_local((size // 2,), "uint32") for _ in range(3)], None)
        return cls(geo, [], Operand.of(size))

    def at(self, o: int, r: int, s: int) -> int:
        """Where those of a strip and a step, or in parts of a pair of steps, start."""
        return self.geo.left_at(o, r, s) // (2 if self.parts else 1)


@T.macro
def sum_records(cell: Cell, lane: Lane, lefts: Lefts, c: Any, gain: Any) -> None:
    """``gain[8 * owned]``: all records' weighed left vectors times chunk ``c`` of their right vectors."""
    g, keys = cell.geo, cell.shared["keys"]
    clear(gain)
    for r in list(range(g.rank)):
        for q in list(range(ceil_div(g.record_steps, 2))):
            right = Share.of(4, g.key_dtype)
            if right.dtype != F32:
                row = key_row(cell, r, q * STRIP + lane.l % 16)
                load_matrices(right, 0, keys, row, chunk_column(cell, lane, c) + lane.l // 16 * 8, "x4_trans")
            for h in list(range(2)):
                if len(lefts.parts) > 0:
                    for o in list(range(g.owned)):
                        for part in lefts.parts:
                            multiply(gain, 8 * o + 4 * h, part, lefts.at(o, r, 2 * q), right.words, 2 * h, right.dtype)
                else:
                    for s in list(range(2 * q, min(2 * q + 2, g.record_steps))):
                        b = Operand.of(2, g.key_dtype)
                        for e in list(range(2)):
                            if right.dtype == F32:
                                column = chunk_column(cell, lane, c) + 8 * h + lane.g
                                put(b, e, keys[key_row(cell, r, s * STEP + 2 * lane.t + e), column])
                            else:
                                put(b, e, right.value(2 * h + s % 2, e))
                        for o in list(range(g.owned)):
                            add_product(gain, gain, 8 * o + 4 * h, lefts.whole, b, lefts.at(o, r, s))


def gain_at(o: int, p: int, e: int) -> int:
    """Where :func:`sum_records` leaves the lane's column ``e`` of four, of row ``p`` of strip ``o``."""
    return 8 * o + 4 * (e // 2) + 2 * p + e % 2


def column_at(cell: Cell, lane: Lane, c: Any, e: int) -> Any:
    """The lane's column ``e`` of four of a chunk; the next to an even one is its neighbour."""
    return chunk_column(cell, lane, c) + e // 2 * 8 + 2 * lane.t + e % 2


@T.macro
def fold_chunk(cell: Cell, lane: Lane, lefts: Lefts, state: Share, c: Any, decay: Any, folded: Share) -> None:
    """``folded``: chunk ``c`` of the state with all records folded in, rounded as it is stored."""
    g = cell.geo
    gain = T.alloc_local((8 * g.owned,), F32)
    sum_records(cell, lane, lefts, c, gain)
    for o in list(range(g.owned)):
        for p in list(range(2)):
            for h in list(range(2)):
                pair = pair_at(g, o, p, h)
                values, stored = T.alloc_local((2,), F32), T.alloc_local((2,), g.spec.state)
                for e in list(range(2)):
                    values[e] = state.value(pair, e) * decay + gain[gain_at(o, p, 2 * h + e)]
                    stored[e] = T.cast(common.saturated(values[e], g.spec.state), g.spec.state)
                if state.dtype == F32:
                    for e in list(range(2)):
                        folded.words[2 * pair + e] = stored[e]
                else:
                    folded.words[pair] = packed(stored[0], stored[1])


@T.macro
def keep_chunk(cell: Cell, lane: Lane, folded: Share, c: Any) -> None:
    """Chunk ``c`` of the new state to shared memory."""
    g, state = cell.geo, cell.shared["state"]
    for o in list(range(g.owned)):
        for p in list(range(2)):
            for h in list(range(2)):
                pair, column = pair_at(g, o, p, h), column_at(cell, lane, c, 2 * h)
                if folded.dtype == F32:
                    for e in T.vectorized(2):
                        state[lane.row(o) + p, column + e] = folded.words[2 * pair + e]
                else:
                    for e in list(range(2)):
                        half = T.cast(folded.words[pair] >> T.uint32(16 * e) & T.uint32(0xFFFF), "uint16")
                        state[lane.row(o) + p, column + e] = T.reinterpret(half, folded.dtype)


@T.macro
def weigh_lefts(cell: Cell, lane: Lane, records: Records, lefts: Lefts) -> None:
    """Left vectors of records, weighed, as operands: rows by records."""
    g = cell.geo
    for part in lefts.parts:
        if g.record_steps % 2 > 0:  # the last pair of steps has but one
            for i in T.unroll(part.shape[0]):
                part[i] = T.uint32(0)
    for r in list(range(g.rank)):
        for s in list(range(g.record_steps)):
            for o in list(range(g.owned)):
                for p in list(range(2)):
                    values = T.alloc_local((6,), F32)
                    for e in list(range(2)):
                        values[e] = records.lefts[g.left_at(o, r, s) + 2 * e + p] * weight_of(cell, lane, r, s, e)
                        if lefts.whole is not None:
                            put(lefts.whole, g.left_at(o, r, s) + 2 * e + p, values[e])
                    for n, part in enumerate(lefts.parts[::-1]):
                        part[lefts.at(o, r, s) + p] = upper(values[2 * n], values[2 * n + 1])
                        if n < 2:
                            for e in list(range(2)):
                                values[2 * n + 2 + e] = rest_of(values[2 * n + e])


@T.macro
def fold_chunks(cell: Cell, lane: Lane, lefts: Lefts, chunks: Any, decay: Any, sums: Any, rest: Any) -> None:
    """Some chunks of the state folded, read, and put back into shared memory, after all loads from there."""
    g = cell.geo
    states = [Share.of(4 * g.owned, g.spec.state) for _ in chunks]
    folded = [Share.of(4 * g.owned, g.spec.state) for _ in chunks]
    for c, state in zip(chunks, states, strict=True):
        take_state(cell, lane, c, state)
    for c, state, new in zip(chunks, states, folded, strict=True):
        fold_chunk(cell, lane, lefts, state, c, decay, new)
    for c, new in zip(chunks, folded, strict=True):
        read_chunk(cell, lane, new, c, sums, rest)
    for c, new in zip(chunks, folded, strict=True):
        keep_chunk(cell, lane, new, c)


@T.macro
def read_state(cell: Cell, lane: Lane, records: Records, folds: Any, scales: None) -> None:
    """The reads against checkpoint and records, each part's share of them, to shared memory. Where the row folds, the
    new state is written and read."""
    g = cell.geo
    past, sums, rest = (T.alloc_local((sum_at(g, g.owned),), F32) for _ in range(3))
    chunks = g.K // STRIP // g.parts
    decay = T.alloc_local((1,), F32)
    clear(past, sums, rest)
    decay[0] = T.Select(cell.kv_only == 0, cell.shared["weights"][weight_place(g, g.rank, 0)], ZERO)
    if folds:
        clear_missing(cell, lane, records)
        lefts = Lefts.of(g)
        weigh_lefts(cell, lane, records, lefts)
        await_state(cell, lane)
        pair = list(range(2 - chunks % 2))  # chunks whose products do not wait for each other
        for i in T.unroll(chunks // len(pair), unroll_factor=1):  # else nvcc asks for all right vectors at once
            fold_chunks(cell, lane, lefts, [i * len(pair) + n for n in pair], decay[0], sums, rest)
        T.sync_warp()
        write_tile(cell, lane)  # whole rows: a chunk's columns are less than what memory writes at a time
    else:
        if cell.count > 0:
            clear_missing(cell, lane, records)
            read_history(cell, lane, records, past)
        await_state(cell, lane)
        for c in T.unroll(chunks):
            state = Share.of(4 * g.owned, g.spec.state)
            take_state(cell, lane, c, state)
            read_chunk(cell, lane, state, c, sums, rest)
        for i in T.unroll(sum_at(g, g.owned)):
            sums[i] = (sums[i] + rest[i]) * decay[0]
            rest[i] = past[i]
    store_sums(cell, lane, sums, rest)


@T.macro
def store_sums(cell: Cell, lane: Lane, sums: Any, rest: Any) -> None:
    """The sums of all reads, of checkpoint and records, to shared memory: of vectors g and g + 8 of a strip, the rows
    4 t .. 4 t + 3; of few vectors, of 2 t and 2 t + 1 of a tile two rows."""
    g = cell.geo
    first = lane.part * g.T * g.reads
    for o in list(range(g.owned)):
        if g.few:
            for i in list(range(g.read_tiles * (2 if g.spread == 1 else 1))):
                column, at = i // 2 * STEP + 2 * lane.t + i % 2, sum_at(g, o, 0, i // 2) + i % 2
                pair = T.alloc_local((2,), F32)
                for p in list(range(2)):
                    pair[p] = sums[at + 2 * p] + rest[at + 2 * p]
                if column < g.T * g.reads * g.spread:
                    for p in T.vectorized(2):
                        cell.shared["sums"][first + read_of(cell, column), lane.row(o) + p] = pair[p]
        else:
            for i in list(range(ceil_div(g.T * g.reads, STEP))):
                four = T.alloc_local((4,), F32)
                for n in list(range(4)):
                    at = sum_at(g, o, n % 2, i // 2) + 2 * (i % 2) + n // 2
                    four[n] = sums[at] + rest[at]
                if i * STEP + lane.g < g.T * g.reads:
                    for n in T.vectorized(4):
                        row = (lane.strip + o) * STRIP + 4 * lane.t
                        cell.shared["sums"][first + i * STEP + lane.g, row + n] = four[n]


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
    for t in list(range(g.T)):
        for i, read in enumerate(rows.reads):
            for part in list(range(g.parts)):
                value = cell.shared["sums"][(part * g.T + t) * g.reads + i, cell.thread]
                read[t] = value if part == 0 else read[t] + value


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
    if g.copied_keys:
        copy_keys(cell)
        T.ptx_commit_group()
    else:
        load_keys(cell, records)
    if lane.warp == g.warps - 1:
        load_numbers(cell, records)
    load_lefts(cell, lane, records)
    if own.owner:
        load_values(own, rows)
    kit.load(cell, lane, token, scales)
    T.sync_warp()  # no load sinks below it: what is done with the records takes longest
    if cell.spec.kv_only > 0:
        if cell.kv_only == 0:
            fetch_state(cell, lane)
    else:
        fetch_state(cell, lane)
    T.ptx_commit_group()
    for q in list(range(ceil_div(g.T, g.groups))):
        if q * g.groups + cell.warp_group < g.T:
            stage_token(cell, token, length, q)
    if not g.copied_keys:
        stage_keys(cell, records)
    kit.stage(cell, token, scales, folds)
    if lane.warp == g.warps - 1:
        stage_weights(cell, records)
    if g.copied_keys:
        T.ptx_wait_group(1)  # all but the state
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
