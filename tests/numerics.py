"""How far states drift from the truth over thousands of tokens: the inputs, the float64 truth and the measurement.

Inputs are made a chunk at a time from seeds, the truth is ``ir.oracle``, and what is measured are the kernels that a
:class:`~kvbuffer_codegen.runtime.Pool` runs, on any device. ``docs/numerics.md`` is written from this by
``benchmarks/numerics.py``; ``tests/test_numerics.py`` holds the bars.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import itertools
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from kvbuffer_codegen.ir import oracle
from kvbuffer_codegen.ir.forms import KernelSpec
from kvbuffer_codegen.ir.recurrences import RECURRENCES
from kvbuffer_codegen.runtime import Pool
from kvbuffer_codegen.runtime.dispatcher import FallbackWarning

F64 = npt.NDArray[np.float64]
ROOT = Path(__file__).resolve().parent.parent
WINDOW = 16  #: tokens of a window: the buffer's length, and one strong gate in each
CHUNK = 256  #: tokens whose inputs are made at once
RATIO = 2  #: value heads of a key head
#: The raw gate is normal with this mean and deviation 1: the mean of its softplus is 1.
RAW_MEAN = 0.42

#: random: independent normal keys. outlier: two key channels times 30. correlated: one key a head plus 10 % noise.
INPUTS = ("random", "outlier", "correlated")


@dataclass(frozen=True)
class Decay:
    """``mean``: the decay of a token at the mean gate, e^-A. ``strong``: the log-decay of one token in every window."""

    mean: float
    strong: float = 0.0

    @property
    def name(self) -> str:
        return f"{self.mean:g}" + (f" & {self.strong:g}" if self.strong else "")

    @property
    def A(self) -> float:
        return -math.log(self.mean)

    @property
    def counts_as(self) -> float:
        """The decay whose bars hold: with a strong gate in every window, a state remembers one or two of them."""
        return 0.9 if self.strong else self.mean


DECAYS = (
    *(Decay(mean) for mean in (0.9, 0.99, 0.999, 1.0)),
    *(Decay(0.999, strong) for strong in (-20.0, -math.inf)),
)
#: The argument that the gate comes in as; ``written``: whether the gate's step also scales what is written.
GATES = {"gated_delta_rule": ("a", False), "mamba2": ("dt", True)}
#: What stands for -inf where the step scales what is written: e^-10000 is 0 in float32 and in float64.
DECAYS_TO_ZERO = -1e4


@dataclass(frozen=True)
class Study:
    """The requests that are decoded: one row for each (input, seed), one group of ``heads`` value heads for each decay.

    All decays see the same keys and values. ``tokens``: after how many of them states are compared.
    """

    recurrence: str
    tokens: tuple[int, ...] = (1, 256, 4096)
    K: int = 128
    V: int = 32
    heads: int = 8
    seeds: tuple[int, ...] = (0, 1, 2)
    io: str = "bfloat16"
    inputs: tuple[str, ...] = INPUTS
    decays: tuple[Decay, ...] = DECAYS

    @property
    def rows(self) -> list[tuple[str, int]]:
        return [(kind, seed) for kind in self.inputs for seed in self.seeds]

    @property
    def value_heads(self) -> int:
        return self.heads * len(self.decays)

    @property
    def parameters(self) -> dict[str, Tensor]:
        """float32 [HV]. A decay of exactly 1 has A_log = -200: e^-200 is 0 in float32, and nothing in float64."""
        A_log = [math.log(d.A) if d.A else -200.0 for d in self.decays for _ in range(self.heads)]
        known = {"A_log": torch.tensor(A_log), "dt_bias": torch.zeros(self.value_heads)}
        return known | ({"D": torch.ones(self.value_heads)} if self.recurrence == "mamba2" else {})

    def chunks(self) -> Iterator[dict[str, Tensor]]:
        """Inputs of the tokens, a chunk at a time: name -> [chunk, rows, heads, (axis)] in the io dtype."""
        for start in range(0, max(self.tokens), CHUNK):
            count = min(CHUNK, max(self.tokens) - start)
            rows = [self._row(kind, seed, start // CHUNK, count) for kind, seed in self.rows]
            made = {name: np.stack([row[name] for row in rows], axis=1) for name in rows[0]}
            yield {name: torch.from_numpy(x).to(getattr(torch, self.io)) for name, x in made.items()}

    def _row(self, kind: str, seed: int, chunk: int, count: int) -> dict[str, Any]:
        """One request's tokens, float32 [count, heads, (axis)]."""
        key_heads, draw = self.heads // RATIO, np.random.default_rng([seed, chunk]).standard_normal
        whole = np.random.default_rng([seed]).standard_normal
        k = draw((count, key_heads, self.K))
        if kind == "outlier":
            k[:, :, :2] *= 30
        if kind == "correlated":
            k = whole((key_heads, self.K)) + 0.1 * k
        gate, written = GATES[self.recurrence]
        v = draw((count, self.heads, self.V))
        raw = draw((count, self.heads)) + RAW_MEAN
        gates, values = [], []
        at = np.random.default_rng([seed, chunk, 1]).integers(0, WINDOW, (-(-count // WINDOW), self.heads))
        strong = (np.arange(WINDOW)[None, :, None] == at[:, None]).reshape(-1, self.heads)[:count]
        for decay in self.decays:
            log = max(decay.strong, DECAYS_TO_ZERO) if written else decay.strong
            step = -log / decay.A if log else 1.0
            gates.append(np.where(strong, step, raw) if log else raw)
            values.append(np.where(strong[:, :, None], v / step, v) if log and written else v)
        tokens = {
            "q": draw((count, key_heads, self.K)),
            "k": k * self.K**-0.5,
            "v": np.concatenate(values, axis=1),
            gate: np.concatenate(gates, axis=1),
            "b": np.tile(draw((count, self.heads)), len(self.decays)),
        }
        tokens |= {name: np.tile(tokens[name], (1, len(self.decays), 1)) for name in ("q", "k")}
        known = {a.name for a in RECURRENCES[self.recurrence].arguments}
        return {name: x.astype(np.float32) for name, x in tokens.items() if name in known}

    @functools.cached_property
    def truth(self) -> dict[int, F64]:
        """Token count -> states [rows, HV, V, K] after so many tokens; kept in ``.cache/numerics``."""
        file = ROOT / ".cache" / "numerics" / f"truth-{digest(self)}.npz"
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            part = file.with_suffix(".part.npz")
            np.savez(part, **{str(t): x for t, x in self._truth().items()})
            part.rename(file)
        with np.load(file) as kept:
            return {t: kept[str(t)] for t in self.tokens}

    def _truth(self) -> dict[int, F64]:
        """Heads of one (row, decay) at a time: their states stay in the cache."""
        states = np.zeros((len(self.rows), len(self.decays), self.heads, self.V, self.K))
        made, done = {}, 0
        for chunk in self.chunks():
            count = len(chunk["k"])
            wanted = [t for t in self.tokens if done < t <= done + count]
            made |= {t: np.empty_like(states) for t in wanted}
            for row, group in np.ndindex(*states.shape[:2]):
                given = self._group({n: x[:, row].double().numpy() for n, x in chunk.items()}, group)
                run = oracle.tokens(RECURRENCES[self.recurrence], given, states[row, group])
                for t, (_, state) in enumerate(run, done + 1):
                    if t in wanted:
                        made[t][row, group] = state
                states[row, group] = state
            done += count
        return {t: x.reshape(len(self.rows), self.value_heads, self.V, self.K) for t, x in made.items()}

    def _group(self, given: dict[str, Any], group: int) -> dict[str, Any]:
        """The inputs and parameters of the heads of one decay."""

        def heads(x: Any, axis: int) -> Any:
            size = x.shape[axis] // len(self.decays)
            return np.take(x, range(group * size, (group + 1) * size), axis)

        parameters = {n: heads(x.double().numpy(), 0) for n, x in self.parameters.items()}
        return {n: heads(x, 1) for n, x in given.items()} | parameters


def digest(*what: Any) -> str:
    """Names what was computed from ``what`` and from the code that makes inputs and truth."""
    code = [inspect.getsource(x) for x in (Study, Decay, oracle)]
    return hashlib.sha256(repr((code, WINDOW, CHUNK, RATIO, RAW_MEAN, what)).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Setting:
    """What is measured: ``form`` "step" (recurrent) or "decode" (buffered, L = WINDOW), how states and records are
    stored, and how a state is rounded."""

    form: str
    state: str = "float32"
    records: str = "exact"
    rounding: str = "nearest"

    def pool(self, study: Study, device: str) -> Pool:
        HV = study.value_heads
        return Pool(
            study.recurrence,
            layers=1,
            slots=2 * len(study.rows),
            heads=(HV // RATIO, HV),
            dims=(study.K, study.V),
            io=study.io,
            state=self.state,
            records=self.records,
            rounding=self.rounding,
            buffer=WINDOW,
            max_window=1,
            form=self.form,
            device=device,
        )

    def specs(self, study: Study) -> list[KernelSpec]:
        """The kernels that :func:`drift` runs."""
        pool = self.pool(study, "cpu")
        return [pool._lookup.spec(form) for form in (self.form, "flush", "advance")]


def drift(study: Study, setting: Setting, device: str = "cpu") -> dict[int, F64]:
    """Token count -> relative Frobenius error of every head's state [inputs, seeds, decays, heads].

    The state is what kernels leave in memory: a copy of each row is flushed first, so that the rounding of a stored
    state is in it in full, however long ago the last fold was. A missing kernel is an error.
    """
    rows = len(study.rows)
    slots, copies = torch.arange(2 * rows, dtype=torch.int32, device=device).reshape(2, rows)
    parameters = {name: x.to(device) for name, x in study.parameters.items()}
    errors: dict[int, F64] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        pool, done = setting.pool(study, device), 0
        out = torch.empty(rows, study.value_heads, study.V, dtype=pool.io, device=device)
        for chunk in study.chunks():
            tokens = {name: x.to(device) for name, x in chunk.items()}
            for t in range(len(tokens["k"])):
                pool.decode(0, slots, out=out, **{name: x[t] for name, x in tokens.items()}, **parameters)
                pool.advance(slots)
                done += 1
                if done in study.tokens:
                    pool.fork(slots, copies)
                    pool.flush(copies)
                    states = torch.stack([pool.materialize(slot)[0] for slot in copies.tolist()])
                    errors[done] = relative(states.double().cpu().numpy(), study.truth[done], study)
    return errors


def relative(states: F64, truth: F64, study: Study) -> F64:
    norms = np.sqrt(np.square(states - truth).sum((-2, -1)) / np.square(truth).sum((-2, -1)))
    return norms.reshape(len(study.inputs), len(study.seeds), len(study.decays), study.heads)


def typical(errors: F64) -> F64:
    """[inputs, decays]: the worst head, and of that the median over seeds; NaN where anything is NaN."""
    return np.median(errors.max(-1), axis=1)


# --- bars


@dataclass(frozen=True)
class Bar:
    """A buffered state may drift ``factor`` times as far as the recurrent kernel's whose state is ``against``, where
    the decay counts as ``least`` or more. Of several that apply the first holds."""

    state: str
    against: str
    least: float
    factor: float
    reason: str
    recurrences: tuple[str, ...] = tuple(GATES)


ONCE_A_WINDOW = "a fold rounds once in 16 tokens: a quarter of the error, as roundings add up like a random walk"
BARS = (
    Bar("float32", "float32", 0.0, 1.0, "records hold inputs, weights are sums of log-decays", ("mamba2",)),
    Bar("float32", "float32", 0.999, 1.0, ONCE_A_WINDOW),
    Bar("float32", "float32", 0.0, 2.0, "a short memory: reads of 16 records, each rounded, feed the next left vector"),
    Bar("float16", "float16", 0.99, 0.4, ONCE_A_WINDOW),
    Bar("float16", "float16", 0.0, 0.7, "a memory of about ten tokens has few roundings to save"),
    Bar("int8", "bfloat16", 0.99, 1.5, "half a step of 1/127 of a row's and channel's largest, once in 16 tokens"),
    Bar("int8", "bfloat16", 0.0, 2.5, "the same, against the fewer roundings of a short memory"),
)
#: No buffered float32 state may be further from the truth than this: the inputs are exact, what remains is arithmetic.
LARGEST_FLOAT32_DRIFT = 1e-6


def bar(state: str, recurrence: str, decay: Decay) -> Bar:
    return next(b for b in BARS if b.state == state and recurrence in b.recurrences and decay.counts_as >= b.least)


def failures(
    study: Study, state: str, device: str = "cpu", report: Callable[[str], None] = lambda line: None
) -> list[str]:
    """A line for every bar of a buffered ``state`` that is missed after the last of the study's token counts.
    ``report`` is called with a line for each, missed or not."""
    last = max(study.tokens)
    against = next(b.against for b in BARS if b.state == state)
    got = typical(drift(study, Setting("decode", state), device)[last])
    base = typical(drift(study, Setting("step", against), device)[last])
    missed = []
    for (i, kind), (j, decay) in itertools.product(enumerate(study.inputs), enumerate(study.decays)):
        held = bar(state, study.recurrence, decay)
        limit = held.factor * base[i, j]
        if state == "float32":
            limit = min(limit, LARGEST_FLOAT32_DRIFT)
        line = (
            f"{study.recurrence}, {state}, {kind}, decay {decay.name}: {got[i, j]:.2e}, "
            f"{got[i, j] / base[i, j]:.2f} times the recurrent {against}'s; accepted: {held.factor}"
        )
        report(line)
        if not got[i, j] <= limit:
            missed.append(line)
    return missed
