"""One call of a kernel with a known answer: tensors to call it with, and the float64 truth to hold the result against.

A batch mixes what a kernel must tell apart: several occupancies, rows that fold, kv_only rows, ragged windows,
padding rows between them, rings that wrap, rings and slots that differ. What no kernel may read or rely on is NaN:
outputs, empty ring rows, idle slots, the checkpoint of a kv_only row. The truth is the recurrence's own function
(``ir.oracle``); records come from the derived forms (``ir.forms_numpy``), which tests hold against the oracle.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from kvbuffer_codegen.autotune.tree_cases import draw_parents, path_case
from kvbuffer_codegen.ir import expr as ex
from kvbuffer_codegen.ir import oracle, storage
from kvbuffer_codegen.ir.forms import FORMS, STATES, KernelSpec, ring_rows
from kvbuffer_codegen.ir.forms_numpy import Row, Token
from kvbuffer_codegen.ir.language import Argument, Recurrence
from kvbuffer_codegen.ir.records import Field
from kvbuffer_codegen.ir.signature import BASE, COUNT, FAULT, KV_ONLY, SKIPPED, WINDOW, WRITES, cursor_rows

F64 = npt.NDArray[np.float64]
Tensors = dict[str, Any]
DTYPES = {name: getattr(torch, name) for name in STATES}
SCALES = ("state_rows", "state_channels")  #: of an 8-bit state
LAYERS = 2  #: of a flush case


@dataclass(frozen=True)
class Plan:
    """A row of the batch: where it lives, the records it holds, the tokens it brings. ``slot`` -1: padding."""

    slot: int
    ring: int
    base: int
    count: int
    kv_only: bool
    length: int

    def folds(self, spec: KernelSpec) -> bool:
        if self.slot < 0 or self.count == 0:
            return False
        capacity = spec.kv_only if self.kv_only else spec.buffer
        full = self.count + self.length > capacity and self.length > 0
        return FORMS[spec.form].folds == "pending" or full


def plan(spec: KernelSpec, seed: int) -> list[Plan]:
    """The rows of a case: every occupancy that differs in kind, with padding in front of, among and behind them."""
    L, C, T = spec.buffer, spec.kv_only, max(spec.tokens, 1)
    R = ring_rows(L, C, T) + 1
    counts = sorted({0, 1, L // 2, max(L - T, 0), max(L - T + 1, 0), L})
    kinds = [(n, False) for n in counts] + [(n, True) for n in sorted({0, C // 2, max(C - T + 1, 0), C}) if C]
    lengths = [T, max(T - 1, 1), 1, 0] if spec.form == "verify" else [int(FORMS[spec.form].tokens)]
    live = [(n, flag, lengths[i % len(lengths)]) for i, (n, flag) in enumerate(kinds)]
    if spec.form == "verify":
        live.append((L, False, T))  # a full window that must fold, whatever the cycle of lengths gave the others
    rng = np.random.default_rng(seed)
    slots, rings = rng.permutation(len(live) + 1), rng.permutation(len(live) + 1)
    rows = [Plan(int(slots[i]), int(rings[i]), (R - 1 - 2 * i) % R, *kind) for i, kind in enumerate(live)]
    padding = Plan(-1, -1, 0, 0, False, lengths[0])
    return [padding, *rows[:2], padding, padding, *rows[2:], padding]


def rounded(x: F64, dtype: str) -> F64:
    """``x`` as it is once stored in ``dtype``."""
    return torch.from_numpy(np.asarray(x)).to(DTYPES[dtype]).double().numpy()


@functools.cache
def decay_signs(recurrence: Recurrence) -> dict[str, Callable[[F64], F64]]:
    """What makes legal decays of random numbers: of each argument that the log-decays depend on, its sign.

    A log-decay that is an input itself must not be positive, a slope not negative; raw gates may be anything.
    """
    nf = recurrence.normal_form
    logs = [x for x in (nf.log_decay_scalar, nf.log_decay_key, nf.log_decay_value) if x is not None]
    names = sorted({node.value[0] for node in ex.walk(*logs) if node.op == "input"})
    drawn = {name: np.random.default_rng(i).standard_normal((99, 8)) for i, name in enumerate(names)}
    ops = {**oracle.OPS, "sum": lambda x: np.sum(x, axis=-1, keepdims=True)}
    for signs in itertools.product((np.positive, lambda x: -np.abs(x), np.abs), repeat=len(names)):
        chosen = dict(zip(names, signs, strict=True))

        def leaf(node: ex.Expr, chosen: Mapping[str, Callable[[F64], F64]] = chosen) -> Any:
            if node.op in ("const", "size"):
                return np.full((1, 1), 8.0 if node.op == "size" else node.value)
            return chosen[node.value[0]](drawn[node.value[0]])

        if all((ex.evaluate(x, leaf, ops) <= 0).all() for x in logs):
            return chosen
    return {}


def bytes_of(x: torch.Tensor) -> torch.Tensor:
    """torch indexes no float8 tensor, but its bytes."""
    return x.view(torch.uint8) if x.dtype.itemsize == 1 else x


def tile_tensors(spec: KernelSpec, values: F64) -> Tensors:
    """``values`` [..., V, K], as an 8-bit or wider state has them, in the tensors that hold them."""
    if spec.scaled:
        made = storage.scaled(values, spec.state)
        tensors = {"state": made.codes, "state_rows": made.rows, "state_channels": made.channels}
    else:
        tensors = {"state": values}
    dtypes = {"state": DTYPES[spec.state]}
    made_tensors = {n: torch.from_numpy(x).to(dtypes.get(n, torch.float32)) for n, x in tensors.items()}
    if spec.layout == "KV":
        made_tensors["state"] = made_tensors["state"].transpose(-1, -2).contiguous()
    return made_tensors


def state_values(spec: KernelSpec, tensors: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """What the state in ``tensors`` is worth, float64, in its layout."""
    state = tensors["state"].float().double()  # float8 widens by way of float32 alone
    if not spec.scaled:
        return state
    rows, channels = (tensors[name].double() for name in SCALES)
    over_v, over_k = (-1, -2) if spec.layout == "VK" else (-2, -1)
    return state * rows.unsqueeze(over_v) * channels.unsqueeze(over_k)


class Stream:
    """The tokens of all rows of one layer, ``B`` rows of ``H`` key heads side by side: what was before a call, and
    its own.
    """

    def __init__(self, spec: KernelSpec, recurrence: Recurrence, rows: list[Plan], H: int, rng: np.random.Generator):
        self.spec, self.recurrence, self.rows, self.H, self.HV = spec, recurrence, rows, H, H * spec.ratio
        B = len(rows)
        self.tokens = max(r.count for r in rows) + max(spec.tokens, 1)
        self.inputs = {a.name: self._draw(a, B, rng) for a in recurrence.arguments}
        start = storage.stored(rng.standard_normal((B, self.HV, spec.V, spec.K)) * 0.5, spec.state)
        start[[i for i, r in enumerate(rows) if r.kv_only]] = 0.0
        self.start = start
        self.history = self.records(start, 0, self.tokens)
        self.states = self._states()

    def _draw(self, a: Argument, B: int, rng: np.random.Generator) -> F64:
        heads = (self.H if a.heads == "key" else self.HV) * (1 if a.parameter else B)
        wide = self.spec.wide(a.axis)
        lead = () if a.parameter else (self.tokens,)
        drawn = rng.standard_normal((*lead, *((a.count,) if a.count else ()), heads, *wide))
        drawn = decay_signs(self.recurrence).get(a.name, np.positive)(drawn)
        return rounded(drawn * 0.5, "float32") if a.parameter else rounded(drawn, self.spec.io)

    def records(self, state: F64, first: int | npt.NDArray[np.int64], tokens: int) -> list[dict[str, F64]]:
        """What tokens ``first[b]`` on leave in the ring, applied to ``state`` [B, HV, V, K]: per token, fields [B,
        heads, (axis)].
        """
        fields = self.spec.record_layout.fields
        window = self._window(state, first, tokens).window
        return [{f.name: self._as_field(record[f.name], f) for f in fields} for record in window]

    def _window(self, state: F64, first: int | npt.NDArray[np.int64], tokens: int) -> Row:
        """All rows as one of B times the heads, after a window of their tokens."""
        B, spec = len(self.rows), self.spec
        every = self._side_by_side(first, tokens)
        parameters = {a.name: every[a.name] for a in self.recurrence.arguments if a.parameter}
        each: list[Token] = [
            {a.name: every[a.name][t] for a in self.recurrence.arguments if not a.parameter} for t in range(tokens)
        ]
        row = Row(
            replace(spec, form="decode", window=0, tree=False), state.reshape(B * self.HV, spec.V, spec.K), parameters
        )
        row.verify(each)
        return row

    def _as_field(self, value: F64, f: Field) -> F64:
        wide = self.spec.wide(f.axis)
        B = len(self.rows)
        made = np.broadcast_to(value, (B * self.HV, *(wide or (1,)))).reshape(B, self.HV, *wide)
        return made[:, :: self.spec.ratio] if f.heads == "key" else made

    def _states(self) -> F64:
        """The state of each row once its records are folded: [B, HV, V, K]. Narrow records are not what the recurrence
        wrote: their fold goes through the derived forms."""
        result = self.start.copy()
        most = max(r.count for r in self.rows)
        row = None if self.spec.records == "exact" else self._window(self.start, 0, most)
        current = self.start
        for t in range(most):
            if row is None:
                current = self.truth(current, t, 1)[1][-1]
            else:
                current = row.folded([row.narrowed(r) for r in row.window[: t + 1]]).reshape(self.start.shape)
            done = [i for i, r in enumerate(self.rows) if r.count == t + 1]
            result[done] = current[done]
        return result

    def truth(self, state: F64, first: int | npt.NDArray[np.int64], tokens: int) -> tuple[F64, F64]:
        """The oracle from ``state`` [B, HV, V, K]: row b runs tokens ``first[b]`` on. Outputs [tokens, B, HV, V] and
        states [tokens, B, HV, V, K].
        """
        B, V, K = len(self.rows), self.spec.V, self.spec.K
        outputs, states = oracle.run(
            self.recurrence, self._side_by_side(first, tokens), state.reshape(B * self.HV, V, K)
        )
        return outputs.reshape(tokens, B, self.HV, V), states.reshape(tokens, B, self.HV, V, K)

    def _side_by_side(self, first: int | npt.NDArray[np.int64], tokens: int) -> dict[str, F64]:
        """Inputs of all rows as those of one request with B times the heads, parameters repeated."""
        made = {}
        at = np.broadcast_to(first, (len(self.rows),))
        for a in self.recurrence.arguments:
            axis = 1 if a.count else 0
            if a.parameter:
                made[a.name] = np.concatenate([self.inputs[a.name]] * len(self.rows), axis=axis)
            else:
                made[a.name] = np.concatenate(list(self.window(a, at, tokens)), axis=axis + 1)
        return made

    def window(self, a: Argument, first: npt.NDArray[np.int64], tokens: int) -> F64:
        """A per-token input of each row's tokens ``first[b]`` on: [B, tokens, (count,) heads, (axis)]."""
        heads = self.H if a.heads == "key" else self.HV
        x = self.inputs[a.name]
        axis = 2 if a.count else 1
        rows = [np.take(x[n : n + tokens], range(b * heads, (b + 1) * heads), axis=axis) for b, n in enumerate(first)]
        return np.stack(rows)


class Case:
    """A call of the kernel of ``spec`` (not a cursor form) and its truth. ``H`` key heads; HV = H * ratio."""

    def __init__(self, spec: KernelSpec, recurrence: Recurrence, seed: int = 0, H: int = 2):
        self.spec, self.recurrence = spec, recurrence
        self.rows = plan(spec, seed)
        self.layers = LAYERS if FORMS[spec.form].layered else 1
        rng = np.random.default_rng(seed)
        self.streams = [Stream(spec, recurrence, self.rows, H, rng) for _ in range(self.layers)]
        self.N = sum(r.slot >= 0 for r in self.rows) + 1
        self.P = self.N + len(self.rows) * (spec.form == "publish")
        self.parents = draw_parents(len(self.rows), max(spec.window, 1), rng)
        self.dst = [self.N + i if i % 4 < 3 else -1 for i in range(len(self.rows))]
        self.R = ring_rows(spec.buffer, spec.kv_only, max(spec.tokens, 1)) + 1
        self.before = self._tensors()

    def tensors(self, device: torch.device | str = "cpu") -> Tensors:
        """Fresh arguments of a call, by name."""
        return {name: x.to(device, copy=True) for name, x in self.before.items()}

    def _tensors(self) -> Tensors:
        spec, live = self.spec, [(b, r) for b, r in enumerate(self.rows) if r.slot >= 0]
        layers = [self._layer(stream, live) for stream in self.streams]
        made: Tensors = {name: torch.stack([layer[name] for layer in layers]) for name in layers[0]}
        if not FORMS[spec.form].layered:
            made = {name: x[0] for name, x in made.items()}
        cursors = torch.zeros((cursor_rows(spec), self.P + 1), dtype=torch.int32)
        cursors[WRITES:] = torch.arange(self.P + 1, dtype=torch.int32)
        for _, r in live:
            cursors[:WRITES, r.slot] = torch.tensor([r.base, r.count, r.kv_only, 0, 0])
        made |= {
            "cursors": cursors,
            "slots": torch.tensor([r.slot for r in self.rows], dtype=torch.int32),
            "rings": torch.tensor([r.ring for r in self.rows], dtype=torch.int32),
        }
        if spec.form == "verify":
            made["lengths"] = torch.tensor([r.length for r in self.rows], dtype=torch.int32)
        if spec.tree:
            past = np.arange(spec.window) >= np.array([[r.length] for r in self.rows])
            made["parents"] = torch.from_numpy(np.where(past, 10**6, self.parents).astype(np.int32))
        if spec.form == "publish":
            cursors[:FAULT, self.N : -1] = torch.tensor([3, 2, 1, 0])[:, None]
            made["dst"] = torch.tensor(self.dst, dtype=torch.int32)
        if FORMS[spec.form].tokens:
            made |= self._inputs()
            window = (spec.window,) if spec.form == "verify" else ()
            made["out"] = torch.full(
                (len(self.rows), *window, self.streams[0].HV, spec.V), torch.nan, dtype=DTYPES[spec.io]
            )
        return made

    def _layer(self, stream: Stream, live: list[tuple[int, Plan]]) -> Tensors:
        spec = self.spec
        made: Tensors = {}
        for name, x in tile_tensors(spec, stream.start).items():
            made[name] = torch.full((self.P, *x.shape[1:]), torch.nan).to(x.dtype)
            for b, r in live:
                if not r.kv_only:
                    bytes_of(made[name])[r.slot] = bytes_of(x)[b]
        for f in spec.record_layout.fields:
            values = torch.from_numpy(np.stack([record[f.name] for record in stream.history]))
            values = values.to(DTYPES[f.stored(spec.io)])
            made[f.name] = torch.full((self.N, self.R, *values.shape[2:]), torch.nan, dtype=values.dtype)
            for b, r in live:
                for j in range(r.count):
                    made[f.name][r.ring, (r.base + j) % self.R] = values[j, b]
        if not FORMS[spec.form].tokens:
            made |= {
                a.name: torch.from_numpy(stream.inputs[a.name]).float()
                for a in self.recurrence.arguments
                if a.parameter
            }
        return made

    def _inputs(self) -> Tensors:
        (stream,) = self.streams
        first = np.array([r.count for r in self.rows])
        made: Tensors = {}
        for a in self.recurrence.arguments:
            if a.parameter:
                made[a.name] = torch.from_numpy(stream.inputs[a.name]).float()
                continue
            x = torch.from_numpy(stream.window(a, first, self.spec.tokens)).to(DTYPES[self.spec.io])
            made[a.name] = (x if self.spec.form == "verify" else x[:, 0]).contiguous()
        return made

    # --- the truth, given what a kernel left

    def wanted(self, after: Mapping[str, torch.Tensor]) -> Tensors:
        """float64 values of every tensor that a kernel may write, NaN where it must leave what was there; of an 8-bit
        state what it is worth, and 0 where a scale may be written.

        The tokens of a row that folds read the state as stored, so their truth runs on from the state in ``after``.
        """
        spec, form = self.spec, FORMS[self.spec.form]
        made = {name: torch.full(self.before[name].shape, torch.nan, dtype=torch.float64) for name in self._written()}
        left = state_values(spec, after)
        for y, stream in enumerate(self.streams):
            view = {name: x[y] if form.layered else x for name, x in made.items()}
            self._want_layer(stream, view, left[y] if form.layered else left)
        if form.window:
            made["cursors"] = self.before["cursors"].double()
            for r in self.rows:
                if r.slot >= 0:
                    made["cursors"][WINDOW, r.slot] = r.length
        if spec.form == "publish":
            made["cursors"] = self.before["cursors"].double()
            for r, dst in zip(self.rows, self.dst, strict=True):
                made["cursors"][[*range(FAULT), *range(WRITES, cursor_rows(spec))], dst] *= r.slot < 0 or dst < 0
        return made

    def _written(self) -> list[str]:
        form = FORMS[self.spec.form]
        names = ["state", *(SCALES if self.spec.scaled else ())]
        names += [f.name for f in self.spec.record_layout.fields] if form.appends else []
        return names + (["out"] if form.tokens else [])

    def _want_layer(self, stream: Stream, view: Tensors, stored: torch.Tensor) -> None:
        spec, form = self.spec, FORMS[self.spec.form]
        tile = (
            (lambda x: torch.from_numpy(x))
            if spec.layout == "VK"
            else (lambda x: torch.from_numpy(x).transpose(-1, -2))
        )

        def write(slot: int, value: F64) -> None:
            view["state"][slot] = tile(value)
            for name in SCALES if spec.scaled else ():
                view[name][slot] = 0.0

        current = stream.states.copy()
        live = [(b, r) for b, r in enumerate(self.rows) if r.slot >= 0]
        if spec.form == "publish":
            for b, _ in live:
                if self.dst[b] >= 0:
                    write(self.dst[b], stream.states[b])
            return
        for b, r in live:
            if r.folds(spec) and spec.form != "step":
                write(r.slot, stream.states[b])
                current[b] = (stored[r.slot] if spec.layout == "VK" else stored[r.slot].transpose(-1, -2)).numpy()
        if not form.tokens:
            return
        first = np.array([r.count for r in self.rows])
        if spec.tree:
            outputs, records = self._tree_truth(stream, current, first)
        else:
            outputs, states = stream.truth(current, first, spec.tokens)
            records = stream.records(current, first, spec.tokens) if form.appends else []
        view["out"].zero_()
        for b, r in live:
            for i in range(r.length):
                place = view["out"][b, i] if form.window else view["out"][b]
                place.copy_(torch.from_numpy(outputs[i, b]))
                for name, values in records[i].items() if form.appends else ():
                    view[name][r.ring, (r.base + r.count + i) % self.R] = torch.tensor(values[b])
            if form.writes_state:
                write(r.slot, states[0, b])

    def _tree_truth(self, stream: Stream, start: F64, first: npt.NDArray[np.int64]) -> tuple[F64, list[Any]]:
        """Outputs and records of every node, each from the state after its parent."""
        outputs, records, states = [], [], [start]
        for t in range(self.spec.tokens):
            before = np.stack([states[parent + 1][b] for b, parent in enumerate(self.parents[:, t])])
            output, after = stream.truth(before, first + t, 1)
            outputs.append(output[0])
            records += stream.records(before, first + t, 1)
            states.append(after[-1])
        return np.stack(outputs), records


def cursor_case(spec: KernelSpec, seed: int = 0) -> tuple[Tensors, torch.Tensor]:
    """Arguments of a call of ``advance`` or a commit, and the cursors that it must leave."""
    if spec.form == "commit_path":
        return path_case(spec, seed)
    form, L, C, R = spec.form, 5, 7, 11
    rng = np.random.default_rng(seed)
    P, B = 12, 14
    cursors = torch.zeros((cursor_rows(spec), P + 1), dtype=torch.int32)
    cursors[WRITES:] = torch.arange(P + 1, dtype=torch.int32)
    cursors[BASE, :P] = torch.from_numpy(rng.integers(0, R, P).astype(np.int32))
    cursors[KV_ONLY, :P] = torch.from_numpy(rng.integers(0, 2, P).astype(np.int32))
    capacity = [C if cursors[KV_ONLY, p] else L for p in range(P)]
    cursors[COUNT, :P] = torch.tensor([(0, 1, capacity[p] - 1, capacity[p])[p % 4] for p in range(P)])
    windows = rng.integers(0, 4, P) if form == "commit" else np.zeros(P)
    windows[rng.integers(0, P, 2)] = SKIPPED
    cursors[WINDOW, :P] = torch.from_numpy(windows.astype(np.int32))
    slots = rng.permutation([*range(P - 1), -1, -1, -1]).astype(np.int32)[:B]
    given: Tensors = {"cursors": cursors, "slots": torch.from_numpy(slots)}
    if form == "commit":
        open_ = [max(int(cursors[WINDOW, s]), 0) if s >= 0 else 0 for s in slots]
        given["accepted"] = torch.tensor([rng.integers(0, (t or 3) + 1) for t in open_], dtype=torch.int32)
    else:
        given["form"] = seed % 3
    given |= {"buffer": L, "kv_only": C, "ring": R}
    wanted = cursors.clone()
    for b, s in enumerate(slots):
        if s >= 0:
            wanted[:, s] = torch.tensor(_moved(form, cursors[:, s].tolist(), given, b))
    return given, wanted


def _moved(form: str, column: list[int], given: Tensors, b: int) -> list[int]:
    """A slot's cursors after the call, by the rules of docs/architecture.md."""
    base, count, flag, window, fault, *writes = column
    capacity = given["kv_only"] if flag else given["buffer"]
    tokens, pending = (window, False) if form == "commit" else ((1, 0, 0)[given["form"]], given["form"] > 0)
    added = int(given["accepted"][b]) if form == "commit" else tokens
    if window == SKIPPED or (form == "commit" and window == 0):
        return [base, count, flag, 0, fault, *writes]
    if count and (pending or count + tokens > capacity):
        base, count, flag = (base + count) % given["ring"], 0, 0
        writes = [n + 1 for n in writes]
    if form == "advance" and given["form"] == 1:
        flag, writes = 0, [n + 1 for n in writes]
    return [base, count + added, flag, 0, fault, *writes]
