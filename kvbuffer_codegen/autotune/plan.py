"""What a tuning run would do, and how long that takes: nothing is built and nothing measured."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from kvbuffer_codegen.autotune.candidates import candidates
from kvbuffer_codegen.autotune.devices import Traits
from kvbuffer_codegen.autotune.install import bucket
from kvbuffer_codegen.autotune.search import FINAL_PHASES, FINAL_ROUNDS, RUNGS, Point, Rung
from kvbuffer_codegen.autotune.workload import pass_bytes
from kvbuffer_codegen.ir.forms import KernelSpec
from kvbuffer_codegen.schedules.targets import Target

#: Seconds of a build, and of a check or a timing beside the passes that it makes; the share of a plain read that an
#: average candidate reaches.
BUILD_S, JOB_S, SHARE = {"cpu": 1.5, "cuda": 4.0}, 0.1, 0.4


@dataclass(frozen=True)
class SearchPlan:
    """One kernel. ``binaries``: candidates to build, each once for all sizes; ``pruned``: schedules that the cost model
    rules out; ``timings``: jobs that time one, at all sizes; ``buckets``: what its choices are keyed by, the least
    value-head rows of each; ``device_s``: predicted seconds of the device.
    """

    spec: KernelSpec
    binaries: int
    pruned: int
    timings: int
    buckets: tuple[int, ...]
    device_s: float


@dataclass(frozen=True)
class Plan:
    target: Target
    points: tuple[Point, ...]
    searches: tuple[SearchPlan, ...]

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


def plan(
    specs: Sequence[KernelSpec], points: Sequence[Point], target: Target, device: Traits, limit: int | None
) -> Plan:
    """What :func:`~kvbuffer_codegen.autotune.tune.tune` would do with these on ``device``."""
    return Plan(target, tuple(points), tuple(_search(spec, points, target, device, limit) for spec in specs))


def _search(spec: KernelSpec, points: Sequence[Point], target: Target, device: Traits, limit: int | None) -> SearchPlan:
    found = candidates(spec, target, max(p.heads(spec) for p in points), device.units, limit)
    count = binaries = len(found.schedules)
    timings, moved = 0, 0.0
    for rung in (*RUNGS, Rung(FINAL_PHASES, FINAL_ROUNDS, 1, 0, 1)):
        timings += count * len(points)
        for point in points:
            moved += count * (rung.repeats + 1) * pass_bytes(spec, point.rows, point.H, rung.phases, device.cache)
        count = min(count, max(rung.least, round(rung.keep * count)) + 1)
    buckets = tuple(sorted({bucket(p.heads(spec))[0] for p in points}))
    seconds = (binaries + timings) * JOB_S + moved / (SHARE * device.read)
    return SearchPlan(spec, binaries, len(found.pruned), timings, buckets, seconds)
