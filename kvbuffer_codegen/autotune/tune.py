"""``tune``: the fastest kernels of a recurrence for this machine, as artifacts and choices, with a log of how they
were found.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from kvbuffer_codegen import caches
from kvbuffer_codegen.artifact import now
from kvbuffer_codegen.autotune.bundle import Bundle
from kvbuffer_codegen.autotune.candidates import Candidates, candidates, specs_of
from kvbuffer_codegen.autotune.farm import BUILD_LIMIT_S, Farm
from kvbuffer_codegen.autotune.install import install
from kvbuffer_codegen.autotune.lanes import Lanes
from kvbuffer_codegen.autotune.logs import Log
from kvbuffer_codegen.autotune.measure import CHECK_LIMIT_S, TIME_LIMIT_S, Bench, Machine
from kvbuffer_codegen.autotune.requests import Request, points_of
from kvbuffer_codegen.autotune.search import Builder, Found, Search, SearchError, Tools
from kvbuffer_codegen.autotune.worker import HOOKS
from kvbuffer_codegen.ir.forms import USUAL
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
    ray: str | None = None,
    hooks: str = HOOKS,
    progress: Progress | None = None,
) -> Report:
    """Tune kernels on this machine, or on those of a Ray cluster, and write the winners.

    ``recurrence``: a recurrence, a shipped name, or ``path.py:function``. ``heads``: (H, HV), or several of one ratio
    (shards): sizes at which the same kernels are timed, as are ``batches``. ``budget_s``: seconds for all searches
    (default: 60 for each). ``candidate_limit``: at most so many candidates a search. ``out``: folder of artifacts and
    index (default: the user's cache), ``logs``: folder of the tuning logs (default: beside it). ``fresh``: measure
    again what the logs have. ``ray``: address of a Ray cluster ("" starts one on this machine); None: local processes.
    ``progress(done, total, text)`` is called often.

    Raises ``ValueError`` for what is out of range, ``OSError`` where a folder cannot be written (before any work),
    :class:`~kvbuffer_codegen.compiler.toolchain.MissingCompiler`, and
    :class:`~kvbuffer_codegen.autotune.worker.WorkerError` where this machine, not a candidate, is at fault.
    """
    source = recurrence if isinstance(recurrence, str) else ""
    loaded = load_recurrence(recurrence) if isinstance(recurrence, str) else recurrence
    pairs = [heads] if isinstance(heads[0], int) else list(heads)
    points = tuple(points_of(pairs, batches))  # type: ignore[arg-type]
    options: dict[str, Any] = {"dims": dims, "io": io, "state": state, "buffers": buffers, "windows": windows}
    options |= {"layout": layout, "records": records, "rounding": rounding}
    specs = specs_of(loaded, forms, heads=pairs[0], kv_only=kv_only, **options)  # type: ignore[arg-type]
    return tune_all(
        [Request(spec, points, candidate_limit, source) for spec in specs],
        target=target,
        budget_s=budget_s,
        out=out,
        logs=logs,
        fresh=fresh,
        workers=workers,
        limits=limits,
        ray=ray,
        hooks=hooks,
        progress=progress,
    )


def tune_all(
    requests: Sequence[Request],
    *,
    target: str = "cpu",
    budget_s: float | None = None,
    out: Path | None = None,
    logs: Path | None = None,
    fresh: bool = False,
    workers: int | None = None,
    limits: Limits | None = None,
    ray: str | None = None,
    hooks: str = HOOKS,
    progress: Progress | None = None,
) -> Report:
    """The same for kernels that need not be of one recurrence or shape."""
    from kvbuffer_codegen.compiler.toolchain import find_compiler

    chosen_target = target_named(target)
    find_compiler(chosen_target)
    run = Run(chosen_target, requests, out, logs, budget_s, fresh, progress)
    times = limits or Limits()

    def tried(machine: Machine) -> Callable[[Request], Candidates]:
        return lambda one: candidates(one.spec, chosen_target, one.rows, machine.units, one.limit)

    if ray is not None:
        from kvbuffer_codegen.autotune.ray_executor import tune_on_ray

        return tune_on_ray(run, tried, ray, hooks, times)
    with (
        scratch() as work,
        Farm(workers, hooks, times.build, {"TMPDIR": str(work)}) as farm,
        Bench(chosen_target.kind, hooks, (times.check, times.time), {"TMPDIR": str(work)}) as bench,
    ):
        machine = bench.machine()
        farm.start()
        return run.searches([run.tools(machine, farm, bench, work, tried(machine))])


def measure(
    folder: Path,
    *,
    source: str = "",
    budget_s: float | None = None,
    out: Path | None = None,
    logs: Path | None = None,
    fresh: bool = False,
    limits: Limits | None = None,
    hooks: str = HOOKS,
    progress: Progress | None = None,
) -> Report:
    """Check and time, on this machine, what a bundle holds (:mod:`~kvbuffer_codegen.autotune.bundle`), and write the
    winners; no compiler is needed. ``source``: ``path.py:function`` of a recurrence that does not ship, whose function
    is then the oracle, and not its normal form. The rest as in :func:`tune`.

    Raises :class:`~kvbuffer_codegen.autotune.bundle.BundleError` for a bundle that cannot be measured here.
    """
    bundle = Bundle.read(folder)
    requests = [replace(request, source=source) for request in bundle.requests]
    run = Run(bundle.target, requests, out, logs, budget_s, fresh, progress)
    times = limits or Limits()
    with (
        scratch() as work,
        Bench(bundle.target.kind, hooks, (times.check, times.time), {"TMPDIR": str(work)}) as bench,
    ):
        machine = bench.machine()
        bundle.check_machine(machine)
        return run.searches([run.tools(machine, bundle, bench, bundle.kernels, bundle.tried)])


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A temporary folder: what a child that is killed leaves behind goes with the rest."""
    work = Path(tempfile.mkdtemp(prefix="kvb-tune-"))
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


@dataclass
class Run:
    """What is searched for, and where the results go; raises ``OSError`` where nothing can be written there."""

    target: Target
    requests: Sequence[Request]
    out: Path | None
    logs: Path | None
    budget_s: float | None
    fresh: bool
    progress: Progress | None

    def __post_init__(self) -> None:
        self.begin, self.date, self.installing = time.monotonic(), now(), threading.Lock()
        self.kernels = self.out or caches.cache_folder("kernels")
        self.log_folder = self.logs or caches.cache_folder("tuning_logs")
        for folder in (self.kernels, self.log_folder):
            writable(folder)

    def tools(
        self,
        machine: Machine,
        builder: Builder,
        bench: Bench,
        work: Path,
        tried: Callable[[Request], Candidates],
    ) -> Tools:
        """``work``: the folder of candidates."""
        log = Log(self.log_folder, machine.name)
        return Tools(self.target, machine, builder, bench, log, self.date, work, tried, self.fresh, lambda *_: None)

    def searches(self, benches: Sequence[Tools]) -> Report:
        """Every search, by the first that is free of ``benches``, which are of one kind of machine."""
        machine, log = benches[0].machine, benches[0].log
        names = sorted({log.path(r.spec.form).name for r in self.requests})
        report = Report(self.target.name, machine.name, machine.read, names)
        count, work = len(self.requests), [request.work for request in self.requests]
        budget = self.budget_s or DEFAULT_S * count
        meter = Meter(self.progress, count)
        started = itertools.count()

        def search(request: Request, tools: Tools) -> list[Found] | SearchError:
            number = next(started)
            left = max(0.0, budget - (time.monotonic() - self.begin)) * len(benches)
            try:
                one = Search(request, tools)
                meter.open(number, request, len(one.tried.schedules))
                return one.go(min(left * work[number] / sum(work[number:]), left / len(benches)))
            except SearchError as error:
                return error

        for tools in benches:
            tools.step = meter.step
        if len(benches) == 1:
            answers: Iterable[Any] = ((request, search(request, benches[0])) for request in self.requests)
        else:
            lanes = [functools.partial(search, tools=tools) for tools in benches]
            answers = Lanes(lanes, [tools.bench.worker for tools in benches]).run(self.requests)
        for _, answer in answers:
            if isinstance(answer, SearchError):
                report.failures.append(str(answer))
                continue
            by_size = sorted(answer, key=lambda f: (f.point.rows * f.point.H, f.point.rows))
            artifacts = {f.point: self._install(f) for f in by_size}  # of two in one bucket the larger stays
            report.outcomes += [outcome(f, machine, artifacts[f.point]) for f in answer]
        meter.close()
        report.seconds = time.monotonic() - self.begin
        return report

    def _install(self, found: Found) -> str:
        with self.installing:
            return install(found.spec, found.trial, found.folder, self.target, self.kernels)


class Meter:
    """Turns the steps of searches into one number that reaches its end once."""

    def __init__(self, progress: Progress | None, searches: int):
        self.progress, self.searches = progress, searches
        self.number = self.done = self.told = 0.0
        self.size = 1.0

    def open(self, number: int, request: Request, candidates: int) -> None:
        points = len(request.points)
        self.number, self.done = float(number), 0.0
        self.size = candidates * (2 + 1.5 * points) + 4 * points
        self.step(f"{request.spec.form}: starting", 0)

    def step(self, text: str, work: float) -> None:
        self.done = min(self.done + work, self.size)
        self.told = max(self.told, self.number + self.done / self.size)  # never back, where several searches go on
        if self.progress is not None:
            self.progress(self.told, self.searches, text)

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
        "recurrence": spec.recurrence and spec.recurrence.name,
        "state": spec.state,
        "records": spec.records,
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
            what = (o["recurrence"], o["state"], o["records"])
            rows.setdefault((o["rows"], *o["heads"], o["buffer"], *what), {})[o["form"]] = o["us"]
    both = [(size, us) for size, us in rows.items() if len(us) == 2]
    return [
        {"rows": s[0], "heads": list(s[1:3]), "buffer": s[3], "recurrence": s[4], "state": s[5], **us}
        | {"faster": min(us, key=lambda f: us[f])}
        for s, us in both
    ]
