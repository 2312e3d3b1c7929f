"""``tune``: the fastest kernels of a recurrence for this machine, as artifacts and choices, with a log of how they
were found.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from kvbuffer_codegen import caches
from kvbuffer_codegen.artifact import now
from kvbuffer_codegen.autotune.candidates import candidates, specs_of
from kvbuffer_codegen.autotune.farm import BUILD_LIMIT_S, Farm
from kvbuffer_codegen.autotune.install import install
from kvbuffer_codegen.autotune.logs import Log
from kvbuffer_codegen.autotune.measure import CHECK_LIMIT_S, TIME_LIMIT_S, Bench, Machine
from kvbuffer_codegen.autotune.search import (
    FINAL_PHASES,
    FINAL_ROUNDS,
    RUNGS,
    Found,
    Point,
    Rung,
    Search,
    SearchError,
    Tools,
)
from kvbuffer_codegen.autotune.worker import HOOKS
from kvbuffer_codegen.autotune.workload import pass_bytes, units
from kvbuffer_codegen.ir.forms import USUAL, KernelSpec
from kvbuffer_codegen.ir.language import Recurrence
from kvbuffer_codegen.recurrences import load_recurrence
from kvbuffer_codegen.schedules.targets import Target
from kvbuffer_codegen.schedules.targets import target as target_named

Progress = Callable[[float, float, str], None]  #: work done, work in all, what is being done

DEFAULT_S = 60.0  #: a search without a budget


@dataclass(frozen=True)
class Limits:
    """Seconds that one candidate may take, after which it is killed."""

    build: float = BUILD_LIMIT_S
    check: float = CHECK_LIMIT_S
    time: float = TIME_LIMIT_S


@dataclass(frozen=True)
class Plan:
    """What a tuning run would do. ``binaries``: candidates in all; ``timings``: jobs that time one; ``bytes``: moved
    by them.
    """

    specs: tuple[KernelSpec, ...]
    points: tuple[Point, ...]
    binaries: int
    timings: int
    bytes: float


@dataclass
class Report:
    """``outcomes``: one row per kernel and size, JSON as it stands; ``failures``: searches without a choice, with the
    reason.
    """

    target: str
    device: str
    read: float
    logs: list[str]
    outcomes: list[dict[str, Any]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def points_of(heads: Sequence[tuple[int, int]], batches: Sequence[int]) -> list[Point]:
    """Every size; heads of one ratio share their kernels. Raises ``ValueError`` where they have several."""
    if len({HV / H for H, HV in heads}) != 1 or heads[0][1] % heads[0][0]:
        raise ValueError(f"heads={list(heads)}: accepted: pairs (H, HV) with one whole ratio HV / H")
    return [Point(batch, H) for H, _ in heads for batch in batches]


def plan(
    specs: Sequence[KernelSpec], points: Sequence[Point], target: Target, device: torch.device, limit: int | None
) -> Plan:
    """What :func:`tune` would do with these on ``device``, nothing built and nothing measured."""
    binaries = timings = 0
    moved = 0.0
    for spec in specs:
        most = max(p.heads(spec) for p in points)
        count = len(candidates(spec, target, most, units(device), limit).schedules)
        binaries += count
        for rung in (*RUNGS, Rung(FINAL_PHASES, FINAL_ROUNDS, 1, 0, 1)):
            timings += count * len(points)
            for point in points:
                moved += count * (rung.repeats + 1) * pass_bytes(spec, point.rows, point.H, rung.phases, device)
            count = min(count, max(rung.least, round(rung.keep * count)) + 1)
    return Plan(tuple(specs), tuple(points), binaries, timings, moved)


def tune(
    recurrence: Recurrence | str,
    *,
    heads: tuple[int, int] | Sequence[tuple[int, int]],
    dims: tuple[int, int],
    io: str = "float32",
    state: str = "float32",
    buffers: Sequence[int] = (16,),
    windows: Sequence[int] = (4,),
    forms: Sequence[str] = USUAL,
    kv_only: int = 0,
    layout: str = "VK",
    records: str = "exact",
    rounding: str = "nearest",
    batches: Sequence[int] = (4,),
    target: str = "cpu",
    budget_s: float | None = None,
    candidate_limit: int | None = None,
    out: Path | None = None,
    logs: Path | None = None,
    fresh: bool = False,
    workers: int | None = None,
    limits: Limits | None = None,
    hooks: str = HOOKS,
    progress: Progress | None = None,
) -> Report:
    """Tune kernels on this machine and write the winners.

    ``recurrence``: a recurrence, a shipped name, or ``path.py:function``. ``heads``: (H, HV), or several of one ratio
    (shards): sizes at which the same kernels are timed, as are ``batches``. ``budget_s``: seconds for all searches
    (default: 60 for each). ``candidate_limit``: at most so many candidates a search. ``out``: folder of artifacts and
    index (default: the user's cache), ``logs``: folder of the tuning logs (default: beside it). ``fresh``: measure
    again what the logs have. ``progress(done, total, text)`` is called often.

    Raises ``ValueError`` for what is out of range, ``OSError`` where a folder cannot be written (before any work),
    :class:`~kvbuffer_codegen.compiler.toolchain.MissingCompiler`, and
    :class:`~kvbuffer_codegen.autotune.worker.WorkerError` where this machine, not a candidate, is at fault.
    """
    from kvbuffer_codegen.compiler.toolchain import find_compiler

    begin = time.monotonic()
    source = recurrence if isinstance(recurrence, str) else ""
    loaded = load_recurrence(recurrence) if isinstance(recurrence, str) else recurrence
    pairs = [heads] if isinstance(heads[0], int) else list(heads)
    points = points_of(pairs, batches)  # type: ignore[arg-type]
    options: dict[str, Any] = {"dims": dims, "io": io, "state": state, "buffers": buffers, "windows": windows}
    options |= {"layout": layout, "records": records, "rounding": rounding}
    specs = specs_of(loaded, forms, heads=pairs[0], kv_only=kv_only, **options)  # type: ignore[arg-type]
    chosen_target = target_named(target)
    find_compiler(chosen_target)
    out = out or caches.cache_folder("kernels")
    logs = logs or caches.cache_folder("tuning_logs")
    for folder in (out, logs):
        writable(folder)
    budget = budget_s or DEFAULT_S * len(specs)
    times = limits or Limits()
    work = Path(tempfile.mkdtemp(prefix="kvb-tune-"))
    scratch = {"TMPDIR": str(work)}  # what a child that is killed leaves behind goes with the rest
    device = "cuda" if chosen_target.kind == "cuda" else "cpu"
    try:
        with (
            Farm(workers, hooks, times.build, scratch) as farm,
            Bench(device, hooks, (times.check, times.time), scratch) as bench,
        ):
            machine = bench.machine()
            farm.start()
            log = Log(logs, machine.name)
            meter = Meter(progress, len(specs))
            tools = Tools(
                chosen_target, machine, farm, bench, log, now(), source, work, candidate_limit, fresh, meter.step
            )
            report = Report(target, machine.name, machine.read, sorted({log.path(s.form).name for s in specs}))
            for number, spec in enumerate(specs):
                left = budget - (time.monotonic() - begin)
                meter.open(number, spec, points, chosen_target, machine, candidate_limit)
                try:
                    found = Search(spec, points, tools).go(max(left, 0.0) / (len(specs) - number))
                except SearchError as error:
                    report.failures.append(str(error))
                    continue
                report.outcomes += [outcome(f, machine, install(f, machine, chosen_target, out)) for f in found]
            meter.close()
    finally:
        shutil.rmtree(work, ignore_errors=True)
    report.seconds = time.monotonic() - begin
    return report


class Meter:
    """Turns the steps of searches into one number that reaches its end once."""

    def __init__(self, progress: Progress | None, searches: int):
        self.progress, self.searches = progress, searches
        self.number = self.done = 0.0
        self.size = 1.0

    def open(
        self,
        number: int,
        spec: KernelSpec,
        points: Sequence[Point],
        target: Target,
        machine: Machine,
        limit: int | None,
    ) -> None:
        count = len(candidates(spec, target, max(p.heads(spec) for p in points), machine.units, limit).schedules)
        self.number, self.done = float(number), 0.0
        self.size = count * (2 + 1.5 * len(points)) + 4 * len(points)
        self.step(f"{spec.form}: starting", 0)

    def step(self, text: str, work: float) -> None:
        self.done = min(self.done + work, self.size)
        if self.progress is not None:
            self.progress(self.number + self.done / self.size, self.searches, text)

    def close(self) -> None:
        if self.progress is not None:
            self.progress(self.searches, self.searches, "done")


def writable(folder: Path) -> None:
    """Make ``folder``; raises ``OSError`` where nothing can be written there."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass


def outcome(found: Found, machine: Machine, artifact: str) -> dict[str, Any]:
    """A row of the report."""
    choice, spec = found.choice, found.spec
    best, median = choice.spread
    return {
        "name": spec.name,
        "form": spec.form,
        "buffer": spec.buffer,
        "window": spec.window,
        "rows": found.point.rows,
        "heads": [found.point.H, found.point.H * spec.ratio],
        "legal": found.legal,
        "candidates": sum(found.counts.values()),
        "statuses": found.counts,
        "schedule": choice.schedule,
        "default": choice.default,
        "us": choice.us,
        "default_us": choice.default_us,
        "ratio": choice.ratio,
        "noise": choice.noise,
        "best_us": best,
        "median_us": median,
        "gb_per_s": choice.bytes / choice.us / 1e3,
        "roofline": choice.bytes / choice.us * 1e6 / (choice.read or machine.read),
        "artifact": artifact,
    }


def fastest_forms(report: Report) -> list[dict[str, Any]]:
    """Per size and buffer length that both were tuned for: microseconds of a step and of a decode, and which is
    less.
    """
    rows: dict[tuple[Any, ...], dict[str, float]] = {}
    for o in report.outcomes:
        if o["form"] in ("step", "decode"):
            rows.setdefault((o["rows"], *o["heads"], o["buffer"]), {})[o["form"]] = o["us"]
    both = [(size, us) for size, us in rows.items() if len(us) == 2]
    return [
        {"rows": s[0], "heads": list(s[1:3]), "buffer": s[3], **us, "faster": min(us, key=lambda f: us[f])}
        for s, us in both
    ]
