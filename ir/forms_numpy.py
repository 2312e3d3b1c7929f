"""The derived forms, evaluated for one request in float64 NumPy: what kernels must compute, without tiles, dtypes or
slots.

Every number goes through the token program and the record layout, so agreement with ``oracle.run`` (which goes
through neither) checks the derivation. Runtime rules (when a row folds, what kv_only means) are those of
docs/architecture.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from . import expr as ex
from . import philox, storage
from .expr import Expr
from .forms import KernelSpec
from .language import Argument
from .oracle import F64, OPS, bfloat16

Token = Mapping[str, npt.ArrayLike]
Record = dict[str, F64]


class Row:
    """One request: checkpoint, records and flag. ``state``: [HV, V, K], or None for a kv_only row that has no
    checkpoint yet.

    ``spec`` gives recurrence, K, V, ratio, io (which decides the record layout), buffer and kv_only; its form does
    not matter. Per-token inputs are [(count,) heads, (axis,)], parameters [HV, (axis,)]; outputs are
    [HV, V]; everything float64.
    """

    def __init__(self, spec: KernelSpec, state: npt.ArrayLike | None, parameters: Token):
        assert spec.recurrence is not None
        self.spec, self.arguments = spec, spec.recurrence.arguments
        self.parameters = parameters
        self.kv_only = state is None
        self.state: F64 | None = None if state is None else np.array(state, np.float64)
        self.HV = 0 if self.state is None else len(self.state)  # 0: the first token says
        self.records: list[Record] = []
        self.window: list[Record] = []
        self.parents: list[int] = []
        self.folds = 0

    def step(self, token: Token) -> F64:
        """Fold what is pending, apply one token recurrently, write the state."""
        self._begin(token, 1, always=True)
        output, record = self._token(token, [])
        self.state, self.kv_only = self.stored(self.folded([record])), False
        return output

    def decode(self, token: Token) -> F64:
        """One token; its record is appended."""
        self._begin(token, 1)
        output, record = self._token(token, [])
        self.records.append(self.narrowed(record))
        return output

    def verify(self, tokens: list[Token], parents: Sequence[int] | None = None) -> list[F64]:
        """A window of tokens against the same checkpoint and records; opens a window for :meth:`commit`.

        ``parents``: the node that each token follows, -1 for the committed history; None: a chain. Where one is not in
        -1..t-1, the window is empty.
        """
        parents = range(-1, len(tokens) - 1) if parents is None else parents
        self.window, self.parents = [], list(parents)
        if not all(-1 <= parent < t for t, parent in enumerate(self.parents)):
            return []
        if tokens:
            self._begin(tokens[0], len(tokens))
        outputs = []
        for t, token in enumerate(tokens):
            output, record = self._token(token, [self.window[s] for s in reversed([*self.ancestors(t)])])
            outputs.append(output)
            self.window.append(record)
        return outputs

    def ancestors(self, t: int) -> Iterator[int]:
        """The nodes of the window before node ``t``, nearest first."""
        while (t := self.parents[t]) >= 0:
            yield t

    def commit(self, accepted: int, path: Sequence[int] | None = None) -> None:
        """Accept a prefix, or the first nodes of a ``path``: a child of the history, a child of that, and so on. A
        count out of 0..t, and nodes that are no such path, count as 0."""
        path = range(len(self.window)) if path is None else path
        nodes = list(path)[:accepted] if 0 <= accepted <= min(len(self.window), len(path)) else []
        good = all(0 <= s < len(self.window) for s in nodes)
        good = good and [self.parents[s] for s in nodes] == [-1, *nodes][: len(nodes)]
        self.records += [self.narrowed(self.window[s]) for s in nodes] if good else []
        self.window = []

    def flush(self) -> None:
        """Fold the pending records, however many."""
        if self.records:
            self.state, self.records, self.kv_only = self.stored(self.folded(self.records)), [], False
            self.folds += 1

    def stored(self, state: F64) -> F64:
        """What a fold or step leaves of ``state``: all of it here, where dtypes are left out."""
        return state

    def narrowed(self, record: Record) -> Record:
        """A record as the ring holds it: vectors that the layout narrows, narrowed. The tokens of a window still see
        each other's whole vectors."""
        narrow = {f.name for f in self.spec.record_layout.fields if f.dtype == "bfloat16"}
        return {name: bfloat16(value) if name in narrow else value for name, value in record.items()}

    def _begin(self, token: Token, t: int, always: bool = False) -> None:
        if not self.HV:
            first = next(a for a in self.arguments if a.heads == "value")
            x = np.asarray((self.parameters if first.parameter else token)[first.name])
            self.HV = x.shape[1 if first.count else 0]
        capacity = self.spec.kv_only if self.kv_only else self.spec.buffer
        if self.records and (always or len(self.records) + t > capacity):
            self.flush()

    def _input(self, token: Token, node: Expr) -> F64:
        name, index = node.value
        argument: Argument = next(a for a in self.arguments if a.name == name)
        x = np.asarray((self.parameters if argument.parameter else token)[name], np.float64)
        x = x if index is None else x[index]
        x = np.repeat(x, self.HV // len(x), axis=0)
        return x if argument.axis else x[:, None]

    def _evaluate(self, expr: Expr, leaf: Any) -> F64:
        """Every value is [HV, axis or 1]."""
        ops = {**OPS, "sum": lambda x: np.sum(x, axis=-1, keepdims=True)}

        def leaves(node: Expr) -> Any:
            if node.op == "const":
                return np.full((1, 1), node.value)
            if node.op == "size":
                return np.full((1, 1), float(self.spec.extent(node.value)))
            return leaf(node)

        with np.errstate(over="ignore", under="ignore", divide="ignore"):
            return ex.evaluate(expr, leaves, ops)

    def _token(self, token: Token, before: list[Record]) -> tuple[F64, Record]:
        program = self.spec.program
        scalars: dict[str, F64] = {}

        def leaf(node: Expr) -> F64:
            return scalars[node.value] if node.op == "scalar" else self._input(token, node)

        for d in program.definitions:
            value = self._evaluate(d.expr, leaf)
            scalars[d.name] = value.sum(-1, keepdims=True) if d.reduce else value
        reads = [self._read(self._evaluate(x, leaf), self.records + before) for x in program.reads]
        lefts: list[F64] = []

        def full(node: Expr) -> F64:
            return reads[node.value] if node.op == "read" else lefts[node.value] if node.op == "left" else leaf(node)

        for left in program.lefts:
            lefts.append(np.broadcast_to(self._evaluate(left, full), (self.HV, self.spec.V)))
        output = np.broadcast_to(self._evaluate(program.output, full), (self.HV, self.spec.V))
        return output, {f.name: self._evaluate(f.expr, full) for f in self.spec.record_layout.fields}

    def _field(self, record: Record, expr: Expr) -> F64:
        return self._evaluate(expr, lambda n: record[n.value] if n.op == "field" else self._input({}, n))

    def _suffixes(self, records: list[Record]) -> list[tuple[F64, F64]]:
        """(log-weight over K or 1, over V or 1) of the checkpoint and of every record: sums from the newest
        backwards."""
        layout = self.spec.record_layout
        over_k, over_v = np.zeros((self.HV, 1)), np.zeros((self.HV, 1))
        weights = [(over_k, over_v)]
        for record in reversed(records):
            for log in (layout.log_decay_scalar, layout.log_decay_key):
                over_k = over_k if log is None else over_k + self._field(record, log)
            over_v = over_v if layout.log_decay_value is None else over_v + self._field(record, layout.log_decay_value)
            weights.append((over_k, over_v))
        return weights[::-1]

    def _read(self, x: F64, records: list[Record]) -> F64:
        """S' @ x without forming S'."""
        (k0, v0), *weights = self._suffixes(records)
        result = np.zeros((self.HV, self.spec.V))
        if self.state is not None:
            result = result + np.exp(v0) * np.einsum("hvk,hk->hv", self.state, np.exp(k0) * x)
        layout = self.spec.record_layout
        for record, (over_k, over_v) in zip(records, weights, strict=True):
            for left, right in zip(layout.lefts, layout.rights, strict=True):
                score = (np.exp(over_k) * self._field(record, right.expr) * x).sum(-1, keepdims=True)
                result = result + np.exp(over_v) * score * self._field(record, left)
        return result

    def folded(self, records: list[Record]) -> F64:
        """S' itself, [HV, V, K]: the sum of the records first, then the decayed checkpoint."""
        (k0, v0), *weights = self._suffixes(records)
        layout = self.spec.record_layout
        total = np.zeros((self.HV, self.spec.V, self.spec.K))
        for record, (over_k, over_v) in zip(records, weights, strict=True):
            for left, right in zip(layout.lefts, layout.rights, strict=True):
                total += (np.exp(over_v) * self._field(record, left))[:, :, None] * (
                    np.exp(over_k) * self._field(record, right.expr)
                )[:, None, :]
        if self.state is not None:
            total += np.exp(v0)[:, :, None] * np.exp(k0)[:, None, :] * self.state
        return total


class StoredRow(Row):
    """A row whose state is kept in ``spec.state``: rounded, and scaled where it is 8-bit (``ir.storage``); at random
    where the spec says so, by ``seed`` and the number of ``writes`` before."""

    seed = 0
    writes = 0

    def stored(self, state: F64) -> F64:
        self.writes += 1
        return storage.stored(state, self.spec.state, self.offsets(self.writes - 1))

    def offsets(self, writes: int) -> F64 | None:
        spec = self.spec
        if not spec.stochastic:
            return None
        return philox.offsets(spec.state, spec.layout, (self.HV, spec.V, spec.K), self.seed, writes)
