"""An int8 state on tensor cores: no code is converted to be read, and all scales are chosen anew by a fold.

    S @ x = row * (codes @ (channel * x)),    channel * x = unit * (d_0 256^3 + d_1 256^2 + d_2 256 + d_3)

Read vectors, times the scales of the channels, are integers of 31 bits whose *digits* d are int8 too, so that products
m16n8k32 of codes and digits are exact. A lane has 16 neighbouring columns of each of its rows in a band of 64.

A fold needs the largest value of every channel over all of V, which a block owns, then that of every row divided by
its channels' scales: what is folded is worked out three times, as a lane has no registers for all of it.
"""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import tilelang.language as T
from tilelang import tvm

from kvbuffer_codegen.schedules import common
from kvbuffer_codegen.schedules.geometry import BAND, STEP, STRIP, WARP, ceil_div, factored
from kvbuffer_codegen.schedules.gpu_mma import (
    Lefts,
    await_state,
    clear,
    column_at,
    gain_at,
    read_history,
    read_row,
    run_window,
    store_sums,
    sum_records,
    weigh_lefts,
)
from kvbuffer_codegen.schedules.gpu_mma_load import (
    Lane,
    Records,
    clear_missing,
    weight_place,
    write_tile,
)
from kvbuffer_codegen.schedules.gpu_scaled import inverse_of, scale_of, top
from kvbuffer_codegen.schedules.gpu_tile import F32, ZERO, Cell, Place, access, leaves_of, load_columns
from kvbuffer_codegen.schedules.gpu_token import Token, own_token

DIGITS = 4
OLD, NEW, INVERSE = 0, 1, 2  #: rows of the channels' scales in shared memory
UNROLLED = 2  #: chunks of a fold at a time
WHOLE = 1.5 * 2.0**23  #: added to a float32, its low bits are the nearest whole number
#: Exponents, as float32 has them, of the largest value of a vector that are told apart: its unit is 2^29 below, and
#: neither it nor its inverse may overflow.
LEAST_EXPONENT, NO_NUMBER = 30, 255


def scale_registers(cell: Cell) -> Any:
    """[columns] scales of the channels that a lane has of a token; 0 for a row without a checkpoint."""
    return T.alloc_local((cell.geo.columns,), F32)


def first_splitter(cell: Cell) -> int:
    """The group that makes digits of the first token's read vectors, the next one of the second's, and so on: of other
    warps than have the tokens, if there are as many and what is split waits for no number of the token."""
    g = cell.geo
    spare = ceil_div(g.T, WARP // g.lanes) * (WARP // g.lanes)
    leaves = leaves_of([factored(read)[1] for read in cell.spec.program.reads], "scalar", "input")
    waits = any(node.op == "scalar" or not node.axes for node in leaves)
    return 0 if waits or spare + g.T > g.groups else spare


def splits(cell: Cell) -> Any:
    """Whether this thread's warp makes digits of a token's read vectors."""
    first = first_splitter(cell)
    below = cell.warp_group < first + cell.geo.T
    return tvm.tirx.all(cell.warp_group >= first, below) if first else below


@T.macro
def load_scales(cell: Cell, lane: Lane, token: Token, channels: Any) -> None:
    """Channels to registers, with the read vectors of a token that is another warp's; the scales of the warp's rows on
    their way to shared memory."""
    g, where, first = cell.geo, (cell.slot, cell.hv), first_splitter(cell)
    if splits(cell):
        if first > 0:
            for node in leaves_of([factored(read)[1] for read in cell.spec.program.reads], "input"):
                source = cell.input(node, T.min(cell.group - first, g.T - 1))
                load_columns(cell, token.leaves.held[node], source, access(cell.spec, node.value[0], g.piece))
        width = access(cell.spec, "state_channels", g.piece)
        load_columns(cell, channels, Place(cell.args.state_channels, where), width)
    if cell.thread % WARP < g.owned * STRIP // 4:
        row = lane.strip * STRIP + cell.thread % WARP * 4
        T.call_extern(
            "handle",
            "tl::cp_async_gs<16>",
            T.address_of(cell.shared["rows"][row]),
            T.address_of(cell.args.state_rows[(*where, row)]),
        )


@T.macro
def stage_scales(cell: Cell, token: Token, channels: Any, folds: Any) -> None:
    """The channels' scales to shared memory, or the digits of the tokens' read vectors, which a fold has to wait for.
    Called by all after they staged their tokens."""
    g, first = cell.geo, first_splitter(cell)
    x = T.alloc_local((g.columns,), F32)
    if splits(cell):
        for c in T.unroll(g.columns):
            channels[c] = T.Select(cell.kv_only == 0, channels[c], ZERO)
        if folds:
            if cell.group == first:
                for c in T.unroll(g.columns):
                    cell.shared["channels"][OLD, cell.column(c)] = channels[c]
        else:
            if first == 0 and g.T % 2 == 1:  # the group behind the last token reads what another of its warp stored
                T.sync_warp()
            for q in list(range(1 if first else ceil_div(g.T, g.groups))):
                if q * g.groups + cell.warp_group < first + g.T:
                    t = T.min(own_token(cell, q) - first, g.T - 1)
                    for i, read in enumerate(cell.spec.program.reads):
                        for c in T.unroll(g.columns):
                            if first > 0:
                                x[c] = token.leaves.lower(factored(read)[1], c)
                            else:
                                x[c] = T.cast(cell.shared["reads"][t * g.reads + i, cell.column(c)], F32)
                        split_vector(cell, t * g.reads + i, x, channels)


@T.macro
def stage_new_digits(cell: Cell, channels: Any) -> None:
    """Digits of all read vectors, which are in shared memory, by new scales: a group each."""
    g = cell.geo
    x = T.alloc_local((g.columns,), F32)
    for q in list(range(ceil_div(g.T * g.reads, g.groups))):
        if q * g.groups + cell.warp_group < g.T * g.reads:
            vector = T.min(q * g.groups + cell.group, g.T * g.reads - 1)
            for c in T.unroll(g.columns):
                channels[c] = cell.shared["channels"][NEW, cell.column(c)]
                x[c] = T.cast(cell.shared["reads"][vector, cell.column(c)], F32)
            split_vector(cell, vector, x, channels)


@T.macro
def split_vector(cell: Cell, vector: Any, values: Any, channels: Any) -> None:
    """Read vector number ``vector``, the group's columns of it times their scales, as digits; called by whole warps."""
    g = cell.geo
    x, words = T.alloc_local((g.columns,), F32), T.alloc_local((4,), "uint32")
    most, exponent = T.alloc_local((1,), "int32"), T.alloc_local((1,), "int32")
    most[0] = 0
    for c in T.unroll(g.columns):
        x[c] = values[c] * channels[c]
        most[0] = T.max(most[0], T.reinterpret(x[c], "int32") & 0x7FFFFFFF)  # of bits, where NaN is the largest
    for mask in [1 << i for i in range(g.lanes.bit_length() - 1)]:
        most[0] = T.max(most[0], T.shfl_xor(most[0], mask))
    exponent[0] = T.max(most[0] >> 23, LEAST_EXPONENT)
    if cell.lane == 0:
        unit = T.reinterpret((exponent[0] - 29) << 23, F32)
        cell.shared["units"][vector] = T.Select(exponent[0] == NO_NUMBER, T.reinterpret(most[0], F32), unit)
    for m in list(range(g.columns // 4)):
        for e in list(range(4)):
            whole = T.call_pure_extern(
                "int32", "__float2int_rn", x[4 * m + e] * T.reinterpret((283 - exponent[0]) << 23, F32)
            )
            # The bytes of this are signed digits: carries of the lower three are in those above.
            words[e] = (T.cast(whole, "uint32") + T.uint32(0x808080)) ^ T.uint32(0x808080)
        band, place = cell.column(4 * m) // BAND, cell.column(4 * m) % BAND
        for d in list(range(DIGITS)):
            cell.shared["digits"][digit_row(cell, band, vector, d), place // 4] = byte_of(words, 3 - d)


def byte_of(words: Any, byte: int) -> Any:
    """Byte number ``byte`` of each of four words."""
    pair = byte | (byte + 4) << 4
    return permuted(permuted(words[0], words[1], pair), permuted(words[2], words[3], pair), 0x5410)


def permuted(a: Any, b: Any, selector: int) -> Any:
    """Four bytes of two words."""
    return T.call_pure_extern("uint32", "__byte_perm", a, b, T.uint32(selector))


def digit_row(cell: Cell, band: Any, vector: Any, d: Any) -> Any:
    return (band * (cell.geo.T * cell.geo.reads) + vector) * DIGITS + d


@T.macro
def multiply_codes(into: Any, at: int, a: Any, a_at: int, b: Any, b_at: int) -> None:
    """``into[at : at + 4]`` += a b, of a warp, of int8: exact in int32."""
    kinds = "int8", "int8", "int32"
    T.ptx_mma("int32", "m16n8k32", "row", "col", *kinds, a.data, a_at, b.data, b_at, into.data, at, T.bool(False))


@T.macro
def take_codes(cell: Cell, lane: Lane, codes: Any) -> None:
    """All codes of the lane: for each strip and band two operands."""
    g = cell.geo
    raw = T.alloc_local((16,), g.spec.state)
    for o in list(range(g.owned)):
        for band in list(range(g.K // BAND)):
            for p in list(range(2)):
                for e in T.vectorized(16):
                    raw[e] = cell.shared["state"][lane.row(o) + p, band * BAND + 16 * lane.t + e]
                for w in list(range(4)):
                    for e in T.vectorized(4):
                        codes[code_at(g, o, band, w // 2) + 8 * (w % 2) + 4 * p + e] = raw[4 * w + e]


def code_at(g: Any, o: int, band: int, half: int) -> int:
    """Where the operand of a strip and half a band starts."""
    return ((o * (g.K // BAND) + band) * 2 + half) * 16


def digits_of(g: Any, lane: Lane, n: int, tile: int) -> tuple[Any, Any]:
    """(read vector, digit) that column g of a product has: number ``tile`` of read tile ``n``."""
    pair, d = lane.g // 2, lane.g % 2
    if g.digit_tiles == 4:
        return n * STEP + 2 * pair + tile // 2, tile % 2 * 2 + d
    if g.digit_tiles == 2:
        return pair, tile * 2 + d
    return pair // 2, pair % 2 * 2 + d


@T.macro
def read_tile(cell: Cell, lane: Lane, codes: Any, n: int, tile: int, into: Any, at: int) -> None:
    """``into[at : at + 2 * owned]``: two neighbouring digits of the products of one tile, put together as float32."""
    g = cell.geo
    digits, sums = T.alloc_local((4,), "uint32"), T.alloc_local((4 * g.owned,), "int32")
    for i in T.unroll(4 * g.owned):
        sums[i] = 0
    vector, digit = digits_of(g, lane, n, tile)
    vector = T.min(vector, g.T * g.reads - 1)
    for band in list(range(g.K // BAND)):
        for w in T.vectorized(4):
            digits[w] = cell.shared["digits"][digit_row(cell, band, vector, digit), 4 * lane.t + w]
        for o in list(range(g.owned)):
            for half in list(range(2)):
                multiply_codes(sums, 4 * o, codes, code_at(g, o, band, half), digits, 2 * half)
    for o in list(range(g.owned)):
        for p in list(range(2)):
            into[at + 2 * o + p] = T.cast(sums[4 * o + 2 * p] * 256 + sums[4 * o + 2 * p + 1], F32)


@T.macro
def read_checkpoint(cell: Cell, lane: Lane, rows: Any, sums: Any) -> None:
    """``sums``: the state times all read vectors; ``rows`` has the scales of the lane's rows."""
    g = cell.geo
    codes = T.alloc_local((code_at(g, g.owned, 0, 0),), g.spec.state)
    parts = T.alloc_local((4 * g.owned,), F32)
    take_codes(cell, lane, codes)
    clear(sums)
    for n in list(range(g.read_tiles)):
        for e in list(range(2 if g.digit_tiles == 4 else 1)):
            vector = read_row(cell, n * STEP + 2 * lane.t + e)
            for h in list(range(min(g.digit_tiles, 2))):
                read_tile(cell, lane, codes, n, 2 * e + h, parts, h * 2 * g.owned)
            for o in list(range(g.owned)):
                for p in list(range(2)):
                    at = (o * g.read_tiles + n) * 4 + 2 * p + e
                    i = 2 * o + p
                    if g.digit_tiles == 1:  # a lane has the upper or the lower two digits
                        parts[i] = T.Select(lane.t % 2 == 0, parts[i] * T.float32(65536), parts[i])
                        sums[at] = parts[i] + T.shfl_xor(parts[i], 1)
                    else:
                        sums[at] = parts[i] * T.float32(65536) + parts[2 * g.owned + i]
                    sums[at] = sums[at] * cell.shared["units"][vector] * rows[i]


@T.macro
def take_scales(cell: Cell, lane: Lane, which: int, c: Any, scales: Any) -> None:
    """``scales[4]``: of the lane's channels of a chunk."""
    for h in list(range(2)):
        for e in T.vectorized(2):
            scales[2 * h + e] = cell.shared["channels"][which, column_at(cell, lane, c, 2 * h) + e]


@T.macro
def value_chunk(cell: Cell, lane: Lane, lefts: Lefts, c: Any, rows: Any, values: Any) -> None:
    """``values[8 * owned]``: chunk ``c`` of the state with all records folded in, four columns of each of the lane's
    rows; ``rows`` has their scales, decayed."""
    g = cell.geo
    codes, gain = T.alloc_local((8 * g.owned,), g.spec.state), T.alloc_local((8 * g.owned,), F32)
    scales = T.alloc_local((4,), F32)
    for i in list(range(4 * g.owned)):
        for e in T.vectorized(2):
            column = column_at(cell, lane, c, i % 2 * 2)
            codes[2 * i + e] = cell.shared["state"][lane.row(i // 4) + i // 2 % 2, column + e]
    take_scales(cell, lane, OLD, c, scales)
    sum_records(cell, lane, lefts, c, gain)
    for i in list(range(2 * g.owned)):
        for e in list(range(4)):
            values[4 * i + e] = T.cast(codes[4 * i + e], F32) * scales[e] * rows[i] + gain[gain_at(i // 2, i % 2, e)]


@T.macro
def find_largest(cell: Cell, lane: Lane, values: Any, c: Any) -> None:
    """The largest magnitudes of a chunk's columns over the warp's rows, to shared memory. A lane keeps two columns of
    four, then one: fewer are exchanged."""
    most, sent = T.alloc_local((4,), F32), T.alloc_local((2,), F32)
    for e in list(range(4)):
        most[e] = size(values[e])
        for i in list(range(1, 2 * cell.geo.owned)):
            most[e] = T.max(most[e], size(values[4 * i + e]))
    for mask, half in ((4, 2), (2, 1)):
        for e in list(range(half)):
            sent[e] = T.Select((lane.g & mask) != 0, most[e], most[half + e])
            most[e] = T.Select((lane.g & mask) != 0, most[half + e], most[e])
            most[e] = T.max(most[e], T.shfl_xor(sent[e], 4 * mask))
    most[0] = T.max(most[0], T.shfl_xor(most[0], 4))
    if lane.g % 2 == 0:
        column = column_at(cell, lane, c, 0) + lane.g // 4 * 8 + lane.g // 2 % 2
        cell.shared["channel_largest"][lane.warp, column] = most[0]


def size(x: Any) -> Any:
    return T.call_pure_extern("float32", "fabsf", x)


@T.macro
def choose_channels(cell: Cell) -> None:
    """The new scales of all channels to the pool, and their inverses to shared memory."""
    g = cell.geo
    most = T.alloc_local((1,), F32)
    for q in list(range(ceil_div(g.K, g.schedule.threads))):
        k = q * g.schedule.threads + cell.thread
        if k < g.K:
            most[0] = ZERO
            for w in T.unroll(g.warps):
                most[0] = T.max(most[0], cell.shared["channel_largest"][w, k])
            most[0] = scale_of(common.saturated(most[0], g.spec.state))
            cell.shared["channels"][NEW, k] = most[0]
            cell.shared["channels"][INVERSE, k] = inverse_of(most[0], 1.0)
            cell.args.state_channels[cell.slot, cell.hv, k] = most[0]


@T.macro
def flatten(cell: Cell, lane: Lane, c: Any, values: Any) -> None:
    """``values`` of a chunk by their channels' new scales."""
    scales = T.alloc_local((4,), F32)
    take_scales(cell, lane, INVERSE, c, scales)
    for i in list(range(8 * cell.geo.owned)):
        values[i] = values[i] * scales[i % 4]


@T.macro
def choose_rows(cell: Cell, lane: Lane, rows: Any, inverse: Any) -> None:
    """The new scales of the lane's rows, from the largest values of its columns, to the pool; half their inverses."""
    g = cell.geo
    for i in list(range(2 * g.owned)):
        for mask in (1, 2):
            rows[i] = T.max(rows[i], T.shfl_xor(rows[i], mask))
        rows[i] = scale_of(T.min(rows[i], T.float32(1)))  # of values out of range more
        inverse[i] = inverse_of(rows[i], 0.5)
        rows[i] = rows[i] * common.number(1 / top(cell))
    if lane.t == 0:
        for o in list(range(g.owned)):
            for p in T.vectorized(2):
                cell.args.state_rows[cell.slot, cell.hv, lane.row(o) + p] = rows[2 * o + p]


@T.macro
def encode_chunk(cell: Cell, lane: Lane, c: Any, values: Any, inverse: Any) -> None:
    """Flat ``values`` of a chunk as codes to shared memory. They are put between 0 and 1, where a GPU saturates for
    nothing, and 1/2 is a code of 0."""
    g, span = cell.geo, 2 * top(cell)
    coded, code = T.alloc_local((4,), g.spec.state), T.alloc_local((1,), F32)
    for i in list(range(2 * g.owned)):
        for e in list(range(4)):
            part = values[4 * i + e] * inverse[i] + T.float32(0.5)
            code[0] = T.call_pure_extern("float32", "__saturatef", part) * T.float32(span)
            code[0] = code[0] + common.number(WHOLE - top(cell))
            coded[e] = T.cast(T.reinterpret(code[0], "int32"), g.spec.state)
        for h in list(range(2)):
            for e in T.vectorized(2):
                column = column_at(cell, lane, c, 2 * h)
                cell.shared["state"][lane.row(i // 2) + i % 2, column + e] = coded[2 * h + e]


@T.macro
def fold_codes(cell: Cell, lane: Lane, records: Records, rows: Any) -> None:
    """The state with all records folded in, by new scales, to shared memory and to the pool. ``rows``: the scales of
    the lane's rows, decayed, and then their new ones."""
    g = cell.geo
    chunks = g.K // STRIP
    lefts = Lefts.of(g)
    old, inverse, values = (T.alloc_local((n * g.owned,), F32) for n in (2, 2, 8))
    clear_missing(cell, lane, records)
    weigh_lefts(cell, lane, records, lefts)
    for i in list(range(2 * g.owned)):
        old[i] = rows[i]
        rows[i] = ZERO
    for c in T.unroll(chunks, unroll_factor=UNROLLED):
        value_chunk(cell, lane, lefts, c, old, values)
        find_largest(cell, lane, values, c)
    T.sync_threads()
    choose_channels(cell)
    T.sync_threads()
    for c in T.unroll(chunks, unroll_factor=UNROLLED):
        value_chunk(cell, lane, lefts, c, old, values)
        flatten(cell, lane, c, values)
        for i in list(range(8 * g.owned)):
            rows[i // 4] = T.max(rows[i // 4], size(values[i]))
    choose_rows(cell, lane, rows, inverse)
    for c in T.unroll(chunks, unroll_factor=UNROLLED):
        value_chunk(cell, lane, lefts, c, old, values)
        flatten(cell, lane, c, values)
        encode_chunk(cell, lane, c, values, inverse)
    T.sync_warp()
    write_tile(cell, lane)


@T.macro
def take_rows(cell: Cell, lane: Lane, rows: Any, decay: Any) -> None:
    """The scales of the lane's rows, decayed; 0 for a row without a checkpoint."""
    for i in list(range(2 * cell.geo.owned)):
        rows[i] = T.Select(cell.kv_only == 0, cell.shared["rows"][lane.row(i // 2) + i % 2], ZERO) * decay


@T.macro
def read_codes(cell: Cell, lane: Lane, records: Records, folds: Any, channels: Any) -> None:
    """As ``gpu_mma.read_state``."""
    g = cell.geo
    past, sums = (T.alloc_local((4 * g.owned * g.read_tiles,), F32) for _ in range(2))
    rows, decay = T.alloc_local((2 * g.owned,), F32), T.alloc_local((1,), F32)
    clear(past)
    decay[0] = cell.shared["weights"][weight_place(g, g.rank, 0)]
    if folds:
        await_state(cell, lane)
        take_rows(cell, lane, rows, decay[0])
        # The same head, which no compiler sees: it would keep the addresses of all that was loaded, to store there.
        head = T.alloc_local((1,), "int32")
        head[0] = T.shfl_sync(cell.hv, 0, WARP)
        fold_codes(dataclasses.replace(cell, hv=head[0]), lane, records, rows)
        stage_new_digits(cell, channels)
        T.sync_threads()
    else:
        if cell.count > 0:
            clear_missing(cell, lane, records)
            read_history(cell, lane, records, past)
        await_state(cell, lane)
        take_rows(cell, lane, rows, decay[0])
    read_checkpoint(cell, lane, rows, sums)
    store_sums(cell, lane, sums, past)


CODES = SimpleNamespace(registers=scale_registers, load=load_scales, stage=stage_scales, read=read_codes)


@T.macro
def run_scaled(cell: Cell, length: Any, folds: Any) -> None:
    run_window(cell, length, folds, CODES)
