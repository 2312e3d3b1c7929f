"""Rows of recurrences with a log-decay over K on CUDA: records and tokens are walked channel by channel.

The block's warps divide the channels of K. ``lanes`` neighbouring lanes of a warp hold four channels each of its share;
the warp's ``slices`` of such lanes divide the records. So a record's decays and keys are read once by a block, their
sums over later records cross lanes of one warp only, and every warp leaves its part of each sum over K (scores, norms)
in shared memory, where whoever needs it adds the parts up behind the one barrier.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import tilelang.language as T
from tilelang import tvm

from kvbuffer_codegen.ir import expr as ex
from kvbuffer_codegen.ir.expr import Expr
from kvbuffer_codegen.ir.forms import FORMS, Definition
from kvbuffer_codegen.ir.records import Field
from kvbuffer_codegen.schedules import common
from kvbuffer_codegen.schedules.geometry import WARP, Channels, Geometry, ceil_div, factored, power_of_two
from kvbuffer_codegen.schedules.gpu_ring import (
    Ring,
    clear_carry,
    load_lefts,
    load_parameters,
    ring_registers,
    weigh_lefts,
)
from kvbuffer_codegen.schedules.gpu_state import fold_staged, request_state, settle_state, store_state
from kvbuffer_codegen.schedules.gpu_tile import (
    F32,
    ZERO,
    Cell,
    Leaves,
    access,
    existing,
    leaves_of,
    load_columns,
    lower,
    number_at,
    store_columns,
    sum_lanes,
)
from kvbuffer_codegen.schedules.gpu_token import (
    Token,
    appends,
    compute_numbers,
    load_token,
    recall_numbers,
    scalar_leaf,
    share_numbers,
    shared_number,
    token_fields,
    token_registers,
)
from kvbuffer_codegen.schedules.gpu_window import Rows, load_values, read_token, row_registers, solve_token, write_token


@dataclass
class ChannelCell(Cell):
    """A cell whose registers over K hold the channels that :class:`Channels` gives the thread."""

    geo: Channels

    @property
    def warp(self) -> Any:
        return self.thread // WARP

    @property
    def part(self) -> Any:
        """The slice of records that this lane belongs to."""
        return self.thread % WARP // self.geo.across

    @property
    def first_channel(self) -> Any:
        return self.warp * self.geo.span + self.thread % self.geo.across * self.geo.wide

    def column(self, c: Any) -> Any:
        g = self.geo
        return self.first_channel + (self.part % (g.wide // g.columns) * g.columns + c if g.own else c)

    @property
    def first(self) -> Any:
        """Whether no other lane with a lower slice has the same column."""
        return self.part < self.geo.wide // self.geo.columns


def dealt(cell: Cell, own: bool = False) -> ChannelCell:
    """``cell`` dealt by channels; ``own``: as few of them a lane as there can be, for what is computed of a token."""
    given = {f.name: getattr(cell, f.name) for f in dataclasses.fields(Cell)}
    return ChannelCell(**{**given, "geo": Channels(cell.spec, cell.geo.schedule, own)})


def log_decay(cell: Cell) -> Expr:
    """Of a record, over K."""
    found = cell.spec.record_layout.log_decay_key
    assert found is not None
    return found


def token_decay(cell: Cell) -> Expr:
    """Of a token, over K."""
    found = cell.spec.program.log_decay_key
    assert found is not None
    return found


def power(x: Any) -> Any:
    """e^x, with fewer instructions than there are in expf: a sum of log-decays has the same error."""
    return T.exp2(x * common.number(math.log2(math.e)))


@dataclass
class Walk:
    """Registers for the records of this lane's slice and channels.

    leaves   what right vectors and log-decays are built from: [depth * wide] over K, [depth] numbers
    weights  [depth * wide] log-decays, then the weights that the log-decays after a record make
    later    [wide] sum of the log-decays of later records; at last of all, in slice 0
    """

    leaves: Leaves
    weights: Any
    later: Any


def record_leaves(cell: Cell) -> list[Expr]:
    layout = cell.spec.record_layout
    return leaves_of([*(r.expr for r in layout.rights), layout.log_decay_key], "field", "input")


def walk_registers(cell: ChannelCell) -> Walk:
    g, leaves = cell.geo, Leaves(cell.spec)
    for node in record_leaves(cell):
        dtype = getattr(cell.args, node.value if node.op == "field" else node.value[0]).dtype
        places = g.depth if node.op == "field" else 1
        leaves.held[node] = T.alloc_local((places * (g.columns if node.axes else 1),), dtype)
    return Walk(leaves, T.alloc_local((g.depth * g.columns,), F32), T.alloc_local((g.columns,), F32))


def each_slice(cell: ChannelCell) -> Any:
    """Records of a slice, the last of which may have fewer."""
    return T.ceildiv(cell.count, cell.geo.slices)


def record_number(cell: ChannelCell, d: Any) -> Any:
    return cell.part * each_slice(cell) + d


def held(cell: ChannelCell, d: Any) -> Any:
    """Whether the slice's record ``d`` exists."""
    return tvm.tirx.all(d < each_slice(cell), record_number(cell, d) < cell.count)


@T.macro
def load_walk(cell: ChannelCell, walk: Walk) -> None:
    """All records at once; zeros where there is none."""
    g = cell.geo
    for node, buffer in walk.leaves.held.items():
        if node.op == "input":
            if len(node.axes) > 0:
                load_columns(cell, buffer, cell.input(node, 0), access(cell.spec, node.value[0], g.columns))
            else:
                buffer[0] = number_at(cell.input(node, 0))
        else:
            for e in T.unroll(buffer.shape[0]):
                buffer[e] = T.cast(0, buffer.dtype)
    load_record(cell, walk, 0)


@T.macro
def load_record(cell: ChannelCell, walk: Walk, d: int) -> None:
    """Record ``d`` of every slice and those after it, one in another: so what their addresses have in common is worked
    out once. A slice that has fewer reads the row's last record again."""
    g = cell.geo
    if d < each_slice(cell):
        for node, buffer in walk.leaves.held.items():
            if node.op == "field":
                place = cell.record(node.value, T.min(record_number(cell, d), cell.count - 1))
                if len(node.axes) > 0:
                    load_columns(cell, buffer, place, access(cell.spec, node.value, g.columns), d * g.columns)
                else:
                    buffer[d] = number_at(place)
        if d + 1 < g.depth:
            load_record(cell, walk, d + 1)


def record_value(cell: ChannelCell, walk: Walk, value: Expr, d: int, c: Any) -> Any:
    """``value`` of record ``d`` of the slice, at column register ``c``."""

    def leaf(node: Expr) -> Any:
        place = d if node.op == "field" else 0
        return T.cast(walk.leaves.held[node][place * cell.geo.columns + c if node.axes else place], F32)

    return existing(cell, c, lower(value, leaf, cell.spec))


@T.macro
def weigh_walk(cell: ChannelCell, walk: Walk) -> None:
    """Log-decays to weights, newest record first: sums only, so that a decay of exactly 0 stays exact."""
    g, key = cell.geo, log_decay(cell)
    sums = T.alloc_local((g.columns,), F32)
    other = T.alloc_local((1,), F32)
    for c in T.unroll(g.columns):
        sums[c] = ZERO
        walk.later[c] = ZERO
    for d in list(range(g.depth)):
        for c in T.unroll(g.columns):
            value = record_value(cell, walk, key, d, c)
            walk.weights[d * g.columns + c] = T.Select(held(cell, d), value, ZERO)
            sums[c] = sums[c] + walk.weights[d * g.columns + c]
    for distance in [1 << s for s in range(g.slices.bit_length() - 1)]:
        for c in T.unroll(g.columns):
            other[0] = T.shfl_down(sums[c], distance * g.across, WARP)
            other[0] = T.Select(cell.part + distance < g.slices, other[0], ZERO)
            walk.later[c] = walk.later[c] + other[0]
            sums[c] = sums[c] + other[0]
    for d in reversed(range(g.depth)):
        if d < each_slice(cell):
            for c in T.unroll(g.columns):
                sums[c] = walk.weights[d * g.columns + c]
                walk.weights[d * g.columns + c] = power(walk.later[c])
                walk.later[c] = walk.later[c] + sums[c]


@T.macro
def weighted_right(cell: ChannelCell, walk: Walk, r: int, d: int, into: Any) -> None:
    g = cell.geo
    right = cell.spec.record_layout.rights[r].expr
    for c in T.unroll(g.columns):
        into[c] = record_value(cell, walk, right, d, c) * walk.weights[d * g.columns + c]


@T.macro
def share_columns(cell: ChannelCell, values: Any, name: str, row: Any) -> None:
    for c in T.vectorized(cell.geo.columns):
        cell.shared[name][row, cell.column(0) + c] = values[c]


@T.macro
def stage_walk(cell: ChannelCell, walk: Walk) -> None:
    """Weighted right vectors and the checkpoint's log-decay to shared memory, for a fold."""
    g = cell.geo
    right = T.alloc_local((g.columns,), F32)
    for d in list(range(g.depth)):
        if held(cell, d):
            for r in list(range(g.rank)):
                weighted_right(cell, walk, r, d, right)
                share_columns(cell, right, "ring_rights", record_number(cell, d) * g.rank + r)
    if cell.part == 0:
        share_columns(cell, walk.later, "decay", 0)


@T.macro
def stage_carried(cell: Cell, ring: Ring) -> None:
    """Weighted left vectors to shared memory."""
    g = cell.geo
    for i in T.unroll(g.slots * g.rank):
        for p in T.unroll(g.rows):
            at = (i // g.rank * g.lanes + cell.lane) * g.rank + i % g.rank
            cell.shared["ring_lefts"][at, cell.group_row + p] = ring.lefts[i * g.rows + p]


@T.macro
def share_scores(cell: ChannelCell, values: Any, count: int, each: int) -> None:
    """This warp's part of ``each`` scores a record, in ``values[count]`` over the slice's records, to shared memory."""
    g = cell.geo
    sum_lanes(cell, values, count)
    share = max(1, count // g.across)
    for q in T.unroll(share):
        lane = cell.thread % g.across
        index = lane * share + q if count > g.across else lane // (g.across // count)
        j = record_number(cell, index // each)
        if tvm.tirx.all(index < g.depth * each, index // each < each_slice(cell), j < cell.count):
            cell.shared["parts"][index % each, cell.warp // g.quad, j, cell.warp % g.quad] = values[q]


@T.macro
def score_walk(cell: ChannelCell, walk: Walk, reads: Any) -> None:
    """This warp's part of every record's scores; ``reads[vectors * wide]``."""
    g = cell.geo
    each = g.rank * g.reads
    count = power_of_two(g.depth * each)
    values = T.alloc_local((count,), F32)
    right = T.alloc_local((g.columns,), F32)
    for i in T.unroll(count):
        values[i] = ZERO
    for d in list(range(g.depth)):
        if d < each_slice(cell):
            for r in list(range(g.rank)):
                weighted_right(cell, walk, r, d, right)
                for i in T.unroll(g.reads):
                    for c in T.unroll(g.columns):
                        at = d * each + r * g.reads + i
                        values[at] = values[at] + right[c] * reads[i * g.columns + c]
    share_scores(cell, values, count, each)


def numbers_of(cell: Cell, values: list[Expr | None]) -> list[Definition]:
    """The definitions that ``values`` are built from, in their order."""
    definitions = {d.name: d for d in cell.spec.program.definitions}
    needed = {n.value for n in leaves_of(values, "scalar")}
    while more := {n.value for name in needed for n in leaves_of([definitions[name].expr], "scalar")} - needed:
        needed |= more
    return [d for d in definitions.values() if d.name in needed]


def early_values(cell: Cell) -> list[Expr | None]:
    """What is computed of a token before the barrier: its read vectors, without the numbers that they are multiplied
    by, and its log-decay."""
    program = cell.spec.program
    rights = [factored(right)[1] for right in program.rights] if cell.geo.T > 1 else []
    return [*(factored(read)[1] for read in program.reads), *rights, program.log_decay_key]


def waits(cell: Cell, values: list[Expr | None]) -> bool:
    """Whether ``values`` need a sum over K."""
    return any(d.reduce for d in numbers_of(cell, values))


def in_one_warp(cell: Cell) -> Cell:
    """``cell`` with all of K in every warp."""
    return dataclasses.replace(cell, geo=Geometry(cell.spec, dataclasses.replace(cell.geo.schedule, lanes=WARP)))


@T.macro
def deal_numbers(cell: Cell, token: Token, t: Any, length: Any) -> None:
    """Numbers of token ``t`` by one warp for all, behind a barrier, and those of its record; ``cell`` as
    :func:`in_one_warp` makes it."""
    compute_numbers(cell, token)
    share_numbers(cell, token, t)
    for field in [f for f in token_fields(cell) if f.axis is None]:
        target = cell.record(field.name, cell.count + t)
        if tvm.tirx.all(appends(cell, field.heads), cell.lane == 0, t < length):
            target.tensor[target.where] = token.leaves.lower(field.expr)


@T.macro
def compute_early(own: ChannelCell, token: Token, t: int) -> None:
    """Log-decay, read vectors and, of a window's token, right vectors of the lane's own channels, but for the numbers
    that they are multiplied by. Numbers that wait for a sum are in shared memory."""
    g, program = own.geo, own.spec.program
    decay, decayed = ex.leaf("scalar", "log_decay_key", ("K",), "value"), token_decay(own)
    if waits(own, early_values(own)):
        recall_numbers(own, token, numbers_of(own, early_values(own)), t)
    else:
        for d in numbers_of(own, early_values(own)):
            token.leaves.held[scalar_leaf(token, d.name)][0] = token.leaves.lower(d.expr)
    for c in T.unroll(g.columns):
        token.decay[c] = existing(own, c, token.leaves.lower(decayed, c))
    token.leaves.held[decay] = token.decay
    for i, read in enumerate(program.reads):
        vector = ex.rewrite(factored(read)[1], lambda e: decay if e == decayed else None)
        for c in T.unroll(g.columns):
            token.reads[i * g.columns + c] = existing(own, c, token.leaves.lower(vector, c))
    if g.T > 1:
        for r, right in enumerate(program.rights):
            for c in T.unroll(g.columns):
                token.rights[r * g.columns + c] = existing(own, c, token.leaves.lower(factored(right)[1], c))


@T.macro
def gather_reads(cell: ChannelCell, own: ChannelCell, token: Token, reads: Any) -> None:
    """``reads[vectors * wide]`` of this lane's channels, from the lanes that computed them."""
    g, few = cell.geo, own.geo.columns
    for i in T.unroll(g.reads):
        for c in T.unroll(g.columns):
            source = c // few * g.across + cell.thread % g.across
            reads[i * g.columns + c] = T.shfl_sync(token.reads[i * few + c % few], source, WARP)


def late_fields(cell: Cell, late: bool) -> list[Field]:
    """Fields over K of a token's record: those whose numbers are known behind the barrier alone, or the others."""
    known = {d.name for d in numbers_of(cell, early_values(cell))}
    fields = [f for f in token_fields(cell) if f.axis == "K"]
    return [f for f in fields if late != ({d.name for d in numbers_of(cell, [f.expr])} <= known)]


@T.macro
def append_vectors(cell: ChannelCell, token: Token, fields: list[Field], t: int, length: Any) -> None:
    g = cell.geo
    for field in fields:
        target = cell.record(field.name, cell.count + t)
        if tvm.tirx.all(appends(cell, field.heads), cell.first, t < length):
            values = T.alloc_local((g.columns,), target.tensor.dtype)
            for c in T.unroll(g.columns):
                held = token.decay[c] if field.expr == cell.spec.program.log_decay_key else None
                value = token.leaves.lower(field.expr, c) if held is None else held
                values[c] = T.cast(value, target.tensor.dtype)
            store_columns(cell, values, target, access(cell.spec, field.name, g.columns))


@T.macro
def read_out(cell: Cell, rows: Rows, ring: Ring, state: Any, n: Any, decayed: Any, parts: Channels) -> None:
    """The token's reads against checkpoint and records; the lane's own row to ``rows.reads``."""
    g, layout = cell.geo, cell.spec.record_layout
    vector = T.alloc_local((g.columns,), F32)
    sums = T.alloc_local((g.reads * g.rows,), F32)
    score = T.alloc_local((1,), F32)
    part = T.alloc_local((parts.quad,), F32)
    for i in list(range(g.reads)):
        for c in T.unroll(g.columns):
            vector[c] = existing(cell, c, cell.shared["reads"][i, cell.column(c)])
        for p in T.unroll(g.rows):
            sums[i * g.rows + p] = ZERO
            for c in T.unroll(g.columns):
                sums[i * g.rows + p] = sums[i * g.rows + p] + state[p * g.columns + c] * vector[c]
            if layout.log_decay_scalar is not None:
                sums[i * g.rows + p] = sums[i * g.rows + p] * T.Select(decayed, T.exp(ring.carry[0]), T.float32(1))
            if layout.log_decay_value is not None:
                weight = T.Select(decayed, T.exp(ring.value_carry[p]), T.float32(1))
                sums[i * g.rows + p] = sums[i * g.rows + p] * weight
        for slot in list(range(g.slots)):
            for r in list(range(g.rank)):
                score[0] = ZERO
                if slot * g.lanes + cell.lane < n:
                    for m in T.unroll(parts.warps // parts.quad):
                        for e in T.vectorized(parts.quad):
                            part[e] = cell.shared["parts"][r * g.reads + i, m, slot * g.lanes + cell.lane, e]
                        for e in T.unroll(parts.quad):
                            score[0] = score[0] + part[e]
                for p in T.unroll(g.rows):
                    left = ring.lefts[(slot * g.rank + r) * g.rows + p]
                    sums[i * g.rows + p] = sums[i * g.rows + p] + score[0] * left
    sum_lanes(cell, sums, g.rows, g.reads)
    for i in list(range(g.reads)):
        rows.reads[i][0] = sums[i * g.rows]


@T.macro
def walk_row(cell: Cell, length: Any, folds: Any) -> None:
    """One token of a row: all loads, records and token channel by channel, a barrier, the read-out."""
    g = cell.geo
    ch, own, one = dealt(cell), dealt(cell, True), in_one_warp(cell)
    state = T.alloc_local((g.rows * g.columns,), F32)
    read = T.alloc_local((1,), "int32")  # records that are read, not folded
    reads = T.alloc_local((g.reads * ch.geo.columns,), F32)
    ring, walk, rows = ring_registers(cell), walk_registers(ch), row_registers(cell)
    token, numbers = token_registers(own), token_registers(one)
    # No compiler is to put a load behind what does not need it: the fences are there for it alone.
    load_walk(ch, walk)
    load_parameters(cell, ring)
    for slot in list(range(g.slots)):
        load_lefts(cell, ring, slot * g.lanes + cell.lane, cell.count, slot)
    load_token(own, token, 0)
    if ch.warp == 0:
        load_token(one, numbers, 0)
    load_values(cell, rows)
    T.sync_warp()
    request_state(cell, state)
    T.sync_warp()
    clear_carry(ring)
    for slot in reversed(range(g.slots)):
        weigh_lefts(cell, ring, slot)
    if ch.warp == 0:
        deal_numbers(one, numbers, 0, length)
    if waits(own, early_values(own)):
        T.sync_threads()
    compute_early(own, token, 0)
    append_vectors(own, token, late_fields(own, False), 0, length)
    gather_reads(ch, own, token, reads)
    weigh_walk(ch, walk)
    if folds:
        stage_walk(ch, walk)
        stage_carried(cell, ring)
    else:
        if cell.count > 0:
            score_walk(ch, walk, reads)
            for i in T.unroll(g.reads):
                for c in T.unroll(ch.geo.columns):
                    reads[i * ch.geo.columns + c] = reads[i * ch.geo.columns + c] * power(walk.later[c])
    if ch.part == 0:
        vector = T.alloc_local((ch.geo.columns,), F32)
        for i in list(range(g.reads)):
            for c in T.unroll(ch.geo.columns):
                vector[c] = reads[i * ch.geo.columns + c]
            share_columns(ch, vector, "reads", i)
    T.sync_threads()
    if len(late_fields(own, True)) > 0:
        recall_numbers(own, token, numbers_of(own, [f.expr for f in late_fields(own, True)]), 0)
        append_vectors(own, token, late_fields(own, True), 0, length)
    settle_state(cell, state)
    read[0] = T.Select(folds, 0, cell.count)
    if folds:
        fold_staged(cell, ring, state)
        store_state(cell, state, not FORMS[cell.spec.form].writes_state)
    rows.passed[0] = T.float32(1)
    read_out(cell, rows, ring, state, read[0], tvm.tirx.Not(folds), ch.geo)
    solve_token(cell, token, rows, 0)
    write_token(cell, token, rows, length, 0)


def pair(cell: Cell, t: Any, m: Any, r: int, i: Any) -> Any:
    """Row of shared ``window`` of the score of token ``m`` for read ``i`` of the later token ``t``."""
    g = cell.geo
    return ((t * (t - 1) // 2 + m) * g.rank + r) * g.reads + i


@T.macro
def pull_back(own: ChannelCell, tokens: list[Token]) -> None:
    """Scores of the window's own tokens, this warp's part, and read vectors weighted by the decays of the tokens before
    them, to shared memory."""
    g = own.geo
    total = g.rank * g.reads * g.T * (g.T - 1) // 2
    count = power_of_two(total)
    values = T.alloc_local((count,), F32)
    gates = T.alloc_local((g.T * g.columns,), F32)
    for i in T.unroll(count):
        values[i] = ZERO
    for t in list(range(g.T)):
        for c in T.unroll(g.columns):
            gates[t * g.columns + c] = power(tokens[t].decay[c])
        for i in list(range(g.reads)):
            for m in reversed(range(t)):
                for c in T.unroll(g.columns):
                    for r in list(range(g.rank)):
                        at = pair(own, t, m, r, i)
                        product = tokens[m].rights[r * g.columns + c] * tokens[t].reads[i * g.columns + c]
                        values[at] = values[at] + T.Select(own.first, product, ZERO)
                    tokens[t].reads[i * g.columns + c] = tokens[t].reads[i * g.columns + c] * gates[m * g.columns + c]
            if own.first:
                for c in T.unroll(g.columns):
                    own.shared["reads"][t * g.reads + i, own.column(c)] = tokens[t].reads[i * g.columns + c]
    sum_lanes(own, values, count)
    share = max(1, count // WARP)
    for q in T.unroll(share):
        lane = own.thread % WARP
        index = lane * share + q if count > WARP else lane // (WARP // count)
        if index < total:
            own.shared["window"][index, own.warp] = values[q]
    T.sync_warp()


@T.macro
def take_columns(cell: ChannelCell, into: Any, name: str, row: Any) -> None:
    for c in T.vectorized(cell.geo.columns):
        into[c] = cell.shared[name][row, cell.column(0) + c]


@T.macro
def score_window(cell: ChannelCell, walk: Walk) -> None:
    """As :func:`score_walk` for the read vectors of a window, which are in shared memory; then these weighted as the
    checkpoint is. Called by whole warps."""
    g = cell.geo
    vectors = g.T * g.reads
    each = g.rank * vectors
    count = power_of_two(g.depth * each)
    values = T.alloc_local((count,), F32)
    rights = T.alloc_local((g.depth * g.rank * g.columns,), F32)
    right, vector = T.alloc_local((g.columns,), F32), T.alloc_local((g.columns,), F32)
    for i in T.unroll(count):
        values[i] = ZERO
    for d in list(range(g.depth)):
        for r in list(range(g.rank)):
            weighted_right(cell, walk, r, d, right)
            for c in T.unroll(g.columns):
                rights[(d * g.rank + r) * g.columns + c] = T.Select(held(cell, d), right[c], ZERO)
    for v in list(range(vectors)):
        take_columns(cell, vector, "reads", v)
        for d in list(range(g.depth)):
            if d < each_slice(cell):
                for r in list(range(g.rank)):
                    at = d * each + r * vectors + v
                    for c in T.unroll(g.columns):
                        values[at] = values[at] + rights[(d * g.rank + r) * g.columns + c] * vector[c]
    share_scores(cell, values, count, each)
    for c in T.unroll(g.columns):
        walk.later[c] = power(walk.later[c])
    if cell.part == 0:
        for v in list(range(vectors)):
            take_columns(cell, vector, "reads", v)
            for c in T.unroll(g.columns):
                vector[c] = vector[c] * walk.later[c]
            share_columns(cell, vector, "reads", v)


@T.macro
def add_parts(cell: Cell, parts: Channels, n: Any) -> None:
    """Shared ``scores`` of ``n`` records and of the window's tokens, as :mod:`gpu_window` wants them. Ends with a
    barrier."""
    g = cell.geo
    total = T.alloc_local((1,), F32)
    carried = g.slots * g.lanes
    for q in T.serial(ceil_div(carried * g.values, g.schedule.threads)):
        item = q * g.schedule.threads + cell.thread
        if tvm.tirx.all(item < carried * g.values, item % carried < n):
            total[0] = ZERO
            for w in T.unroll(parts.warps):
                total[0] = (
                    total[0] + cell.shared["parts"][item // carried, w // parts.quad, item % carried, w % parts.quad]
                )
            cell.shared["scores"][item % carried, item // carried] = total[0]
    for r, right in enumerate(cell.spec.program.rights):
        for q in T.serial(ceil_div(g.T * g.T * g.reads, g.schedule.threads)):
            item = q * g.schedule.threads + cell.thread
            i, m, t = item % g.reads, item // g.reads % g.T, item // (g.reads * g.T)
            if tvm.tirx.all(t < g.T, m < t):
                total[0] = ZERO
                for w in T.unroll(parts.warps):
                    total[0] = total[0] + cell.shared["window"][pair(cell, t, m, r, i), w]
                number = shared_value(cell, factored(right)[0], m)
                cell.shared["scores"][carried + m, (r * g.T + t) * g.reads + i] = total[0] * number
    T.sync_threads()


def shared_value(cell: Cell, value: Expr, t: Any) -> Any:
    """``value``, of numbers of token ``t``."""
    return lower(value, lambda node: shared_number(cell, node.value, t), cell.spec)


@T.macro
def walk_tokens(cell: Cell, length: Any, folds: Any) -> None:
    """As :func:`walk_row` for a window: two barriers."""
    g = cell.geo
    ch, own, one = dealt(cell), dealt(cell, True), in_one_warp(cell)
    state = T.alloc_local((g.rows * g.columns,), F32)
    read = T.alloc_local((1,), "int32")  # records that are read, not folded
    ring, walk, rows = ring_registers(cell), walk_registers(ch), row_registers(cell)
    tokens, numbers = [token_registers(own) for _ in range(g.T)], token_registers(one)
    load_walk(ch, walk)
    load_parameters(cell, ring)
    for slot in list(range(g.slots)):
        load_lefts(cell, ring, slot * g.lanes + cell.lane, cell.count, slot)
    for t in list(range(g.T)):
        load_token(own, tokens[t], t)
    load_token(one, numbers, T.min(ch.warp, g.T - 1))
    load_values(cell, rows)
    T.sync_warp()
    request_state(cell, state)
    T.sync_warp()
    clear_carry(ring)
    for slot in reversed(range(g.slots)):
        weigh_lefts(cell, ring, slot)
    for q in list(range(ceil_div(g.T, ch.geo.warps))):
        if q * ch.geo.warps + ch.warp < g.T:
            if q > 0:
                load_token(one, numbers, q * ch.geo.warps + ch.warp)
            deal_numbers(one, numbers, q * ch.geo.warps + ch.warp, length)
    if waits(own, early_values(own)):
        T.sync_threads()
    for t in list(range(g.T)):
        compute_early(own, tokens[t], t)
        append_vectors(own, tokens[t], late_fields(own, False), t, length)
    pull_back(own, tokens)
    weigh_walk(ch, walk)
    if folds:
        stage_walk(ch, walk)
        stage_carried(cell, ring)
    else:
        if cell.count > 0:
            score_window(ch, walk)
    T.sync_threads()
    if len(late_fields(own, True)) > 0:
        for t in list(range(g.T)):
            recall_numbers(own, tokens[t], numbers_of(own, [f.expr for f in late_fields(own, True)]), t)
            append_vectors(own, tokens[t], late_fields(own, True), t, length)
    read[0] = T.Select(folds, 0, cell.count)
    add_parts(cell, ch.geo, read[0])
    settle_state(cell, state)
    if folds:
        fold_staged(cell, ring, state)
        store_state(cell, state, True)
    else:
        layout = cell.spec.record_layout
        for p in T.unroll(g.rows):
            for c in T.unroll(g.columns):
                if layout.log_decay_scalar is not None:
                    state[p * g.columns + c] = state[p * g.columns + c] * T.exp(ring.carry[0])
                if layout.log_decay_value is not None:
                    state[p * g.columns + c] = state[p * g.columns + c] * T.exp(ring.value_carry[p])
    rows.passed[0] = T.float32(1)
    for t in T.unroll(g.T):
        read_token(cell, tokens[0], rows, ring, state, read[0], t)
        solve_token(cell, tokens[0], rows, t)
        write_token(cell, tokens[0], rows, length, t)
