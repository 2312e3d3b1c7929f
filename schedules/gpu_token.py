"""The tokens of a call on CUDA: their vectors over K, their numbers, what they append, and their scores against
records.

One token stays in every lane's registers (each group computes it for itself: no barrier). The tokens of a window are
dealt to the groups and pass through shared memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tilelang.language as T
from tilelang import tvm

from kvbuffer_codegen.ir import expr as ex
from kvbuffer_codegen.ir.expr import Expr
from kvbuffer_codegen.ir.forms import FORMS, Definition
from kvbuffer_codegen.ir.records import Field
from kvbuffer_codegen.schedules.geometry import WARP, ceil_div, factored, power_of_two
from kvbuffer_codegen.schedules.gpu_ring import (
    Ring,
    clear_key_decay,
    load_batch,
    right_scale,
    right_value,
    stage_rights,
)
from kvbuffer_codegen.schedules.gpu_tile import (
    F32,
    ZERO,
    Cell,
    Leaves,
    access,
    existing,
    leaves_of,
    load_columns,
    number_at,
    store_columns,
    sum_lanes,
)

MOST_SCORES = 32  #: scores of one record that a lane sums at a time


@dataclass
class Token:
    """Registers of one token: its leaves, [reads * columns] read vectors without the numbers they are multiplied by
    (:func:`factored`: reads are linear in them), [rank * columns] right vectors, [columns] log-decay over K."""

    leaves: Leaves
    reads: Any
    rights: Any
    decay: Any


def token_fields(cell: Cell) -> list[Field]:
    """Record fields that a token's key side fills: over K, or numbers."""
    return [f for f in cell.spec.record_layout.fields if f.axis != "V"] if FORMS[cell.spec.form].appends else []


def token_registers(cell: Cell) -> Token:
    g, program, leaves = cell.geo, cell.spec.program, Leaves(cell.spec)
    used = [d.expr for d in program.definitions] + [*program.reads, *program.rights, program.log_decay_key]
    for node in leaves_of([*used, *(f.expr for f in token_fields(cell))], "input", "scalar"):
        dtype = F32 if node.op == "scalar" else getattr(cell.args, node.value[0]).dtype
        leaves.held[node] = T.alloc_local((g.columns if node.axes else 1,), dtype)
    for d in [d for _, sums in waves(program.definitions) for d in sums] + list(program.definitions):
        leaves.held.setdefault(ex.leaf("scalar", d.name, (), d.expr.heads), T.alloc_local((1,), F32))
    return Token(
        leaves,
        T.alloc_local((g.reads * g.columns,), F32),
        T.alloc_local((g.rank * g.columns,), F32),
        T.alloc_local((g.columns,), F32),
    )


def families(definitions: Sequence[Definition]) -> list[list[Definition]]:
    """The definitions apart that do not need each other."""
    found: list[list[Definition]] = []
    for d in definitions:
        needed = {n.value for n in leaves_of([d.expr], "scalar")}
        mine = [family for family in found if any(e.name in needed for e in family)]
        found = [family for family in found if family not in mine] + [[*(e for f in mine for e in f), d]]
    return found


def waves(definitions: Sequence[Definition]) -> list[tuple[list[Definition], list[Definition]]]:
    """The definitions in steps: (numbers, sums over K that they and earlier steps allow). The sums of a step are
    independent of each other; a number that a sum is multiplied by is no part of it."""
    pending: list[Definition] = []
    for d in definitions:
        number, rest = factored(d.expr) if d.reduce else (ex.const(1.0), d.expr)
        if number == ex.const(1.0):
            pending.append(d)
        else:
            raw = Definition(f"{d.name}_sum", rest, True)
            total = ex.leaf("scalar", raw.name, (), rest.heads)
            pending += [raw, Definition(d.name, ex.apply("mul", number, total), False)]
    steps, known = [], set[str]()
    while pending:
        numbers: list[Definition] = []
        sums: list[Definition] = []
        for d in pending:
            if all(n.value in known for n in leaves_of([d.expr], "scalar")):
                (sums if d.reduce else numbers).append(d)
                known |= set() if d.reduce else {d.name}
        known |= {d.name for d in sums}
        pending = [d for d in pending if d not in numbers and d not in sums]
        steps.append((numbers, sums))
    return steps


def scalar_leaf(token: Token, name: str) -> Expr:
    return next(n for n in token.leaves.held if n.op == "scalar" and n.value == name)


@T.macro
def load_token(cell: Cell, token: Token, t: Any) -> None:
    for node, buffer in token.leaves.held.items():
        if node.op == "input":
            if len(node.axes) > 0:
                load_columns(cell, buffer, cell.input(node, t), access(cell.spec, node.value[0], cell.geo.piece))
            else:
                buffer[0] = number_at(cell.input(node, t))


@T.macro
def compute_token(cell: Cell, token: Token) -> None:
    """Definitions in their order, then the vectors over K. Called by whole warps."""
    compute_numbers(cell, token)
    compute_vectors(cell, token)


@T.macro
def compute_numbers(cell: Cell, token: Token, definitions: Sequence[Definition] | None = None) -> None:
    """``definitions`` (default: all) in their order. Called by whole warps."""
    g = cell.geo
    for numbers, sums in waves(cell.spec.program.definitions if definitions is None else definitions):
        for d in numbers:
            token.leaves.held[scalar_leaf(token, d.name)][0] = token.leaves.lower(d.expr)
        if len(sums) > 0:
            partial = T.alloc_local((len(sums),), F32)
            for i, d in enumerate(sums):
                partial[i] = ZERO
                for c in T.unroll(g.columns):
                    partial[i] = partial[i] + existing(cell, c, token.leaves.lower(d.expr, c))
            sum_lanes(cell, partial, 1, len(sums))
            for i, d in enumerate(sums):
                token.leaves.held[scalar_leaf(token, d.name)][0] = partial[i]


@T.macro
def compute_reads(cell: Cell, token: Token) -> None:
    g = cell.geo
    for i, read in enumerate(cell.spec.program.reads):
        for c in T.unroll(g.columns):
            token.reads[i * g.columns + c] = existing(cell, c, token.leaves.lower(factored(read)[1], c))


@T.macro
def compute_vectors(cell: Cell, token: Token) -> None:
    """The vectors over K."""
    g, program = cell.geo, cell.spec.program
    compute_reads(cell, token)
    for r, right in enumerate(program.rights):
        for c in T.unroll(g.columns):
            token.rights[r * g.columns + c] = existing(cell, c, token.leaves.lower(right, c))
    if program.log_decay_key is not None:
        for c in T.unroll(g.columns):
            token.decay[c] = existing(cell, c, token.leaves.lower(program.log_decay_key, c))


def appends(cell: Cell, heads: str) -> Any:
    """Whether this block appends a field: one of those that share it."""
    return cell.tile == 0 if heads == "value" else tvm.tirx.all(cell.tile == 0, cell.hv % cell.spec.ratio == 0)


@T.macro
def append_token(cell: Cell, token: Token, t: Any) -> None:
    """Fields over K and numbers of token ``t``, by one group of one block of those that share them."""
    g = cell.geo
    for field in token_fields(cell):
        target = cell.record(field.name, cell.count + t)
        mine = appends(cell, field.heads)
        if mine:
            if field.axis == "K":
                values = T.alloc_local((g.columns,), target.tensor.dtype)
                for c in T.unroll(g.columns):
                    values[c] = T.cast(token.leaves.lower(field.expr, c), target.tensor.dtype)
                store_columns(cell, values, target, access(cell.spec, field.name, g.piece))
            else:
                if cell.lane == 0:
                    target.tensor[target.where] = token.leaves.lower(field.expr)


@T.macro
def deal_token(cell: Cell, token: Token) -> None:
    """The one token: its numbers, those that need each other by one warp, for all after a barrier; its read
    vectors."""
    warps = cell.geo.schedule.threads // WARP
    dealt = families(cell.spec.program.definitions)
    for warp in list(range(min(warps, len(dealt)))):
        mine = [d for family in dealt[warp::warps] for d in family]
        if cell.thread // WARP == warp:
            compute_numbers(cell, token, mine)
            share_numbers(cell, token, 0, mine)
    compute_reads(cell, token)


@T.macro
def append_dealt(cell: Cell, token: Token) -> None:
    """The record of a token that was dealt, after the barrier."""
    if cell.group == 0:
        recall_numbers(cell, token, cell.spec.program.definitions, 0)
        append_token(cell, token, 0)


@T.macro
def park_reads(cell: Cell, token: Token) -> None:
    """The read vectors of the one token to shared memory, where they wait for the read-out."""
    g = cell.geo
    if cell.group == 0:
        for i in T.unroll(g.reads):
            for c in T.unroll(g.columns):
                cell.shared["reads"][i, cell.column(c)] = token.reads[i * g.columns + c]


def own_token(cell: Cell, q: int) -> Any:
    """The group's ``q``-th token of the window, which need not exist."""
    return q * cell.geo.groups + cell.group


@T.macro
def take_token(cell: Cell, token: Token, length: Any, q: int) -> None:
    """The group's ``q``-th token, the first loaded already, computed and its record appended; called by whole warps."""
    if q > 0:
        load_token(cell, token, T.min(own_token(cell, q), cell.geo.T - 1))
    compute_token(cell, token)
    if own_token(cell, q) < length:
        append_token(cell, token, own_token(cell, q))


@T.macro
def share_numbers(cell: Cell, token: Token, t: Any, definitions: Sequence[Definition] | None = None) -> None:
    """The definitions of token ``t``, all or some, to shared memory, where :func:`number_of` finds them."""
    for i, d in enumerate(cell.spec.program.definitions):
        if tvm.tirx.all(definitions is None or d in definitions, cell.lane == i % cell.geo.lanes):
            cell.shared["numbers"][t, i] = token.leaves.held[scalar_leaf(token, d.name)][0]


@T.macro
def share_token(cell: Cell, token: Token, length: Any, q: int) -> None:
    """The group's ``q``-th token of the window; called by whole warps."""
    g = cell.geo
    t = own_token(cell, q)
    take_token(cell, token, length, q)
    if t < g.T:
        for c in T.unroll(g.columns):
            for i in T.unroll(g.reads):
                cell.shared["reads"][t * g.reads + i, cell.column(c)] = T.cast(
                    token.reads[i * g.columns + c], g.shared_dtype("reads")
                )
            for r in T.unroll(g.rank):
                cell.shared["rights"][t * g.rank + r, cell.column(c)] = T.cast(
                    token.rights[r * g.columns + c], g.shared_dtype("rights")
                )
            if g.key_decay:
                cell.shared["token_decay"][t, cell.column(c)] = token.decay[c]
        share_numbers(cell, token, t)


@T.macro
def share_window(cell: Cell, token: Token, length: Any) -> None:
    """Compute the window's tokens, a group each, the first loaded already, and put their vectors and numbers into
    shared memory. Ends with a barrier."""
    g = cell.geo
    for q in list(range(ceil_div(g.T, g.groups))):
        if q * g.groups + cell.warp_group < g.T:
            share_token(cell, token, length, q)
    T.sync_threads()


def number_of(cell: Cell, token: Token, name: str, t: Any) -> Any:
    """Definition ``name`` of token ``t``, on any lane."""
    if cell.geo.resident and not cell.geo.dealt:
        return token.leaves.held[scalar_leaf(token, name)][0]
    return shared_number(cell, name, t)


def shared_number(cell: Cell, name: str, t: Any) -> Any:
    """Definition ``name`` of token ``t``, where :func:`share_numbers` left it."""
    return cell.shared["numbers"][t, [d.name for d in cell.spec.program.definitions].index(name)]


@T.macro
def recall_numbers(cell: Cell, token: Token, definitions: Sequence[Definition], t: Any) -> None:
    """Shared definitions of token ``t`` back to registers."""
    for d in definitions:
        token.leaves.held[scalar_leaf(token, d.name)][0] = shared_number(cell, d.name, t)


@T.macro
def read_vector(cell: Cell, token: Token, t: Any, i: int, into: Any, shared: bool = False) -> None:
    """Read vector ``i`` of token ``t``, this lane's columns; ``shared``: from shared memory also if it is in
    registers, which are then free until here."""
    g = cell.geo
    for c in T.unroll(g.columns):
        if g.resident and not shared:
            into[c] = token.reads[i * g.columns + c]
        else:
            into[c] = T.cast(cell.shared["reads"][t * g.reads + i, cell.column(c)], F32)


@T.macro
def score_batch(cell: Cell, token: Token, ring: Ring, first: Any, n: Any, total: Any) -> None:
    """Scores of the batch's records first + group, first + groups + group, ..., to shared memory: right vectors times
    every read vector.

    Records n .. total - 1 are the window's own tokens. Called by whole warps.
    """
    g = cell.geo
    block = max(1, min(g.T, MOST_SCORES // (g.rank * g.reads * g.batch)))  # tokens scored together
    each = g.rank * block * g.reads
    count = power_of_two(g.batch * each)
    values = T.alloc_local((count,), F32)
    vector = T.alloc_local((g.columns,), F32)
    for start in T.serial(ceil_div(g.T, block)):
        for i in T.unroll(count):
            values[i] = ZERO
        for m in list(range(g.batch)):
            j = first + m * g.groups + cell.group
            if j < total:
                build_rights(cell, ring, m, j, n)
                for t in T.unroll(block):
                    for i in T.unroll(g.reads):
                        read_vector(cell, token, T.min(start * block + t, g.T - 1), i, vector)
                        for r in T.unroll(g.rank):
                            at = m * each + (r * block + t) * g.reads + i
                            for c in T.unroll(g.columns):
                                values[at] = values[at] + ring.rights[r * g.columns + c] * vector[c]
                if g.resident:
                    scale_scores(cell, ring, m, values, m * each)
        sum_lanes(cell, values, count)
        share = max(1, count // g.lanes)
        for q in T.unroll(share):
            index = cell.lane * share + q if count > g.lanes else cell.lane // (g.lanes // count)
            j = first + index // each * g.groups + cell.group
            rank = index % each // (block * g.reads)
            rest = start * block * g.reads + index % (block * g.reads)
            writes = tvm.tirx.all(index < g.batch * each, j < total, rest < g.T * g.reads)
            if writes:
                row = j if g.resident else T.Select(j < n, j, g.slots * g.lanes + j - n)
                cell.shared["scores"][row, rank * g.T * g.reads + rest] = values[q]


@T.macro
def scale_scores(cell: Cell, ring: Ring, m: int, values: Any, first: int) -> None:
    """What :func:`build_rights` left out of the right vectors."""
    g = cell.geo
    for r, right in enumerate(cell.spec.record_layout.rights):
        if right.scale is not None:
            for i in T.unroll(g.reads):
                at = first + r * g.reads + i
                values[at] = values[at] * right_scale(cell, ring, r, m)


@T.macro
def build_rights(cell: Cell, ring: Ring, m: int, j: Any, n: Any) -> None:
    """Right vectors of record ``j``, of place ``m`` of the batch, or of the window's token j - n."""
    g = cell.geo
    if g.resident:
        for r in list(range(g.rank)):
            for c in T.unroll(g.columns):
                ring.rights[r * g.columns + c] = right_value(cell, ring, r, m, c, scaled=False)
    else:
        if j < n:
            for r in list(range(g.rank)):
                for c in T.unroll(g.columns):
                    ring.rights[r * g.columns + c] = right_value(cell, ring, r, m, c)
        else:
            for r in T.unroll(g.rank):
                for c in T.unroll(g.columns):
                    ring.rights[r * g.columns + c] = T.cast(
                        cell.shared["rights"][(j - n) * g.rank + r, cell.column(c)], F32
                    )


@T.macro
def score_records(cell: Cell, token: Token, ring: Ring, n: Any, length: Any) -> None:
    """Scores of records 0 .. n - 1, whose first batch is loaded, and of the window's ``length`` tokens."""
    g = cell.geo
    total = n if g.resident else n + length
    each = g.batch * g.groups
    if max(g.most_records, g.T) <= each:
        if cell.warp_group < total:
            score_batch(cell, token, ring, 0, n, total)
    else:
        for q in T.serial(T.ceildiv(total, each)):
            if q > 0:
                load_batch(cell, ring, q * each, n)
            score_batch(cell, token, ring, q * each, n, total)


@T.macro
def score_decayed(cell: Cell, token: Token, ring: Ring, n: Any) -> None:
    """As :func:`score_records` for the ring's records where a log-decay over K weighs them: chunks of them pass through
    shared memory, newest first."""
    g = cell.geo
    values = T.alloc_local((1,), F32)
    clear_key_decay(cell)
    for chunk in T.serial(T.ceildiv(n, g.lanes)):
        first = (T.ceildiv(n, g.lanes) - 1 - chunk) * g.lanes
        stage_rights(cell, ring, first, n)
        for q in T.serial(ceil_div(g.lanes, g.groups)):
            e = q * g.groups + cell.group
            live = e < T.min(g.lanes, n - first)
            for t in T.serial(g.T):
                for i in list(range(g.reads)):
                    for r in list(range(g.rank)):
                        score_staged(cell, token, values, live, e, first, t, i, r)
        T.sync_threads()


@T.macro
def score_staged(cell: Cell, token: Token, value: Any, live: Any, e: Any, first: Any, t: Any, i: int, r: int) -> None:
    g = cell.geo
    vector = T.alloc_local((g.columns,), F32)
    value[0] = ZERO
    if live:
        read_vector(cell, token, t, i, vector)
        for c in T.unroll(g.columns):
            value[0] = value[0] + cell.shared["ring_rights"][e * g.rank + r, cell.column(c)] * vector[c]
    sum_lanes(cell, value, 1)
    if tvm.tirx.all(live, cell.lane == 0):
        cell.shared["scores"][first + e, (r * g.T + t) * g.reads + i] = value[0]


def ancestor_of(cell: Any) -> Any:
    """The node that the walk up the parents has come to; a chain needs none."""
    return T.alloc_local((1,), "int32") if cell.spec.tree else None


@T.macro
def walk_window(cell: Cell, ring: Ring, first: int) -> None:
    """Scores of the window's own tokens against later ones with a log-decay over K, to rows ``first`` on: a group
    pulls a read vector back through the tokens before it,
    newest first, and leaves it weighted by all their decays, as records and checkpoint want it. Ends with a
    barrier."""
    g = cell.geo
    vector = T.alloc_local((g.columns,), F32)
    value = T.alloc_local((1,), F32)
    ancestor = ancestor_of(cell)
    for q in T.unroll(ceil_div(g.T * g.reads, g.groups)):
        task = q * g.groups + cell.group
        if cell.spec.tree:
            ancestor[0] = cell.shared["parents"][0, T.min(task // g.reads, g.T - 1)]
        if task < g.T * g.reads:
            for c in T.unroll(g.columns):
                vector[c] = cell.shared["reads"][task, cell.column(c)]
        for back in T.serial(g.T):
            source = g.T - 1 - back
            seen = source == ancestor[0] if cell.spec.tree else source < task // g.reads
            live = tvm.tirx.all(task < g.T * g.reads, seen)
            for r in T.unroll(g.rank):
                value[0] = ZERO
                if live:
                    for c in T.unroll(g.columns):
                        value[0] = value[0] + cell.shared["rights"][source * g.rank + r, cell.column(c)] * vector[c]
                sum_lanes(cell, value, 1)
                if tvm.tirx.all(live, cell.lane == 0):
                    cell.shared["scores"][first + source, r * g.T * g.reads + task] = value[0]
            if live:
                for c in T.unroll(g.columns):
                    vector[c] = vector[c] * T.exp(cell.shared["token_decay"][source, cell.column(c)])
                if cell.spec.tree:
                    ancestor[0] = cell.shared["parents"][0, source]
        if task < g.T * g.reads:
            for c in T.unroll(g.columns):
                cell.shared["reads"][task, cell.column(c)] = vector[c]
    T.sync_threads()
