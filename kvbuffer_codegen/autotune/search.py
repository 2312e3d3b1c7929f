"""Successive halving over the candidates of one kernel, written to the log as it goes and taken up again from it.

A search is done for one kernel spec at several sizes (*points*: batch rows and key heads). Candidates are built and
checked once; each point then halves them: a short timing of all, a longer one of the best third, and interleaved
rounds over whole cycles for the last few, the default always among them.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Protocol

from kvbuffer_codegen.artifact import now, read_artifact
from kvbuffer_codegen.autotune.candidates import Candidates, folder_name, schedule_text
from kvbuffer_codegen.autotune.evidence import binary_digest
from kvbuffer_codegen.autotune.jobs import OK, SLOW, Job, spec_to_json
from kvbuffer_codegen.autotune.logs import Choice, Line, Log, choose, trial_text, winner
from kvbuffer_codegen.autotune.measure import Bench, Machine
from kvbuffer_codegen.autotune.requests import Point, Request
from kvbuffer_codegen.autotune.sources import sources_hash
from kvbuffer_codegen.ir.forms import KernelSpec
from kvbuffer_codegen.schedules import space
from kvbuffer_codegen.schedules.space import Schedule
from kvbuffer_codegen.schedules.targets import Target


@dataclass(frozen=True)
class Rung:
    """Phases of the cycle and passes over them that each candidate is timed for; how many go on (a share, and a least
    number); the share of a point's time after which no more are timed.
    """

    phases: int
    repeats: int
    keep: float
    least: int
    share: float


RUNGS = (Rung(2, 3, 1 / 3, 4, 0.5), Rung(4, 5, 1 / 2, 3, 0.7))
FINAL_ROUNDS = {"cpu": 9, "cuda": 5}  #: a GPU is calmer
FINAL_PHASES = 64  #: more than any cycle has: all of them
BUILD_SHARE = 0.55  #: of a search's time, after which no more candidates are built


class Builder(Protocol):
    """Builds candidates (:class:`~kvbuffer_codegen.autotune.farm.Farm`), or knows what was built elsewhere."""

    def run(self, jobs: Sequence[Job], deadline: float, done: Callable[[Job, Job], None]) -> int: ...


@dataclass
class Tools:
    """What every search of a run shares. ``work``: where candidates are built. ``tried``: those of a request."""

    target: Target
    machine: Machine
    farm: Builder
    bench: Bench
    log: Log
    run: str
    work: Path
    tried: Callable[[Request], Candidates]
    fresh: bool
    step: Callable[[str, float], None]


@dataclass
class Found:
    """A finished search at one point. ``trial``: the winner's final line. ``legal``: schedules in all; ``counts``:
    those looked at, by status. ``folder``: where the winner was built.
    """

    spec: KernelSpec
    point: Point
    choice: Choice
    trial: Line
    legal: int
    counts: dict[str, int]
    folder: Path


class SearchError(RuntimeError):
    """A search that cannot end in a choice: the default schedule does not build, run or pass."""


@dataclass
class _Candidate:
    schedule: Schedule
    default: bool
    folder: Path
    resources: dict[str, int] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    error: dict[str, float] = field(default_factory=dict)


class Search:
    def __init__(self, request: Request, tools: Tools):
        self.spec, self.points, self.source, self.tools = request.spec, request.points, request.source, tools
        self.job, self.rounds = spec_to_json(self.spec), FINAL_ROUNDS[tools.target.kind]
        self.tried = tools.tried(request)
        known = earlier(tools, self.spec)
        last = max((t["run"] for t in known), default=tools.run)
        self.run = tools.run if tools.fresh else last
        self.lines = [t for t in known if t["run"] == self.run]
        choices = [t for t in known if t["kind"] == "choice" and t["run"] != self.run]
        self.incumbents = {(t["rows"], t["H"]): trial_text(t) for t in choices}  # the later one stays
        self.failed = {trial_text(t) for t in self.trials if t["status"] not in (OK, SLOW)}
        self.chosen = {p: t for p in self.points if (t := self._known_choice(p)) is not None}

    @property
    def trials(self) -> list[Line]:
        return [t for t in self.lines if t["kind"] == "trial"]

    def _known_choice(self, point: Point) -> Line | None:
        """The choice of an earlier attempt, where none of today's candidates was left untried then."""
        here = [t for t in self.lines if point.timed(t)]
        tried = {trial_text(t) for t in here if t["kind"] == "trial" and t["stage"] == "rung 0"} | self.failed
        tried |= {trial_text(t) for t in self.trials if t["stage"] == "build"}  # it spills
        if any(schedule_text(s) not in tried for s in self.tried.schedules):
            return None
        return next((t for t in reversed(here) if t["kind"] == "choice"), None)

    def go(self, seconds: float) -> list[Found]:
        """One result per point. Raises :class:`SearchError`, and
        :class:`~kvbuffer_codegen.autotune.worker.WorkerError` where the machine is at fault."""
        begin = time.monotonic()
        self._log_pruned()
        built = self._build(begin + BUILD_SHARE * seconds)
        right = self._check(built)
        found = []
        for i, point in enumerate(self.points):  # what building or a size did not use goes to the sizes that follow
            left = begin + seconds - time.monotonic()
            found.append(self._point(point, right, time.monotonic() + left / (len(self.points) - i)))
        return found

    # --- stages

    def _log_pruned(self) -> None:
        known = {trial_text(t) for t in self.trials}
        for schedule, reason in self.tried.pruned:
            if schedule_text(schedule) not in known:
                self._trial(_Candidate(schedule, False, Path()), "prune", {"status": SLOW, "reason": reason})

    def _build(self, deadline: float) -> list[_Candidate]:
        """Candidates whose binary is there, those of an earlier attempt at this run included."""
        every = [self._candidate(s) for s in self.tried.schedules if schedule_text(s) not in self.failed]
        if len(self.chosen) == len(self.points):  # all is known: only what was chosen is needed again
            winners = [trial_text(t) for t in self.chosen.values()]
            every = [c for c in every if c.default or schedule_text(c.schedule) in winners]
        by_folder = {str(c.folder): c for c in every}
        built: list[_Candidate] = []

        def done(job: Job, answer: Job) -> None:
            candidate = by_folder[job["folder"]]
            self.tools.step(f"{self.spec.form}: building", 1)
            if answer["status"] != OK:
                self._trial(candidate, "build", answer)
                return
            candidate.resources, candidate.versions = answer["resources"], answer["versions"]
            if candidate.resources.get("spill_bytes") and not candidate.default:
                spilled = f"spills {candidate.resources['spill_bytes']} bytes of registers"
                self._trial(candidate, "build", {"status": SLOW, "reason": spilled})
                return
            built.append(candidate)

        jobs = [
            {
                "job": "build",
                "spec": self.job,
                "schedule": c.schedule.to_dict(),
                "target": self.tools.target.name,
                "folder": str(c.folder),
            }
            for c in every
        ]
        self.tools.farm.run(jobs, deadline, done)
        built.sort(key=every.index)
        self._needs_default(built, "build")
        return built

    def _check(self, built: list[_Candidate]) -> list[_Candidate]:
        right = []
        for candidate in built:
            self.tools.step(f"{self.spec.form}: checking", 1)
            answer = self.tools.bench.check(self.job, str(candidate.folder), self.source)
            candidate.error = answer.get("errors", {})
            if answer["status"] == OK:
                right.append(candidate)
            else:
                self._trial(candidate, "check", answer)
        self._needs_default(right, "check")
        return right

    def _point(self, point: Point, right: list[_Candidate], until: float) -> Found:
        if point not in self.chosen:
            left, start = right, time.monotonic()
            for i, rung in enumerate(RUNGS):
                left = self._rung(point, left, i, rung, start + (until - start) * rung.share)
            self._final(point, left, until)
        trials = [t for t in self.trials if point.timed(t)]
        choice = choose(trials)
        if choice is None:
            raise SearchError(f"{self.spec.name}: the default schedule could not be timed")
        best = next((c for c in right if c.schedule.to_dict() == choice.schedule), None)
        if best is None:
            raise SearchError(
                f"{self.spec.name}: {choice.schedule}, chosen in the log, fails now; measure anew (--fresh)"
            )
        if point not in self.chosen:
            self._append({"kind": "choice", **self._about(point), **asdict(choice), "legal": self.tried.legal})
        trial = winner(choice, trials)
        return Found(self.spec, point, choice, trial, self.tried.legal, self._statuses(), best.folder)

    def _rung(self, point: Point, left: list[_Candidate], number: int, rung: Rung, until: float) -> list[_Candidate]:
        """Time all of ``left``, and return the best of them with the default and what an earlier run chose.

        Where time is up, the first rung times no more of them (they come next time), a later one is left out.
        """
        if number and time.monotonic() > until:
            return left
        stage = f"rung {number}"
        times: dict[int, float] = {}
        for i, candidate in enumerate(left):
            if time.monotonic() > until and not candidate.default:
                continue
            self.tools.step(f"{self.spec.form}: timing", 1)
            answer = self._timed(candidate, point, stage, rung.phases, rung.repeats)
            if answer is not None:
                times[i] = statistics.median(answer["us"])
        order = sorted(times, key=lambda i: times[i])
        keep = set(order[: max(rung.least, math.ceil(rung.keep * len(order)))])
        keep |= {i for i in times if left[i].default or self._incumbent(left[i], point)}
        for i in order:
            if i not in keep:
                reason = f"{times[i] / times[order[0]]:.2f} x the best of {stage}"
                self._trial(left[i], stage, {"status": SLOW, "reason": reason}, point)
        return [left[i] for i in sorted(keep)]

    def _timed(self, candidate: _Candidate, point: Point, stage: str, phases: int, repeats: int) -> Job | None:
        """The timing, from the log where it is there; None for a candidate that failed."""
        text = schedule_text(candidate.schedule)
        for t in self.trials:
            if t["stage"] == stage and t["us"] and point.timed(t) and trial_text(t) == text:
                return t
        answer = self.tools.bench.time(
            self.job, str(candidate.folder), self.source, point.rows, point.H, phases, repeats
        )
        self._trial(candidate, stage, answer, point)
        return answer if answer["status"] == OK else None

    def _final(self, point: Point, left: list[_Candidate], until: float) -> None:
        """Rounds over whole cycles, every candidate once a round, each round in a pool of its own."""
        rounds: dict[int, list[float]] = {i: [] for i in range(len(left))}
        reads: list[float] = []
        answers: dict[int, Job] = {}
        for number in range(self.rounds):
            if number >= 3 and time.monotonic() > until:
                break
            for i, candidate in enumerate(left):
                if i in answers and answers[i]["status"] != OK:
                    continue
                self.tools.step(f"{self.spec.form}: final round", 1 / self.rounds)
                where = (self.job, str(candidate.folder), self.source, point.rows, point.H)
                answers[i] = self.tools.bench.time(*where, FINAL_PHASES, 1, renew=i == 0, read=i == 0)
                if answers[i]["status"] == OK:
                    rounds[i] += answers[i]["us"]
                    reads += [answers[i]["read"]] if answers[i]["read"] else []
        attempt = 1 + max((t["attempt"] for t in self.trials if t["stage"] == "final"), default=0)
        for i, candidate in enumerate(left):
            ran = {"binary": binary_digest(read_artifact(candidate.folder))}
            ran |= {"model": self.tools.machine.model, "driver": self.tools.machine.driver}
            self._trial(candidate, "final", {**answers[i], "us": rounds[i], "read": reads}, point, attempt, ran)

    def _incumbent(self, candidate: _Candidate, point: Point) -> bool:
        return self.incumbents.get((point.rows, point.H)) == schedule_text(candidate.schedule)

    # --- the log

    def _candidate(self, schedule: Schedule) -> _Candidate:
        default = schedule == space.default(self.spec, self.tools.target)
        return _Candidate(schedule, default, self.tools.work / folder_name(self.spec, schedule))

    def _needs_default(self, left: list[_Candidate], stage: str) -> None:
        if any(c.default for c in left):
            return
        why = next((t["reason"] for t in reversed(self.trials) if t["default"]), "")
        raise SearchError(f"{self.spec.name}: the default schedule fails at {stage}: {why}")

    def _about(self, point: Point | None) -> Line:
        return {
            "run": self.run,
            "date": now(),
            "device": self.tools.machine.name,
            "capability": self.tools.machine.capability,
            "key": self.spec.key(),
            "space": space.space_hash(),
            "generator": generator_hash(),
            "rows": point and point.rows,
            "H": point and point.H,
        }

    def _trial(
        self,
        candidate: _Candidate,
        stage: str,
        answer: Job,
        point: Point | None = None,
        attempt: int = 1,
        ran: Line | None = None,
    ) -> None:
        line = {
            "kind": "trial",
            **self._about(point),
            "schedule": candidate.schedule.to_dict(),
            "default": candidate.default,
            "incumbent": point is not None and self._incumbent(candidate, point),
            "stage": stage,
            "attempt": attempt,
            "status": answer["status"],
            "reason": answer.get("reason", ""),
            "us": answer.get("us", []),
            "bytes": answer.get("bytes"),
            "read": answer.get("read"),
            "error": candidate.error,
            "resources": candidate.resources,
            "versions": candidate.versions,
            **(ran or {}),
        }
        self._append(line)

    def _append(self, line: Line) -> None:
        self.lines.append(self.tools.log.append(self.spec.form, line))

    def _statuses(self) -> dict[str, int]:
        """Candidates by the last that is known of them; a wrong one stays wrong."""
        last: dict[str, str] = {}
        for t in self.trials:
            if last.get(trial_text(t), OK) in (OK, SLOW):
                last[trial_text(t)] = t["status"]
        return {status: list(last.values()).count(status) for status in sorted(set(last.values()))}


def earlier(tools: Tools, spec: KernelSpec) -> list[Line]:
    """The lines of searches for this kernel here with the same generator."""
    same = {
        "key": spec.key(),
        "capability": tools.machine.capability,
        "device": tools.machine.name,
        "space": space.space_hash(),
        "generator": generator_hash(),
    }
    return [t for t in tools.log.read(spec.form) if all(t.get(name) == value for name, value in same.items())]


def generator_hash() -> str:
    """Twelve hex digits over the sources that kernels are generated by, comments and docstrings aside: timings from
    before a change of these are not reused. A key holds the hash of its own recurrence.
    """
    return sources_hash("ir", "schedules", "compiler", without="recurrences")
