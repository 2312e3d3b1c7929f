"""Bytes, flops and the best buffer length: the roofline model that tuner, bench and ``explain`` share.

All counts are per row (one request) and layer unless a function says otherwise; every unique byte counts once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from .forms import DTYPES, FORMS, STATES, KernelSpec, ring_rows


@dataclass(frozen=True)
class Cost:
    """What one launch must move and compute for one row. Seconds = max(bytes / bandwidth, flops / rate)."""

    read: float
    written: float
    flops: float

    @property
    def bytes(self) -> float:
        return self.read + self.written


def state_bytes(spec: KernelSpec, HV: int) -> int:
    """One row's state in one layer, scales included."""
    scales = 4 * (spec.K + spec.V) if spec.scaled else 0
    return HV * (spec.K * spec.V * STATES[spec.state] + scales)


def record_bytes(spec: KernelSpec, HV: int) -> float:
    """One record of one row in one layer."""
    return HV * spec.record_layout.bytes(spec.K, spec.V, spec.ratio, spec.io)


def io_bytes(spec: KernelSpec, HV: int) -> float:
    """Inputs and output of a row's tokens (parameters, shared by all rows, are left out)."""
    assert spec.recurrence is not None
    per_head = sum(
        (a.count or 1) * spec.extent(a.axis) / (spec.ratio if a.heads == "key" else 1)
        for a in spec.recurrence.arguments
        if not a.parameter
    )
    return HV * (per_head + spec.V) * DTYPES[spec.io] * spec.tokens


def row_cost(spec: KernelSpec, HV: int, records: float, folds: bool, tokens: int | None = None) -> Cost:
    """One row that holds ``records`` records when it is called, with or without a fold; ``tokens`` defaults to the
    form's most."""
    form = FORMS[spec.form]
    t = spec.tokens if tokens is None else tokens
    state, record = state_bytes(spec, HV), record_bytes(spec, HV)
    io = io_bytes(spec, HV) * (t / spec.tokens if spec.tokens else 0)
    writes_state = form.writes_state or folds
    reads, ranks = len(spec.program.reads) * t, len(spec.program.lefts)
    tile = HV * spec.K * spec.V
    flops = 2 * tile * (reads + (ranks * (records + form.writes_state) if writes_state else 0))
    flops += 2 * HV * (0 if folds else records + (t - 1) / 2) * ranks * (reads * (spec.K + spec.V))
    return Cost(
        state + records * record + io, (state if writes_state else 0) + (t * record if form.appends else 0), flops
    )


def cycle_cost(spec: KernelSpec, HV: int, accepted: float = 1.0) -> Cost:
    """The mean over a whole buffer cycle of decode (one record a call) or verify (``accepted`` of them), folds
    included."""
    advance = accepted if spec.form == "verify" else 1.0
    span = spec.tokens if spec.form == "verify" else 1
    if spec.form == "step":
        return row_cost(spec, HV, 0, False)
    occupancies, n = [], 0.0
    while n + span <= spec.buffer:
        occupancies.append((n, False))
        n += advance
    if n > 0:
        occupancies = [(m, False) for m, _ in occupancies[1:]] + [(n, True)]  # the folding call starts the next cycle
    costs = [row_cost(spec, HV, m, fold) for m, fold in occupancies or [(0.0, False)]]
    return Cost(*(sum(getattr(c, part) for c in costs) / len(costs) for part in ("read", "written", "flops")))


def best_buffer(spec: KernelSpec, HV: int, accepted: float = 1.0, longest: int = 64) -> int:
    """The buffer length L with the fewest bytes a call over a cycle."""
    least = max(1, spec.window)
    return min(range(least, longest + 1), key=lambda L: cycle_cost(replace(spec, buffer=L), HV, accepted).bytes)


def request_bytes(spec: KernelSpec, HV: int, layers: int, max_window: int) -> dict[str, float]:
    """Memory of one request over all layers: state, ring, cursors, and what per-draft state snapshots would take
    instead of the ring."""
    state = layers * state_bytes(spec, HV)
    ring = layers * record_bytes(spec, HV) * ring_rows(spec.buffer, spec.kv_only, max_window)
    return {"state": state, "ring": ring, "cursors": 20, "snapshots": state * max_window}
