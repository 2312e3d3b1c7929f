"""What a tuning run would do, and how long that takes: nothing is built and nothing measured."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from kvbuffer_codegen.autotune.candidates import candidates
from kvbuffer_codegen.autotune.devices import Traits
from kvbuffer_codegen.autotune.install import bucket
from kvbuffer_codegen.autotune.requests import Request
from kvbuffer_codegen.autotune.search import FINAL_PHASES, FINAL_ROUNDS, RUNGS, Rung
from kvbuffer_codegen.autotune.workload import pass_bytes
from kvbuffer_codegen.schedules.targets import Target

#: Seconds of a build, of the oracle for one kernel, and of a check or a timing beside the passes that it makes; the
#: share of a plain read that an average candidate reaches. An H200's processes and two cores' nvcc, rounded up.
BUILD_S, ORACLE_S, JOB_S, SHARE = {"cpu": 1.5, "cuda": 6.0}, 1.0, {"cpu": 0.1, "cuda": 0.06}, 0.4


@dataclass(frozen=True)
class SearchPlan:
    """One kernel. ``binaries``: candidates to build, each once for all sizes; ``pruned``: schedules that the cost model
    rules out; ``timings``: jobs that time one, at all sizes; ``buckets``: what its choices are keyed by, the least
    value-head rows of each; ``device_s``: predicted seconds of the device.
    """

    request: Request
    binaries: int
    pruned: int
    timings: int
    buckets: tuple[int, ...]
    device_s: float


@dataclass(frozen=True)
class Plan:
    target: Target
    searches: tuple[SearchPlan, ...]

    @property
    def sizes(self) -> int:
        return sum(len(s.request.points) for s in self.searches)

    @property
    def binaries(self) -> int:
        return sum(s.binaries for s in self.searches)

    @property
    def shared(self) -> int:
        """Binaries that would be built besides if every bucket had its own."""
        return sum(s.binaries * (len(s.buckets) - 1) for s in self.searches)

    @property
    def timings(self) -> int:
        return sum(s.timings for s in self.searches)

    @property
    def device_s(self) -> float:
        return sum(s.device_s for s in self.searches)

    def building_s(self, workers: int | None) -> float:
        """Seconds of building in so many processes (default: one a core)."""
        return self.binaries * BUILD_S[self.target.kind] / (workers or len(os.sched_getaffinity(0)))


def plan(requests: Sequence[Request], target: Target, device: Traits) -> Plan:
    """What :func:`~kvbuffer_codegen.autotune.tune.tune_all` would do with these on ``device``."""
    return Plan(target, tuple(_search(request, target, device) for request in requests))


def _search(request: Request, target: Target, device: Traits) -> SearchPlan:
    spec, points = request.spec, request.points
    found = candidates(spec, target, request.rows, device.units, request.limit)
    count = binaries = len(found.schedules)
    timings, moved = 0, 0.0
    for number, rung in enumerate((*RUNGS, Rung(FINAL_PHASES, 1, 1, 0, 1))):
        rounds = FINAL_ROUNDS[target.kind] if number == len(RUNGS) else 1
        timings += count * len(points) * rounds
        for point in points:
            once = pass_bytes(spec, point.rows, point.H, rung.phases, device.cache)
            moved += count * rounds * (rung.repeats + 1) * once
        count = min(count, max(rung.least, round(rung.keep * count)) + 1)
    buckets = tuple(sorted({bucket(rows)[0] for rows in request.rows}))
    seconds = ORACLE_S + (binaries + timings) * JOB_S[target.kind] + moved / (SHARE * device.read)
    return SearchPlan(request, binaries, len(found.pruned), timings, buckets, seconds)
