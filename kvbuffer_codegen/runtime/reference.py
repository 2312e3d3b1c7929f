"""Every form in torch operations, under the contract of the compiled kernels: the last step of the fallback chain.

A :class:`ReferenceKernel` takes the tensors of ``ir.signature`` in their order, on any device and of any stride, and
has the same effects. It forms the whole state of every row and applies tokens to that one by one, so it is simple and
slow: a fallback and a cross-check. Shapes are static and nothing is read back, so it captures in a CUDA graph; sums are
elementwise, so a row's bits do not depend on its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from kvbuffer_codegen.ir import expr as ex
from kvbuffer_codegen.ir.expr import Expr
from kvbuffer_codegen.ir.forms import FORMS, KernelSpec
from kvbuffer_codegen.ir.signature import (
    ADVANCE_FORMS,
    BASE,
    COUNT,
    FAULT,
    FAULT_ACCEPTED,
    FAULT_LENGTH,
    FAULT_PARENT,
    FAULT_PATH,
    FAULT_SLOT,
    FAULT_TARGET,
    KV_ONLY,
    SKIPPED,
    WINDOW,
    WRITES,
    TensorArg,
    signature,
    to_dict,
)
from kvbuffer_codegen.runtime.plan import Plan
from kvbuffer_codegen.runtime.reference_trees import Nodes, good_paths, topological
from kvbuffer_codegen.runtime.storage import CHANNELS, ROWS, STATE, bits, offsets, stored, values


class ReferenceKernel:
    """``spec`` in torch operations on a ``device``; call it with the arguments of ``signature(spec)``, positionally.

    It allocates temporaries of the size of the rows' states in float32. Calls raise
    :class:`~kvbuffer_codegen.runtime.errors.ArgumentError` for what a compiled kernel would refuse.
    """

    def __init__(self, spec: KernelSpec, device: torch.device | str) -> None:
        self.spec = spec
        self.name = spec.name
        self.plan = Plan.of(_manifest(spec, torch.device(device).type))
        self._names = tuple(a.name for a in signature(spec))
        self._layered = {a.name for a in signature(spec) if isinstance(a, TensorArg) and a.shape[0] == "Y"}

    def __repr__(self) -> str:
        return f"ReferenceKernel({self.name})"

    @torch.no_grad()  # a kernel has no backward, and a pool that required gradients would keep every step's graph
    def __call__(self, *arguments: Any) -> None:
        if not self.plan.launch(arguments).grid:
            return
        given = dict(zip(self._names, arguments, strict=True))
        if self.spec.form == "advance":
            _advance(**given)
        elif self.spec.form == "commit":
            _commit(**given)
        elif self.spec.form == "commit_path":
            _commit_path(**given)
        elif FORMS[self.spec.form].layered:
            run = {"flush": self._flush, "publish": self._publish, "compact": self._compact}[self.spec.form]
            for layer in range(next(given[name].shape[0] for name in self._layered)):
                run({name: x[layer] if name in self._layered else x for name, x in given.items()})
        else:
            self._tokens(given)

    def _flush(self, given: Mapping[str, Tensor]) -> None:
        rows = rows_of(given, self.spec)
        tiles = Tiles(self.spec, given, rows)
        tiles.store(tiles.folded(), rows.valid & (rows.count > 0))

    def _publish(self, given: Mapping[str, Tensor]) -> None:
        cursors, dst, rows = given["cursors"], given["dst"].long(), rows_of(given, self.spec)
        good = _in_range(dst, cursors.shape[1] - 1) & (dst != rows.slot)
        set_fault(cursors, rows.slot, rows.valid & ~good & (dst != -1), FAULT_TARGET)
        mask, target = rows.valid & good, torch.where(good, dst, 0)
        tiles = Tiles(self.spec, given, rows)
        tiles.store(tiles.folded(), mask, target)
        for row in (*range(FAULT), *range(WRITES, len(cursors))):
            put(cursors[row], (target,), torch.zeros_like(target), mask)

    def _compact(self, given: Mapping[str, Tensor]) -> None:
        cursors, path, accepted = given["cursors"], given["path"].long(), given["accepted"].long()
        rows, parents = rows_of(given, self.spec), given["parents"].long()
        window = cursors[WINDOW][rows.slot]
        good = rows.valid & (accepted >= 0) & (accepted <= window)
        good &= good_paths(path, accepted, parents, window, self.spec.buffer, self.spec.kv_only)
        ring_rows = given[self.spec.record_layout.fields[0].name].shape[1]
        first = (rows.base + rows.count).long()
        source = (first[:, None] + torch.where(good[:, None] & (path >= 0), path, 0)) % ring_rows
        for f in self.spec.record_layout.fields:
            values = given[f.name][rows.ring[:, None], source]
            for i in range(path.shape[1]):
                put(given[f.name], (rows.ring, (first + i) % ring_rows), values[:, i], good & (i < accepted))

    def _tokens(self, given: Mapping[str, Tensor]) -> None:
        """step, decode and verify."""
        spec, cursors, rows = self.spec, given["cursors"], rows_of(given, self.spec)
        t = rows.valid.int()
        if spec.form == "verify":
            t = _lengths(given["lengths"], spec.window, cursors, rows)
            if spec.tree:
                good = topological(given["parents"].long(), t)
                set_fault(cursors, rows.slot, rows.valid & ~good, FAULT_PARENT)
                t = torch.where(good, t, 0)
            put(cursors[WINDOW], (rows.slot,), t, rows.valid)
        fold = (t > 0) & (rows.count > 0)
        if spec.form != "step":
            fold &= rows.count + t > torch.where(rows.kv_only, spec.kv_only, spec.buffer)
        tiles = Tiles(spec, given, rows)
        folded = tiles.folded()
        current = torch.where(fold[:, None, None, None], values(folded), tiles.exact)
        window = spec.form == "verify"
        nodes = Nodes(current, given["parents"].long(), t) if spec.tree else None
        for i in range(spec.tokens):
            current = nodes.before(i) if nodes else current
            token = {name: x[:, i] if window else x for name, x in tiles.inputs.items()}
            output, record, current = tiles.apply({**token, **tiles.parameters}, current)
            if nodes:
                nodes.after(i, current)
            live = t > i
            out = given["out"][:, i] if window else given["out"]
            out.copy_(torch.where(live[:, None, None], output, 0.0))
            if FORMS[spec.form].appends:
                tiles.append(record, i, live)
        if spec.form == "step":
            tiles.store(tiles.stored(current, fold.int()), rows.valid)
        else:
            tiles.store(folded, fold)


def _manifest(spec: KernelSpec, kind: str) -> dict[str, Any]:
    """What :class:`Plan` reads of a manifest."""
    return {
        **spec.key(),
        "name": f"{spec.name} (torch reference)",
        "target": {"kind": kind},
        "arguments": [to_dict(a) for a in signature(spec)],
        "launch": {"grid": [1, 1, 1], "block": [1, 1, 1], "shared": 0, "arguments": []},
    }


@dataclass(frozen=True)
class Rows:
    """The rows of a batch, each tensor [B]. An invalid row has slot and ring 0 and is masked wherever something is
    written."""

    slot: Tensor
    ring: Tensor
    valid: Tensor
    base: Tensor
    count: Tensor
    kv_only: Tensor


def rows_of(given: Mapping[str, Tensor], spec: KernelSpec) -> Rows:
    cursors, slots, rings = given["cursors"], given["slots"].long(), given["rings"].long()
    ring_count = given[spec.record_layout.fields[0].name].shape[0]
    known, ringed = _in_range(slots, cursors.shape[1] - 1), _in_range(rings, ring_count)
    if spec.form != "compact":  # commit_path comes after it and reports
        note_strangers(cursors, slots, ~known & (slots != -1))
        note_strangers(cursors, rings, known & ~ringed & (rings != -1))
    if spec.form not in ("compact", "publish"):  # advance or commit comes after it
        put(cursors[WINDOW], (torch.where(known, slots, 0),), torch.full_like(slots, SKIPPED), known & ~ringed)
    valid = known & ringed
    slot = torch.where(valid, slots, 0)
    row = cursors[:, slot]
    return Rows(slot, torch.where(valid, rings, 0), valid, row[BASE], row[COUNT], row[KV_ONLY] != 0)


def _in_range(index: Tensor, size: int) -> Tensor:
    return (index >= 0) & (index < size)


def valid_slots(cursors: Tensor, slots: Tensor) -> Tensor:
    """Which slots are those of the pool; one that is neither that nor -1 is noted."""
    valid = _in_range(slots, cursors.shape[1] - 1)
    note_strangers(cursors, slots, ~valid & (slots != -1))
    return valid


def note_strangers(cursors: Tensor, index: Tensor, strange: Tensor) -> None:
    """The slot or ring of a strange row (or the nearest int32), and that there was one, into the column that belongs
    to no slot."""
    nobody = cursors[:, -1]
    first = index.index_select(0, strange.int().argmax()[None])[0]  # an index [()] would be read on the host
    first = first.clamp(-(2**31), 2**31 - 1)
    nobody[BASE].copy_(torch.where(strange.any(), first, nobody[BASE]))
    nobody[FAULT].bitwise_or_(strange.any().int() * FAULT_SLOT)


def set_fault(cursors: Tensor, slot: Tensor, bad: Tensor, bit: int) -> None:
    put(cursors[FAULT], (slot,), cursors[FAULT][slot] | bit, bad)


def _lengths(lengths: Tensor, window: int, cursors: Tensor, rows: Rows) -> Tensor:
    """Each row's own length, 0 where it is invalid or out of 0..window."""
    good = (lengths >= 0) & (lengths <= window)
    set_fault(cursors, rows.slot, rows.valid & ~good, FAULT_LENGTH)
    return torch.where(rows.valid & good, lengths, 0).int()


def _closing(cursors: Tensor, slots: Tensor) -> tuple[Tensor, Tensor]:
    """(slot, valid) of the rows of advance and commit, without those that their kernels skipped; these are closed."""
    known = valid_slots(cursors, slots)
    slot = torch.where(known, slots, 0)
    skipped = known & (cursors[WINDOW][slot] == SKIPPED)
    put(cursors[WINDOW], (slot,), torch.zeros_like(slot), skipped)
    return slot, known & ~skipped


def _advance(cursors: Tensor, slots: Tensor, form: int, buffer: int, kv_only: int, ring: int) -> None:
    appends = int(form == ADVANCE_FORMS["decode"])
    slot, valid = _closing(cursors, slots.long())
    base, count, flag = cursors[:WINDOW, slot]
    fold = count > 0
    if appends:
        fold &= count + 1 > torch.where(flag != 0, kv_only, buffer)
    flag = torch.zeros_like(flag) if form == ADVANCE_FORMS["step"] else flag
    _move(cursors, slot, valid, fold, (base, count, flag), appends, ring)
    _count_writes(cursors, slot, valid, fold.int() + int(form == ADVANCE_FORMS["step"]))


def _commit_path(
    cursors: Tensor,
    slots: Tensor,
    accepted: Tensor,
    path: Tensor,
    parents: Tensor,
    buffer: int,
    kv_only: int,
    ring: int,
) -> None:
    valid = _in_range(slots.long(), cursors.shape[1] - 1)
    slot = torch.where(valid, slots.long(), 0)
    t = cursors[WINDOW, slot]
    counted = (accepted >= 0) & (accepted <= t)
    good = good_paths(path.long(), torch.where(counted, accepted, 0), parents.long(), t, buffer, kv_only)
    set_fault(cursors, slot, valid & (t > 0) & ~good, FAULT_PATH)
    _commit(cursors, slots, torch.where(good, accepted, 0), buffer, kv_only, ring)


def _commit(cursors: Tensor, slots: Tensor, accepted: Tensor, buffer: int, kv_only: int, ring: int) -> None:
    slot, valid = _closing(cursors, slots.long())
    base, count, flag, t = cursors[:FAULT, slot]
    valid &= t > 0
    good = (accepted >= 0) & (accepted <= t)
    set_fault(cursors, slot, valid & ~good, FAULT_ACCEPTED)
    fold = (count > 0) & (count + t > torch.where(flag != 0, kv_only, buffer))
    _move(cursors, slot, valid, fold, (base, count, flag), torch.where(good, accepted, 0), ring)
    _count_writes(cursors, slot, valid, fold.int())


def _move(
    cursors: Tensor, slot: Tensor, valid: Tensor, fold: Tensor, row: tuple[Tensor, ...], more: Tensor | int, ring: int
) -> None:
    """Cursors after a fold, where there was one, and ``more`` new records; the window closes."""
    base, count, flag = row
    base = torch.where(fold, (base + count) % ring, base)
    count = torch.where(fold, 0, count) + more
    flag = torch.where(fold, 0, flag)
    new = torch.stack([base, count.int(), flag, torch.zeros_like(base)], dim=1)
    put(cursors[:FAULT].T, (slot,), new, valid)


def _count_writes(cursors: Tensor, slot: Tensor, valid: Tensor, more: Tensor) -> None:
    if len(cursors) > WRITES:
        put(cursors[WRITES], (slot,), cursors[WRITES][slot] + more, valid)


class Tiles:
    """The states of a batch's rows in float32 [B, HV, V, K], and what is done with them.

    Vectors and numbers are [B, HV, X], X being K, V or 1; those of key heads are repeated for their value heads.
    """

    def __init__(self, spec: KernelSpec, given: Mapping[str, Tensor], rows: Rows) -> None:
        assert spec.recurrence is not None
        self.spec, self.rows, self.given = spec, rows, given
        arguments = {a.name: a for a in spec.recurrence.arguments if a.name in given}
        self.inputs = {name: given[name] for name, a in arguments.items() if not a.parameter}
        self.parameters = {name: given[name][None] for name, a in arguments.items() if a.parameter}
        self.parts = {name: given[name] for name in (STATE, ROWS, CHANNELS) if name in given}
        self.state = given[STATE] if spec.layout == "VK" else given[STATE].transpose(-1, -2)
        self.parts[STATE] = self.state
        self.HV = self.state.shape[1]
        self.fields = {f.name: given[f.name] for f in spec.record_layout.fields}
        self.ring_rows = next(iter(self.fields.values())).shape[1]
        self.exact = self._with_records()

    def folded(self) -> dict[str, Tensor]:
        """The states with their records, as they are stored."""
        return self.stored(self.exact)

    def stored(self, states: Tensor, more: Tensor | int = 0) -> dict[str, Tensor]:
        """``states`` as they are stored, ``more`` writes of this call before."""
        writes = self.given["cursors"][WRITES] if self.spec.stochastic else None
        if writes is None:
            return stored(states, self.state.dtype)
        offset = offsets(self.spec, self.HV, writes[self.rows.slot] + more, writes[-1])
        return stored(states, self.state.dtype, offset)

    def store(self, states: Mapping[str, Tensor], mask: Tensor, slot: Tensor | None = None) -> None:
        for name, x in states.items():
            put(self.parts[name], (self.rows.slot if slot is None else slot,), x, mask)

    def append(self, record: Mapping[str, Tensor], i: int, mask: Tensor) -> None:
        at = (self.rows.ring, self._row(self.rows.count + i))
        for name, value in record.items():
            put(self.fields[name], at, value.to(self.fields[name].dtype), mask)

    def apply(self, token: Mapping[str, Tensor], state: Tensor) -> tuple[Tensor, dict[str, Tensor], Tensor]:
        """One token: its output [B, HV, V], its record as the ring holds it, the states after it."""
        program, layout = self.spec.program, self.spec.record_layout
        named: dict[str, Tensor] = {}
        reads: list[Tensor] = []
        lefts: list[Tensor] = []
        leaves: dict[str, Callable[[Any], Tensor]] = {
            "input": lambda value: self._input(token, *value),
            "scalar": named.__getitem__,
            "read": reads.__getitem__,
            "left": lefts.__getitem__,
        }
        memo: dict[Expr, Tensor] = {}

        def value(expr: Expr) -> Tensor:
            return self._evaluate(expr, leaves, memo)

        for d in program.definitions:
            named[d.name] = _sum(value(d.expr)) if d.reduce else value(d.expr)
        reads += [_sum(state * value(x).unsqueeze(-2)).squeeze(-1) for x in program.reads]
        for left in program.lefts:
            lefts.append(value(left).expand(len(state), self.HV, self.spec.V))
        record = {f.name: self._as_field(value(f.expr), f.heads, f.axis) for f in layout.fields}
        output = value(program.output)
        decays = (program.log_decay_scalar, program.log_decay_key, program.log_decay_value)
        for log, axis in zip(decays, (-1, -2, -1), strict=True):
            if log is not None:
                state = state * torch.exp(value(log)).unsqueeze(axis)
        for left_vector, right in zip(lefts, program.rights, strict=True):
            state = state + left_vector.unsqueeze(-1) * value(right).unsqueeze(-2)
        return output, record, state

    def _with_records(self) -> Tensor:
        """e^{s_0} S0 + sum_j e^{s_j} left_j right_j^T, the sum first, s_j summed from the newest record backwards."""
        layout, rows = self.spec.record_layout, self.rows
        j = torch.arange(self.ring_rows - max(1, self.spec.tokens), device=self.state.device)
        there = (j < rows.count[:, None])[..., None, None]  # [B, J, 1, 1]
        fields = self._gather(j)
        leaves = {"field": fields.__getitem__, "input": lambda value: self._input(self.parameters, *value)}
        memo: dict[Expr, Tensor] = {}

        def value(expr: Expr) -> Tensor:
            """[B, J, HV, X], zero where there is no such record: what lies in the ring there may be anything."""
            return torch.where(there, self._evaluate(expr, leaves, memo), 0.0)

        scalar, key, over_v = (
            None if log is None else _suffix_sums(value(log))
            for log in (layout.log_decay_scalar, layout.log_decay_key, layout.log_decay_value)
        )
        over_k = key if scalar is None else scalar if key is None else scalar + key
        total = torch.zeros(len(rows.slot), self.HV, self.spec.V, self.spec.K, device=self.state.device)
        for left, right in zip(layout.lefts, layout.rights, strict=True):
            a = value(left) if over_v is None else value(left) * torch.exp(over_v[:, 1:])
            b = value(right.expr) if over_k is None else value(right.expr) * torch.exp(over_k[:, 1:])
            for i in reversed(range(len(j))):
                total += a[:, i, :, :, None] * b[:, i, :, None, :]
        start = values({name: bits(x)[rows.slot].view(x.dtype) for name, x in self.parts.items()})
        start = torch.where((rows.kv_only | ~rows.valid)[:, None, None, None], 0.0, start)
        start = start if over_k is None else start * torch.exp(over_k[:, 0]).unsqueeze(-2)
        start = start if over_v is None else start * torch.exp(over_v[:, 0]).unsqueeze(-1)
        return start + total

    def _gather(self, j: Tensor) -> dict[str, Tensor]:
        """Record fields [B, J, HV, X] by name."""
        at = (self.rows.ring[:, None], self._row(j[None]))
        made = {}
        for f in self.spec.record_layout.fields:
            x = self.fields[f.name][at].float()
            made[f.name] = self._per_value_head(x if f.axis else x.unsqueeze(-1), f.heads)
        return made

    def _row(self, j: Tensor) -> Tensor:
        """The ring row of record ``j`` [B] or [B, J], oldest first."""
        base = self.rows.base if j.dim() == 1 else self.rows.base[:, None]
        return ((base + j) % self.ring_rows).long()

    def _input(self, token: Mapping[str, Tensor], name: str, index: int | None) -> Tensor:
        assert self.spec.recurrence is not None
        argument = next(a for a in self.spec.recurrence.arguments if a.name == name)
        x = token[name] if index is None else token[name][:, index]
        x = x.float().contiguous()
        return self._per_value_head(x if argument.axis else x.unsqueeze(-1), argument.heads)

    def _per_value_head(self, x: Tensor, heads: str) -> Tensor:
        return x.repeat_interleave(self.spec.ratio, dim=-2) if heads == "key" else x

    def _as_field(self, x: Tensor, heads: str, axis: str | None) -> Tensor:
        x = x.expand(len(self.rows.slot), self.HV, self.spec.extent(axis))
        x = x[:, :: self.spec.ratio] if heads == "key" else x
        return x if axis else x.squeeze(-1)

    def _evaluate(self, expr: Expr, leaves: Mapping[str, Callable[[Any], Tensor]], memo: dict[Expr, Tensor]) -> Tensor:
        def leaf(node: Expr) -> Tensor:
            if node.op in ("const", "size"):
                number = node.value if node.op == "const" else self.spec.extent(node.value)
                return torch.full((1, 1, 1), float(number), device=self.state.device)
            return leaves[node.op](node.value)

        return ex.evaluate(expr, leaf, _OPERATIONS, memo)


def _sum(x: Tensor) -> Tensor:
    """Sum over the last axis, kept as one element: halves added to halves, the same way on every device and for every
    batch."""
    while (width := x.shape[-1]) > 1:
        half = (width + 1) // 2
        head, tail = x[..., :half], x[..., half:]
        x = head + (tail if half == width - half else torch.nn.functional.pad(tail, (0, 1)))
    return x


_OPERATIONS: dict[str, Callable[..., Tensor]] = {
    "neg": torch.neg,
    "exp": lambda x: torch.exp(x.clamp(max=ex.EXP_LIMIT)),
    "log": torch.log,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "sigmoid": torch.sigmoid,
    "softplus": torch.nn.functional.softplus,
    "tanh": torch.tanh,
    "abs": torch.abs,
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "sum": _sum,
    "bfloat16": lambda x: x.clamp(-ex.BFLOAT16_MAX, ex.BFLOAT16_MAX).bfloat16().float(),
}


def _suffix_sums(logs: Tensor) -> Tensor:
    """[B, J + 1, HV, X]: at j the sum of the logs from j on, newest (last) first; 0 at the end."""
    sums = logs.flip(1).cumsum(1).flip(1)
    return torch.nn.functional.pad(sums, (0, 0, 0, 0, 0, 1))


def put(target: Tensor, index: tuple[Tensor, ...], values: Tensor, mask: Tensor) -> None:
    """``target[index][b] = values[b]`` for the rows b of ``mask``, without reading the mask on the host.

    The other rows repeat the first masked row's write, or, where there is none, write what is already there.
    """
    target, values = bits(target), bits(values)
    source = torch.where(mask, torch.arange(len(mask), device=mask.device), mask.int().argmax())
    at = tuple(i[source] for i in index)
    old = target[at]
    chosen = mask.any().reshape([1] * old.dim())
    target.index_put_(at, torch.where(chosen, values[source].to(old.dtype), old))
