"""A grid cell of the CPU templates: its buffers, the elements it touches and its expressions.

A cell is one batch row, one value head, one block of V. It streams the lines of its state tile once; everything else
fits the first-level cache: tokens, their vectors and the records are staged in float32 buffers. y is the vector of a
read, decayed back over the earlier tokens of its window, the newest first; records are weighed by ``keep``, the decay
over what is newer: the exponential of a sum of log-decays. Within a window decays multiply; no quotient and no
difference of sums is taken anywhere (docs/numerics.md has what each would cost). Decays over V weigh
what comes out of a product with y instead.

gcc vectorises the inner loops as they stand: a sum over K is ``lanes`` sums side by side, and no loop over K or V
carries a value through memory. TileLang repeats a scalar bound to a name at each use and misreads one cast from a
16-bit tensor, so numbers live in buffers of one element. Macros bind no argument to a name, which would rename it.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import tilelang.language as T
from tilelang import tvm
from tvm.script.ir_builder import IRBuilder

from kvbuffer_codegen.ir.expr import Expr
from kvbuffer_codegen.ir.forms import FORMS, KernelSpec, most_accepted
from kvbuffer_codegen.ir.philox import WORDS
from kvbuffer_codegen.ir.records import Field
from kvbuffer_codegen.schedules import common
from kvbuffer_codegen.schedules.space import CpuSchedule

#: Records that are added to a line of the state, or read, at once.
TOGETHER = 4
CACHE_LINE = 64
#: Lines of the state that a fold sums records for at once: each record's vector is loaded once for all of them.
FOLD_LINES = 4
#: Lanes that the last halving of a sum leaves; from there gcc interleaves rows.
LAST = 4

Term = Callable[[Any], Any]
#: Names of the int32 buffers of one element that a cell has.
INTEGERS = ("layer", "row", "head", "block", "valid", "n", "base", "length", "fresh", "folds", "blank", "at")


@dataclass
class Read:
    """One read of the state by every token: its vector y [T, K], past [T, K] decayed to the checkpoint, what it gives h
    [T, V] without the window's own tokens, then as a whole r [V]; score[r][t, s]: what a unit of token s's r-th left
    vector gives token t."""

    expr: Expr
    y: Any
    past: Any
    h: Any
    r: Any
    score: list[Any]


@dataclass
class Write:
    """One write: its vectors of the tokens [T, axis], and of the records, times their weights."""

    number: int
    right: Any
    left: Any
    records_right: Any
    records_left: Any


class Cell:
    """See the module. ``allocate`` makes the buffers, inside the kernel."""

    #: int32 numbers of the row and cell, each a buffer of one element
    layer: Any
    row: Any
    head: Any
    block: Any
    valid: Any
    n: Any
    base: Any
    length: Any
    fresh: Any
    folds: Any
    blank: Any
    at: Any

    def __init__(self, spec: KernelSpec, schedule: CpuSchedule, arguments: Any):
        self.spec, self.schedule, self.arguments = spec, schedule, arguments
        self.layout = spec.record_layout
        self.K, self.V, self.T = spec.K, spec.V // schedule.splits, spec.tokens
        self.lanes, self.rows = schedule.lanes, schedule.rows
        self.lines, self.width = (self.V, self.K) if spec.layout == "VK" else (self.K, self.V)
        self.capacity = most_accepted(spec.buffer, spec.kv_only)
        self.last = min(self.lanes, LAST)
        self.records_per_block = -(-self.capacity * self.rows // self.lines)
        self.fold_lines = math.gcd(self.lines, FOLD_LINES)
        self.block_lines = math.lcm(self.rows, self.fold_lines)  #: lines that are in flight at once
        #: (read, token) of the products with the checkpoint that are summed side by side: of all tokens, or, in a tree,
        #: whose many tokens would unroll into very much code, of one at a time.
        self.pairs = [(i, t) for t in range(self.T) for i in range(len(spec.program.reads))]
        self.inputs = common.inputs_of(spec)
        self.layers = FORMS[spec.form].layered

    def allocate(self) -> None:
        K, V, tokens = self.K, self.V, self.T
        padded = -(-self.capacity // TOGETHER) * TOGETHER
        for name in INTEGERS:
            setattr(self, name, _local(name, (1,), "int32"))
        self.slot, self.ring = _local("slot", (1,), "int64"), _local("ring", (1,), "int64")
        self.target = _local("target", (1,), "int64") if self.spec.form == "publish" else self.slot
        self.wide = _floats("wide", self.block_lines, self.width) if self.spec.state == "float16" else None
        self.acc, self.total = _floats("acc", self.lanes), _floats("total", self.fold_lines, self.width)
        self.keep, self.log_keep = _local("keep", (1,), "float64"), _local("log_keep", (1,), "float64")
        self.keep_k, self.log_keep_k = _floats("keep_k", K), _floats("log_keep_k", K)
        self.keep_v, self.log_keep_v = _floats("keep_v", V), _floats("log_keep_v", V)
        self.factors = [_floats(f"factor{i}", 1) for i in range(len(self.layout.rights))]
        self.staged = {name: _floats(f"{name}_in", *self._staged_shape(a)) for name, a in self.inputs.items()}
        self.writes = [
            Write(
                i,
                _floats(f"right{i}", tokens, K) if tokens else None,
                _floats(f"left{i}", tokens, V) if tokens else None,
                _floats(f"records_right{i}", padded, K),
                _floats(f"records_left{i}", padded, V),
            )
            for i in range(len(self.layout.rights))
        ]
        if self.spec.stochastic:
            self.random_groups = -(-self.width // WORDS)
            self.random = [_local(f"random{i}", (WORDS, self.random_groups), "uint32") for i in range(2)]
            self.offsets = _floats("offsets", self.random_groups * WORDS)
            self.writes_before, self.seed = _local("writes_before", (1,), "int32"), _local("seed", (1,), "int32")
        if self.spec.scaled:
            self.row_scale, self.row_inverse = _floats("row_scale", V), _floats("row_inverse", V)
            self.channel_scale, self.channel_inverse = _floats("channel_scale", K), _floats("channel_inverse", K)
            self.tile = _floats("tile", self.lines, self.width)
        if tokens:
            self._allocate_tokens(K, V, tokens)

    def _allocate_tokens(self, K: int, V: int, tokens: int) -> None:
        self.scalars = {d.name: _floats(d.name, tokens) for d in self.spec.program.definitions}
        self.reads = [
            Read(
                expr,
                _floats(f"y{i}", tokens, K),
                _floats(f"past{i}", tokens, K),
                _floats(f"h{i}", tokens, V),
                _floats(f"r{i}", V),
                [_floats(f"score{i}", tokens, tokens) for _ in self.writes],
            )
            for i, expr in enumerate(self.spec.program.reads)
        ]
        self.w, self.z = _floats("w", tokens), _floats("z", V)
        if self.spec.tree:
            self.parent, self.ancestor = _local("parent", (tokens,), "int32"), _local("ancestor", (1,), "int32")
            self.token = _local("token", (1,), "int32")
            self.pairs = [(i, self.token[0]) for i in range(len(self.reads))]
        self.decay, self.decay_k = _floats("decay", tokens), _floats("decay_k", tokens, K)
        self.decay_v = _floats("decay_v", tokens, V)
        block = max(self.rows, TOGETHER, self.fold_lines)
        self.parts = [_floats(f"part{d}", block * self.lanes) for d in range(len(self.pairs))]
        self.lasts = [_floats(f"last{d}", block * self.last) for d in range(len(self.pairs))]
        self.dot = [_floats(f"dot{d}", block) for d in range(len(self.pairs))]

    def _staged_shape(self, argument: Any) -> tuple[int, ...]:
        lead = () if argument.parameter else (self.T,)
        return (*lead, max(argument.count, 1), *((self.extent(argument.axis),) if argument.axis else ()))

    def extent(self, axis: str | None) -> int:
        """Channels of an axis that the cell works on; 1 where there is none."""
        return {"K": self.K, "V": self.V, None: 1}[axis]

    # -- elements of tensors -----------------------------------------------------------------------------------------

    @property
    def key_head(self) -> Any:
        return T.truncdiv(self.head[0], self.spec.ratio)

    @property
    def lead(self) -> tuple[Any, ...]:
        """Index of the axis that a flush has in front."""
        return (self.layer[0],) if self.layers else ()

    def channel(self, axis: str | None, x: Any) -> tuple[Any, ...]:
        """Index along the last axis of a tensor for channel ``x`` of the cell."""
        if axis is None:
            return ()
        return (x,) if axis == "K" else (self.block[0] * self.V + x,)

    def input(self, argument: Any, t: Any, index: int, x: Any) -> Any:
        """The tensor element behind ``staged[name][t, index, x]``, float32."""
        at = self.lead if argument.parameter else (self.row[0], t) if self.spec.form == "verify" else (self.row[0],)
        at += (index,) if argument.count else ()
        at += (self.key_head if argument.heads == "key" else self.head[0],)
        return T.cast(getattr(self.arguments, argument.name)[(*at, *self.channel(argument.axis, x))], "float32")

    def state_at(self, line: Any, x: Any, slot: Any = None) -> tuple[Any, ...]:
        """Index of element ``x`` of a line of the tile: a row of V in layout VK, of K in KV, contiguous in memory."""
        v0 = self.block[0] * self.V
        tile = (v0 + line, x) if self.spec.layout == "VK" else (line, v0 + x)
        return (*self.lead, (self.slot if slot is None else slot)[0], self.head[0], *tile)

    @property
    def lines_ahead(self) -> int:
        """Lines of this state that hold as many bytes as ``ahead`` lines of float32."""
        return self.schedule.ahead * 4 // _bytes(self.arguments.state)

    def wide_at(self, line: Any, x: Any) -> tuple[Any, Any]:
        """Where ``wide`` holds an element of the tile."""
        return (T.truncmod(line, self.block_lines), x)

    def state(self, line: Any, x: Any) -> Any:
        """An element of the tile in float32; of an 8-bit state, its code."""
        if self.wide is not None:
            return self.wide[self.wide_at(line, x)]
        return common.decoded(self.arguments.state[self.state_at(line, x)], self.spec.state)

    @staticmethod
    def per_cache_line(tensor: Any) -> int:
        """Items that fill a cache line."""
        return CACHE_LINE // _bytes(tensor)

    def rounded(self, value: Any, x: Any) -> Any:
        """``value``, a buffer element, ready for the cast to the state's dtype, which rounds to nearest: saturated, or
        rounded by the offset of place ``x`` of its line."""
        if self.spec.stochastic:
            return common.on_grid(value, self.spec.state, self.offsets[x])
        return common.saturated(value, self.spec.state)

    def field_at(self, f: Field, x: Any) -> tuple[Any, ...]:
        """Index of a record field in ring row ``at``."""
        head = self.key_head if f.heads == "key" else self.head[0]
        return (*self.lead, self.ring[0], self.at[0], head, *self.channel(f.axis, x))

    def field(self, name: str, x: Any) -> Any:
        f = next(f for f in self.layout.fields if f.name == name)
        return T.cast(getattr(self.arguments, name)[self.field_at(f, x)], "float32")

    def field_value(self, f: Field, t: Any, x: Any) -> Any:
        """What token ``t`` leaves in a record field."""
        return T.cast(self.value(f.expr, t, k=x, v=x), f.stored(self.spec.io))

    def writes_field(self, f: Field) -> Any:
        """Whether this cell stores a record field: one that belongs to a key head or to all of V is written once."""
        one_head = T.truncmod(self.head[0], self.spec.ratio) == 0 if f.heads == "key" else True
        return tvm.tirx.all(one_head, True if f.axis == "V" else self.block[0] == 0)

    def out_at(self, t: Any, v: Any) -> tuple[Any, ...]:
        window = (t,) if self.spec.form == "verify" else ()
        return (self.row[0], *window, self.head[0], *self.channel("V", v))

    # -- expressions -------------------------------------------------------------------------------------------------

    def value(self, expr: Expr, t: Any = 0, *, k: Any = None, v: Any = None) -> Any:
        """``expr`` for token ``t`` at channel ``k`` or ``v``; fields are those of the record in ring row ``at``."""

        def leaf(node: Expr) -> Any:
            x = k if "K" in node.axes else v
            if node.op == "scalar":
                return self.scalars[node.value][t]
            if node.op == "read":
                return self.reads[node.value].r[v]
            if node.op == "left":
                return self.writes[node.value].left[t, v]
            if node.op == "field":
                return self.field(node.value, x)
            name, index = node.value
            lead = () if self.inputs[name].parameter else (t,)
            return self.staged[name][(*lead, index or 0, *((x,) if node.axes else ()))]

        return common.lower(expr, leaf, self.spec)

    def term(self, expr: Expr, t: Any) -> Term:
        """``expr`` of token ``t`` over K."""
        return lambda k: self.value(expr, t, k=k)

    def side_by_side(self, term: Term, lane: Any) -> Any:
        """What one lane adds up of the sum of ``term`` over K: one expression, no running sum in memory."""
        return _sum(term(chunk + lane) for chunk in range(0, self.K, self.lanes))

    @property
    def halves(self) -> list[int]:
        return [self.lanes >> i for i in range(1, self.lanes.bit_length())]

    @property
    def wide_halves(self) -> list[int]:
        """The halvings of a block of rows, but the last one, which packs the rows together."""
        return [half for half in self.halves if half > self.last]

    def lane_pair(self, part: Any, row: Any, lane: Any, half: int) -> Any:
        return part[row * self.lanes + lane] + part[row * self.lanes + lane + half]

    def last_lanes(self, part: Any, row: Any, lane: Any) -> Any:
        if self.lanes == self.last:
            return part[row * self.lanes + lane]
        return self.lane_pair(part, row, lane, self.last)

    def sum_of_last(self, last: Any, row: Any) -> Any:
        return _sum(last[row * self.last + i] for i in range(self.last))

    @property
    def groups(self) -> Any:
        """Groups of records that a row has."""
        return T.truncdiv(self.n[0] + TOGETHER - 1, TOGETHER)

    def back_product(self, read: Read, write: Write, t: Any, s: Any) -> Term:
        """Terms over K of token ``s``'s right vector times a read's vector for token ``t``."""
        return lambda k: read.y[t, k] * write.right[s, k]

    def record_products(self, write: Write, t: Any, group: Any) -> list[Callable[[Any], Term]]:
        """Per read: the terms over K of a record of a group times the read's vector for token ``t``."""

        def products(y: Any) -> Callable[[Any], Term]:
            return lambda row: lambda k: write.records_right[group * TOGETHER + row, k] * y[t, k]

        return [products(read.y) for read in self.reads]

    def records_times(self, score: Any, write: Write, group: Any, v: Any) -> Any:
        """What a group of records gives a read, by their scores."""
        return _sum(score[i] * write.records_left[group * TOGETHER + i, v] for i in range(TOGETHER))

    def state_products(self, first: Any) -> list[Callable[[Any], Term]]:
        """Per (read, token): the terms over K of a row of the state in layout VK times the read's vector."""

        def products(y: Any, t: int) -> Callable[[Any], Term]:
            return lambda row: lambda k: self.state(first + row, k) * y[t, k]

        return [products(self.reads[i].past, t) for i, t in self.pairs]

    def total_products(self) -> list[Callable[[Any], Term]]:
        """The same of a row in ``total``."""

        def products(y: Any, t: int) -> Callable[[Any], Term]:
            return lambda row: lambda k: self.total[row, k] * y[t, k]

        return [products(self.reads[i].y, t) for i, t in self.pairs]

    def lines_times(self, pair: tuple[int, int], first: Any, v: Any) -> Any:
        """What ``rows`` lines of layout KV give a (read, token)."""
        i, t = pair
        return _sum(self.state(first + row, v) * self.reads[i].past[t, first + row] for row in range(self.rows))

    def total_times(self, read: Read, t: int, first: Any, v: Any) -> Any:
        """The same of lines in ``total``."""
        return _sum(self.total[row, v] * read.y[t, first + row] for row in range(self.fold_lines))

    def weight(self, *, k: Any = None, v: Any = None) -> Any:
        """``keep``: its scalar and K part at ``k``, its V part at ``v``; 1 where the recurrence has no such decay."""
        scalar = k is not None and self.layout.log_decay_scalar is not None
        factors = [T.cast(self.keep[0], "float32")] if scalar else []
        factors += [self.keep_k[k]] if k is not None and self.layout.log_decay_key is not None else []
        factors += [self.keep_v[v]] if v is not None and self.layout.log_decay_value is not None else []
        return _product(factors)

    def checkpoint(self, *, k: Any = None, v: Any = None) -> Any:
        """:meth:`weight`, times the scale that an 8-bit state has there: what the checkpoint's elements are worth."""
        weight = self.weight(k=k, v=v)
        if not self.spec.scaled:
            return weight
        return weight * (self.channel_scale[k] if v is None else self.row_scale[v])

    def factor(self, write: Write) -> Any:
        """What a record's outer product is scaled by: the scale of its right vector and the scalar part of ``keep``."""
        scale = self.layout.rights[write.number].scale
        return self.keep[0] if scale is None else T.cast(self.value(scale), "float64") * self.keep[0]

    def record_right(self, write: Write, k: Any) -> Any:
        """A record's right vector, but for its factor."""
        weights = [self.keep_k[k]] if self.layout.log_decay_key is not None else []
        return _product([self.value(self.layout.rights[write.number].vector, k=k), *weights])

    def record_left(self, write: Write, v: Any) -> Any:
        """A record's left vector times its factor."""
        weights = [self.keep_v[v]] if self.layout.log_decay_value is not None else []
        return _product([self.value(self.layout.lefts[write.number], v=v), self.factors[write.number][0], *weights])

    def channels(self, line: Any, x: Any) -> tuple[Any, Any]:
        """(v, k) of a state element, v within the block."""
        return (line, x) if self.spec.layout == "VK" else (x, line)

    def kept(self, line: Any, x: Any) -> Any:
        """A state element decayed over the gathered records."""
        v, k = self.channels(line, x)
        return self.state(line, x) * self.checkpoint(k=k) * self.checkpoint(v=v)

    def with_gathered(self, value: Any, group: Any, line: Any, x: Any) -> Any:
        """``value`` plus what one group of gathered records adds to a state element: the group's own sum first, which
        is smaller and so rounds less."""
        v, k = self.channels(line, x)
        records = [group * TOGETHER + i for i in range(TOGETHER)]
        return value + _sum(w.records_left[j, v] * w.records_right[j, k] for j in records for w in self.writes)

    def token_decay(self, line: Any, x: Any) -> Any:
        """The decay of a state element by the one token of a step."""
        v, k = self.channels(line, x)
        factors = [self.decay[0]] if self.layout.log_decay_scalar is not None else []
        factors += [self.decay_k[0, k]] if self.layout.log_decay_key is not None else []
        factors += [self.decay_v[0, v]] if self.layout.log_decay_value is not None else []
        return _product(factors)

    def written(self, line: Any, x: Any) -> Any:
        """What the one token of a step writes to a state element."""
        v, k = self.channels(line, x)
        return _sum(w.left[0, v] * w.right[0, k] for w in self.writes)

    def earlier(self, read: Read, t: Any, s: Any, v: Any) -> Any:
        """What token ``s`` of the window gives a read of token ``t``."""
        return _sum(score[t, s] * w.left[s, v] for score, w in zip(read.score, self.writes, strict=True))


def byte_offset(tensor: Any, at: tuple[Any, ...]) -> Any:
    """How far into a tensor, strided or dense, an element lies."""
    dense = [math.prod(tensor.shape[i + 1 :]) for i in range(len(at))]
    strides = tensor.strides or dense
    return _sum(T.cast(i, "int64") * stride for i, stride in zip(at, strides, strict=True)) * _bytes(tensor)


def _bytes(tensor: Any) -> int:
    return tvm.DataType(tensor.dtype).bits // 8


def _local(name: str, shape: tuple[int, ...], dtype: str) -> Any:
    buffer = T.alloc_local(shape, dtype)
    IRBuilder.name(name, buffer)
    return buffer


def _floats(name: str, *shape: int) -> Any:
    return _local(name, shape, "float32")


def _sum(terms: Iterable[Any]) -> Any:
    return functools.reduce(operator.add, terms)


def _product(factors: list[Any]) -> Any:
    return functools.reduce(operator.mul, factors) if factors else T.float32(1)
