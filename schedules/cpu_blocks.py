"""The steps of a CPU cell, as macros over a :class:`~kvbuffer_codegen.schedules.cpu.Cell`."""

from __future__ import annotations

from typing import Any

import tilelang.language as T

from kvbuffer_codegen.schedules import common
from kvbuffer_codegen.schedules.cpu import TOGETHER, byte_offset
from kvbuffer_codegen.schedules.cpu_random import draw

# -- tokens ----------------------------------------------------------------------------------------------------------


@T.macro
def halve(c: Any, acc: Any) -> None:
    """acc[0] = the sum of its lanes, halved pairwise."""
    for half in c.halves:
        for lane in T.serial(half):
            acc[lane] = acc[lane] + acc[lane + half]


@T.macro
def sum_over_k(c: Any, term: Any, out: Any, at: Any) -> None:
    """out[at] = the sum of ``term`` over K."""
    for lane in T.serial(c.lanes):
        c.acc[lane] = c.side_by_side(term, lane)
    halve(c, c.acc)
    out[at] = c.acc[0]


@T.macro
def stage_input(c: Any, argument: Any, t: Any, lead: Any) -> None:
    for i in list(range(max(argument.count, 1))):
        if argument.axis is None:
            c.staged[argument.name][(*lead, i)] = c.input(argument, t, i, 0)
        else:
            for x in T.serial(c.extent(argument.axis)):
                c.staged[argument.name][(*lead, i, x)] = c.input(argument, t, i, x)


@T.macro
def stage_parameters(c: Any) -> None:
    for argument in c.inputs.values():
        if argument.parameter:
            stage_input(c, argument, 0, ())


@T.macro
def stage_tokens(c: Any) -> None:
    """Inputs, numbers, vectors and decays of every token; vectors past the length are zero."""
    program = c.spec.program
    if c.T > 1:
        for read in c.reads:
            for t, k in T.grid(c.T, c.K):
                read.y[t, k] = T.float32(0)
    for t in T.serial(c.length[0]):
        for argument in c.inputs.values():
            if not argument.parameter:
                stage_input(c, argument, t, (t,))
        for d in program.definitions:
            if d.reduce:
                sum_over_k(c, c.term(d.expr, t), c.scalars[d.name], (t,))
            else:
                c.scalars[d.name][t] = c.value(d.expr, t)
        for read in c.reads:
            for k in T.serial(c.K):
                read.y[t, k] = c.value(read.expr, t, k=k)
        for write in c.writes:
            for k in T.serial(c.K):
                write.right[t, k] = c.value(program.rights[write.number], t, k=k)
        if program.log_decay_scalar is not None:
            c.decay[t] = T.exp(c.value(program.log_decay_scalar, t))
        if program.log_decay_key is not None:
            for k in T.serial(c.K):
                c.decay_k[t, k] = T.exp(c.value(program.log_decay_key, t, k=k))
        if program.log_decay_value is not None:
            for v in T.serial(c.V):
                c.decay_v[t, v] = T.exp(c.value(program.log_decay_value, t, v=v))


@T.macro
def look_back(c: Any) -> None:
    """Scores of every token against the earlier ones, the newest first; y decays to the start of its window."""
    for t in T.serial(c.length[0]):
        c.w[t] = T.float32(1)
        start_walk(c, t)
        for back in T.serial(t):
            if is_ancestor(c, t - 1 - back):
                look_at(c, t, t - 1 - back)
                walk_on(c, t - 1 - back)
        for read in c.reads:
            for k in T.serial(c.K):
                read.y[t, k] = read.y[t, k] * c.w[t]


@T.macro
def look_at(c: Any, t: Any, s: Any) -> None:
    """Scores of token ``t`` against token ``s``, and its vectors pulled back over it."""
    for read in c.reads:
        for write, score in zip(c.writes, read.score, strict=True):
            sum_over_k(c, c.back_product(read, write, t, s), score, (t, s))
            score[t, s] = score[t, s] * c.w[t]
        if c.layout.log_decay_key is not None:
            for k in T.serial(c.K):
                read.y[t, k] = read.y[t, k] * c.decay_k[s, k]
    if c.layout.log_decay_scalar is not None:
        c.w[t] = c.w[t] * c.decay[s]


# -- a tree: a token sees its ancestors, which a walk over the earlier tokens, newest first, meets in order ------------


@T.macro
def start_walk(c: Any, t: Any) -> None:
    if c.spec.tree:
        c.ancestor[0] = c.parent[t]


def is_ancestor(c: Any, s: Any) -> Any:
    """Whether token ``s`` is the next one on the walk; in a chain every token is."""
    return c.ancestor[0] == s if c.spec.tree else True


@T.macro
def walk_on(c: Any, s: Any) -> None:
    if c.spec.tree:
        c.ancestor[0] = c.parent[s]


# -- records ---------------------------------------------------------------------------------------------------------


@T.macro
def gather_records(c: Any) -> None:
    """Vectors of all records times their weights, the newest first, zero up to a whole group.

    ``keep``, the weight of what is read next, starts at 1 and ends as the checkpoint's decay. All that scales a record
    as a whole goes into its left vector at once, so that a right vector made of inputs stays exact.
    """
    start_keep(c)
    for back in T.serial(c.n[0]):
        c.at[0] = common.record_row(c.base[0], c.n[0] - 1 - back, c.arguments.R)
        for write in c.writes:
            c.factors[write.number][0] = T.cast(c.factor(write), "float32")
            for k in T.serial(c.K):
                write.records_right[c.n[0] - 1 - back, k] = c.record_right(write, k)
            for v in T.serial(c.V):
                write.records_left[c.n[0] - 1 - back, v] = c.record_left(write, v)
        decay_keep(c)
    for j in T.serial(c.n[0], c.groups * TOGETHER):
        for write in c.writes:
            for k in T.serial(c.K):
                write.records_right[j, k] = T.float32(0)
            for v in T.serial(c.V):
                write.records_left[j, v] = T.float32(0)


@T.macro
def start_keep(c: Any) -> None:
    c.keep[0] = T.float64(1)
    c.log_keep[0] = T.float64(0)
    if c.layout.log_decay_key is not None:
        for k in T.serial(c.K):
            c.keep_k[k] = T.float32(1)
            c.log_keep_k[k] = T.float32(0)
    if c.layout.log_decay_value is not None:
        for v in T.serial(c.V):
            c.keep_v[v] = T.float32(1)
            c.log_keep_v[v] = T.float32(0)


@T.macro
def decay_keep(c: Any) -> None:
    """From the weight of the record in ring row ``at`` to that of what is older: the exponential of a sum of
    log-decays, not a product of exponentials, each of which is rounded (docs/numerics.md)."""
    if c.layout.log_decay_scalar is not None:
        c.log_keep[0] = c.log_keep[0] + T.cast(c.value(c.layout.log_decay_scalar), "float64")
        c.keep[0] = T.exp(c.log_keep[0])
    if c.layout.log_decay_key is not None:
        for k in T.serial(c.K):
            c.log_keep_k[k] = c.log_keep_k[k] + c.value(c.layout.log_decay_key, k=k)
            c.keep_k[k] = T.exp(c.log_keep_k[k])
    if c.layout.log_decay_value is not None:
        for v in T.serial(c.V):
            c.log_keep_v[v] = c.log_keep_v[v] + c.value(c.layout.log_decay_value, v=v)
            c.keep_v[v] = T.exp(c.log_keep_v[v])


@T.macro
def clear_reads(c: Any) -> None:
    for read in c.reads:
        for t, v in T.grid(c.T, c.V):
            read.h[t, v] = T.float32(0)


@T.macro
def prefetch_line(c: Any, line: Any) -> None:
    """Asks for all cache lines of a line of the state that far ahead: between two of them a cell computes for so long
    that no hardware follows."""
    if c.schedule.ahead > 0:
        for x in list(range(0, c.width, c.per_cache_line(c.arguments.state))):
            prefetch(c.arguments.state, c.state_at(line + c.lines_ahead, x))


@T.macro
def prefetch(tensor: Any, at: Any) -> None:
    T.evaluate(T.call_extern("handle", "prefetch", tensor.data, byte_offset(tensor, at)))


@T.macro
def widen_line(c: Any, line: Any) -> None:
    """``wide`` = a line of a float16 state."""
    if c.wide is not None:
        convert(c, "widen", c.wide, c.wide_at(line, 0), c.arguments.state, c.state_at(line, 0))


@T.macro
def convert(c: Any, function: str, to: Any, to_at: Any, source: Any, source_at: Any) -> None:
    """A line from one place to another by a function of the prologue: g++ before 14 keeps loops over float16 scalar."""
    T.evaluate(
        T.call_extern(
            "handle", function, to.data, byte_offset(to, to_at), source.data, byte_offset(source, source_at), c.width
        )
    )


@T.macro
def prefetch_records(c: Any, start: Any, stop: Any) -> None:
    """Asks for records, which lie a ring row apart, where no hardware expects them."""
    if c.schedule.ahead > 0:
        for j in T.serial(start, T.min(stop, c.n[0])):
            c.at[0] = common.record_row(c.base[0], j, c.arguments.R)
            for f in c.layout.fields:
                for x in list(range(0, c.extent(f.axis), c.per_cache_line(getattr(c.arguments, f.name)))):
                    prefetch(getattr(c.arguments, f.name), c.field_at(f, x))


@T.macro
def dots(c: Any, rows: int, products: Any, first: Any = None) -> None:
    """c.dot[d][row] = the sum over K of products[d](row), for a block of rows whose lanes are halved side by side.

    ``first`` is the number of the first row in the state where the rows are read from there.
    """
    for row in T.serial(rows):
        if first is not None:
            prefetch_line(c, first + row)
            widen_line(c, first + row)
        for lane in T.serial(c.lanes):
            for d in list(range(len(products))):
                c.parts[d][row * c.lanes + lane] = c.side_by_side(products[d](row), lane)
    for d in list(range(len(products))):
        for half in c.wide_halves:
            for row in T.serial(rows):
                for lane in T.serial(half):
                    c.parts[d][row * c.lanes + lane] = c.lane_pair(c.parts[d], row, lane, half)
        for row in T.serial(rows):
            for lane in T.serial(c.last):
                c.lasts[d][row * c.last + lane] = c.last_lanes(c.parts[d], row, lane)
        for row in T.serial(rows):
            c.dot[d][row] = c.sum_of_last(c.lasts[d], row)


@T.macro
def read_records(c: Any) -> None:
    """Adds what the gathered records give every read to h."""
    for t in T.serial(c.length[0]):
        for group in T.serial(c.groups):
            for write in c.writes:
                dots(c, TOGETHER, c.record_products(write, t, group))
                for d in list(range(len(c.reads))):
                    for v in T.serial(c.V):
                        c.reads[d].h[t, v] = c.reads[d].h[t, v] + c.records_times(c.dot[d], write, group, v)


# -- the checkpoint --------------------------------------------------------------------------------------------------


@T.macro
def stream(c: Any) -> None:
    """Adds the checkpoint's share of every read to h, in one pass over the state that also asks for the records."""
    start_keep(c)
    for back in T.serial(c.n[0]):
        c.at[0] = common.record_row(c.base[0], c.n[0] - 1 - back, c.arguments.R)
        decay_keep(c)
    for read in c.reads:
        for t, k in T.grid(c.T, c.K):
            read.past[t, k] = read.y[t, k] * c.checkpoint(k=k)
    for block in T.serial(c.lines // c.rows):
        prefetch_records(c, block * c.records_per_block, (block + 1) * c.records_per_block)
        if c.spec.tree:
            for t in T.serial(c.length[0]):
                c.token[0] = t
                stream_block(c, block)
        else:
            stream_block(c, block)


@T.macro
def stream_block(c: Any, block: Any) -> None:
    if c.spec.layout == "VK":
        dots(c, c.rows, c.state_products(block * c.rows), block * c.rows)
        for d in list(range(len(c.pairs))):
            for row in T.serial(c.rows):
                add_to_read(c, c.pairs[d], block * c.rows + row, c.dot[d][row])
    else:
        for row in T.serial(c.rows):
            prefetch_line(c, block * c.rows + row)
            widen_line(c, block * c.rows + row)
        for v in T.serial(c.V):
            for pair in c.pairs:
                add_to_read(c, pair, v, c.lines_times(pair, block * c.rows, v))


@T.macro
def add_to_read(c: Any, pair: Any, v: Any, value: Any) -> None:
    """h of a (read, token) += ``value``, a product with the checkpoint, times what that is worth over V."""
    c.reads[pair[0]].h[pair[1], v] = c.reads[pair[0]].h[pair[1], v] + value * c.checkpoint(v=v)


@T.macro
def fold(c: Any) -> None:
    """Decays the state, adds the sum of the gathered records once, rounds; h = the reads of what was stored."""
    if c.T > 0:
        clear_reads(c)
    for block in T.serial(c.lines // c.fold_lines):
        for i in list(range(c.fold_lines)):
            prefetch_line(c, block * c.fold_lines + i)
            for x in T.serial(c.width):
                c.total[i, x] = T.float32(0)
        for group in T.serial(c.groups):
            for x in T.serial(c.width):
                for i in list(range(c.fold_lines)):
                    c.total[i, x] = c.with_gathered(c.total[i, x], group, block * c.fold_lines + i, x)
        for i in list(range(c.fold_lines)):
            if c.fresh[0] == 0:
                widen_line(c, block * c.fold_lines + i)
                for x in T.serial(c.width):
                    c.total[i, x] = c.total[i, x] + c.kept(block * c.fold_lines + i, x)
            store_line(c, i, block * c.fold_lines + i)
        if c.T > 0:
            for i in list(range(c.fold_lines)):
                widen_line(c, block * c.fold_lines + i)
                for x in T.serial(c.width):
                    c.total[i, x] = c.state(block * c.fold_lines + i, x)
            if c.spec.tree:
                for t in T.serial(c.length[0]):
                    c.token[0] = t
                    read_lines(c, block * c.fold_lines)
            else:
                read_lines(c, block * c.fold_lines)


@T.macro
def store_line(c: Any, i: Any, line: Any) -> None:
    """The state's line = total[i], rounded."""
    if c.spec.stochastic:
        draw(c, line)
    if c.wide is None:
        for x in T.serial(c.width):
            c.arguments.state[c.state_at(line, x, c.target)] = T.cast(c.rounded(c.total[i, x], x), c.spec.state)
    else:
        for x in T.serial(c.width):
            c.total[i, x] = c.rounded(c.total[i, x], x)
        convert(c, "narrow", c.arguments.state, c.state_at(line, 0, c.target), c.total, (i, 0))


@T.macro
def read_lines(c: Any, first: Any) -> None:
    """Adds the share of the lines just stored to h."""
    if c.spec.layout == "VK":
        dots(c, c.fold_lines, c.total_products())
        for d in list(range(len(c.pairs))):
            for row in T.serial(c.fold_lines):
                c.reads[c.pairs[d][0]].h[c.pairs[d][1], first + row] = c.dot[d][row]
    else:
        for v in T.serial(c.V):
            for i, t in c.pairs:
                c.reads[i].h[t, v] = c.reads[i].h[t, v] + c.total_times(c.reads[i], t, first, v)


@T.macro
def update(c: Any) -> None:
    """The one token applied to the state: decayed, the writes added, rounded; a blank state is zero."""
    for line in T.serial(c.lines):
        if c.blank[0] == 0:
            widen_line(c, line)
            for x in T.serial(c.width):
                c.total[0, x] = c.state(line, x) * c.token_decay(line, x) + c.written(line, x)
        else:
            for x in T.serial(c.width):
                c.total[0, x] = c.written(line, x)
        store_line(c, 0, line)


# -- what comes out --------------------------------------------------------------------------------------------------


@T.macro
def solve(c: Any) -> None:
    """Left vectors and outputs, token by token: a read is h, decayed over V, plus what earlier tokens wrote."""
    program = c.spec.program
    for t in T.serial(c.length[0]):
        for v in T.serial(c.V):
            c.z[v] = T.float32(1)
            for read in c.reads:
                read.r[v] = T.float32(0)
        if c.T > 1:
            start_walk(c, t)
            for back in T.serial(t):
                if is_ancestor(c, t - 1 - back):
                    hear(c, t, t - 1 - back)
                    walk_on(c, t - 1 - back)
        for v in T.serial(c.V):
            for read in c.reads:
                read.r[v] = read.r[v] + c.z[v] * read.h[t, v]
        for write in c.writes:
            for v in T.serial(c.V):
                write.left[t, v] = c.value(program.lefts[write.number], t, v=v)
        for v in T.serial(c.V):
            c.arguments.out[c.out_at(t, v)] = T.cast(c.value(program.output, t, v=v), c.spec.io)


@T.macro
def hear(c: Any, t: Any, s: Any) -> None:
    """Adds what token ``s`` wrote to the reads of token ``t``; z decays over it."""
    for v in T.serial(c.V):
        for read in c.reads:
            read.r[v] = read.r[v] + c.z[v] * c.earlier(read, t, s, v)
    if c.spec.program.log_decay_value is not None:
        for v in T.serial(c.V):
            c.z[v] = c.z[v] * c.decay_v[s, v]


@T.macro
def append(c: Any) -> None:
    """The record of every token."""
    for t in T.serial(c.length[0]):
        c.at[0] = common.record_row(c.base[0], c.n[0] + t, c.arguments.R)
        for f in c.layout.fields:
            if c.writes_field(f):
                if f.axis is None:
                    getattr(c.arguments, f.name)[c.field_at(f, 0)] = c.field_value(f, t, 0)
                else:
                    for x in T.serial(c.extent(f.axis)):
                        getattr(c.arguments, f.name)[c.field_at(f, x)] = c.field_value(f, t, x)
