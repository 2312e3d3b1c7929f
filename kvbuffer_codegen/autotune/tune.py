"""``tune``: the fastest kernels of a recurrence for this machine, as artifacts and choices, with a log of how they were found."""

from __future__ import annotations

import hashlib
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kvbuffer_codegen import caches
from kvbuffer_codegen.artifact import Artifact, ArtifactError, binary_name, read_artifact, write_artifact
from kvbuffer_codegen.autotune.candidates import candidates, schedule_digest
from kvbuffer_codegen.autotune.farm import BUILD_LIMIT_S, Farm
from kvbuffer_codegen.autotune.logs import Log, now
from kvbuffer_codegen.autotune.measure import CHECK_LIMIT_S, TIME_LIMIT_S, Bench, Machine
from kvbuffer_codegen.autotune.search import FINAL_ROUNDS, RUNGS, Found, Point, Search, SearchError, Tools
from kvbuffer_codegen.autotune.worker import HOOKS
from kvbuffer_codegen.index import Choice as IndexChoice
from kvbuffer_codegen.index import update_index
from kvbuffer_codegen.ir.forms import FORMS, KernelSpec, cursor_spec
from kvbuffer_codegen.ir.language import Recurrence
from kvbuffer_codegen.recurrences import load_recurrence
from kvbuffer_codegen.schedules import space
from kvbuffer_codegen.schedules.space import schedule_from_dict
from kvbuffer_codegen.schedules.targets import Target
from kvbuffer_codegen.schedules.targets import target as target_named

Progress = Callable[[float, float, str], None]  #: work done, work in all, what is being done

#: Value-head rows of a bucket: from one of these up to the next, the last without an end.
BUCKETS = (0, 16, 64, 256, 1024, 4096)
DEFAULT_S = 60.0  #: a search without a budget


@dataclass(frozen=True)
class Limits:
    """Seconds that one candidate may take, after which it is killed."""

    build: float = BUILD_LIMIT_S
    check: float = CHECK_LIMIT_S
    time: float = TIME_LIMIT_S


@dataclass(frozen=True)
class Plan:
    """What a tuning run would do. ``binaries``: candidates in all; ``timings``: passes over a workload."""

    specs: tuple[KernelSpec, ...]
    points: tuple[Point, ...]
    binaries: int
    timings: int


@dataclass
class Report:
    """``outcomes``: one row per kernel and size, JSON as it stands; ``failures``: searches without a choice, with the reason."""

    target: str
    device: str
    read: float
    logs: list[str]
    outcomes: list[dict[str, Any]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def specs_of(
    recurrence: Recurrence,
    forms: Sequence[str],
    *,
    heads: tuple[int, int],
    dims: tuple[int, int],
    io: str,
    state: str,
    buffers: Sequence[int],
    windows: Sequence[int],
    kv_only: int = 0,
    layout: str = "VK",
) -> list[KernelSpec]:
    """One kernel per form, buffer length and (for verify) window. Raises ``ValueError`` naming what is out of range."""
    found = []
    for form in forms:
        if form not in FORMS:
            raise ValueError(f"form={form!r}: accepted: {', '.join(FORMS)}")
        if FORMS[form].cursors_only:
            found.append(cursor_spec(form))
            continue
        for buffer in buffers:
            for window in windows if FORMS[form].window else (0,):
                ratio = heads[1] // heads[0]
                common: dict[str, Any] = {"layout": layout, "buffer": buffer, "window": window, "kv_only": kv_only}
                found.append(KernelSpec(form, recurrence.normal_form, *dims, ratio, io, state, **common))
    return list(dict.fromkeys(found))


def points_of(heads: Sequence[tuple[int, int]], batches: Sequence[int]) -> list[Point]:
    """Every size; heads of one ratio share their kernels. Raises ``ValueError`` where they have several."""
    if len({HV / H for H, HV in heads}) != 1 or heads[0][1] % heads[0][0]:
        raise ValueError(f"heads={list(heads)}: accepted: pairs (H, HV) with one whole ratio HV / H")
    return [Point(batch, H) for H, _ in heads for batch in batches]


def bucket(rows: int) -> tuple[int, int | None]:
    """The bucket of ``rows`` value-head rows, both ends included."""
    lo = max(b for b in BUCKETS if b <= rows)
    above = [b for b in BUCKETS if b > rows]
    return lo, above[0] - 1 if above else None


def plan(specs: Sequence[KernelSpec], points: Sequence[Point], target: Target, units: int, limit: int | None) -> Plan:
    """What :func:`tune` would do with these, nothing built and nothing measured."""
    binaries = timings = 0
    for spec in specs:
        count = len(candidates(spec, target, max(p.heads(spec) for p in points), units, limit).schedules)
        binaries += count
        for rung in RUNGS:
            timings += count * (rung.repeats + 1) * len(points)
            count = min(count, max(rung.least, round(rung.keep * count)) + 1)
        timings += 2 * count * FINAL_ROUNDS * len(points)
    return Plan(tuple(specs), tuple(points), binaries, timings)


def tune(
    recurrence: Recurrence | str,
    *,
    heads: tuple[int, int] | Sequence[tuple[int, int]],
    dims: tuple[int, int],
    io: str = "float32",
    state: str = "float32",
    buffers: Sequence[int] = (16,),
    windows: Sequence[int] = (4,),
    forms: Sequence[str] = tuple(FORMS),
    kv_only: int = 0,
    layout: str = "VK",
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

    ``recurrence``: a recurrence, a shipped name, or ``path.py:function``. ``heads``: (H, HV), or several of one ratio (shards):
    sizes at which the same kernels are timed, as are ``batches``. ``budget_s``: seconds for all searches (default: 60 for each).
    ``candidate_limit``: at most so many candidates a search. ``out``: folder of artifacts and index (default: the user's cache),
    ``logs``: folder of the tuning logs (default: beside it). ``fresh``: measure again what the logs have. ``progress(done, total,
    text)`` is called often.

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
    specs = specs_of(loaded, forms, heads=pairs[0], kv_only=kv_only, layout=layout, **options)  # type: ignore[arg-type]
    chosen_target = target_named(target)
    find_compiler(chosen_target)
    out = out or caches.cache_folder("kernels")
    logs = logs or caches.cache_folder("tuning_logs")
    for folder in (out, logs):
        writable(folder)
    budget = budget_s or DEFAULT_S * len(specs)
    times = limits or Limits()
    work = Path(tempfile.mkdtemp(prefix="kvb-tune-"))
    device = "cuda" if chosen_target.kind == "cuda" else "cpu"
    try:
        with Farm(workers, hooks, times.build) as farm, Bench(device, hooks, (times.check, times.time)) as bench:
            machine = bench.machine()
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
        "roofline": choice.bytes / choice.us * 1e6 / machine.read,
        "artifact": artifact,
    }


def install(found: Found, machine: Machine, target: Target, out: Path) -> str:
    """Put the winner into ``out`` with its evidence, and its choice into the index; returns its folder there."""
    spec, choice = found.spec, found.choice
    digest = schedule_digest(schedule_from_dict(choice.schedule))
    relative = f"{target.name}/{spec.name}-{digest}"
    built = read_artifact(found.folder)
    evidence = [
        *kept_evidence(out / relative, built, machine, found.point.heads(spec)),
        *new_evidence(found, built, machine),
    ]
    folder = write_artifact(out / relative, {**built.manifest, "evidence": evidence}, built.files)
    picked = IndexChoice(
        {**spec.key(), "space": space.space_hash()},
        bucket(found.point.heads(spec)),
        machine.capability,
        relative,
        machine.model,
        choice.default,
    )
    update_index(out, {relative: read_artifact(folder).digest}, [picked])
    return relative


def new_evidence(found: Found, built: Artifact, machine: Machine) -> list[dict[str, Any]]:
    common = {
        "binary": hashlib.sha256(built.binary).hexdigest(),
        "device": machine.model,
        "driver": machine.driver,
        "date": now(),
    }
    timing = {
        "us": round(found.choice.us, 3),
        "rows": found.point.heads(found.spec),
        "batch": found.point.rows,
        "heads": [found.point.H, found.point.H * found.spec.ratio],
        "bytes": round(found.choice.bytes),
        "read_bytes_per_s": round(machine.read),
    }
    return [
        {"kind": "check", **common, "result": {"errors": found.error}},
        {"kind": "timing", **common, "result": timing},
    ]


def kept_evidence(folder: Path, built: Artifact, machine: Machine, rows: int) -> list[dict[str, Any]]:
    """What an artifact that is replaced knew of the same binary: other devices, and other sizes on this one."""
    try:
        old = read_artifact(folder)
    except ArtifactError:
        return []
    if old.files[binary_name(old.manifest)] != built.binary:
        return []
    return [
        e
        for e in old.manifest["evidence"]
        if e["device"] != machine.model or (e["kind"] == "timing" and e["result"].get("rows") != rows)
    ]


def fastest_forms(report: Report) -> list[dict[str, Any]]:
    """Per size and buffer length that both were tuned for: microseconds of a step and of a decode, and which is less."""
    rows: dict[tuple[Any, ...], dict[str, float]] = {}
    for o in report.outcomes:
        if o["form"] in ("step", "decode"):
            rows.setdefault((o["rows"], *o["heads"], o["buffer"]), {})[o["form"]] = o["us"]
    both = [(size, us) for size, us in rows.items() if len(us) == 2]
    return [
        {"rows": s[0], "heads": list(s[1:3]), "buffer": s[3], **us, "faster": min(us, key=lambda f: us[f])}
        for s, us in both
    ]


def spread(report: Report) -> float:
    """Median over the searches of how much slower than the best the median candidate was."""
    return statistics.median(o["median_us"] / o["best_us"] for o in report.outcomes if o["best_us"])
