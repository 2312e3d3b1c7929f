"""Candidates built on one machine, to be checked and timed on another that has no compiler.

A bundle is a folder: ``plan.json`` and, below ``kernels/``, one artifact for each candidate that compiled. The plan
holds, as JSON, what a search would have learned from building: schedules, why one is out, resources, versions; and the
sizes to time at. Nothing in it is run but the kernels, whose files are hashed as those of every artifact; a bundle is
as trustworthy as whoever may write its folder. It grows: what is built into it later is added.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvbuffer_codegen.artifact import ArtifactError, decode, write_file
from kvbuffer_codegen.autotune.candidates import Candidates, candidates, folder_name, schedule_text
from kvbuffer_codegen.autotune.farm import Farm
from kvbuffer_codegen.autotune.jobs import COMPILE, OK, Job, spec_from_json, spec_to_json
from kvbuffer_codegen.autotune.logs import clean, trial_text
from kvbuffer_codegen.autotune.measure import Machine
from kvbuffer_codegen.autotune.requests import Point, Request, joined
from kvbuffer_codegen.autotune.search import generator_hash
from kvbuffer_codegen.ir.forms import KernelSpec
from kvbuffer_codegen.schedules import space
from kvbuffer_codegen.schedules.space import Schedule, schedule_from_dict
from kvbuffer_codegen.schedules.targets import Target
from kvbuffer_codegen.schedules.targets import target as target_named

PLAN, KERNELS = "plan.json", "kernels"
SCHEMA = 2


class BundleError(ValueError):
    """A bundle that cannot be measured here: one line with the reason."""


# --- the half that builds


@dataclass(frozen=True)
class BundleBuilder:
    """``units``: cores or multiprocessors of the machine that will measure, which rule candidates out."""

    out: Path
    target: Target
    units: int

    def run(
        self, requests: Sequence[Request], farm: Farm, deadline: float, report: Callable[[float, float, str], None]
    ) -> list[dict[str, Any]]:
        """Build the candidates of every request into ``out``, and return their entries of the plan; what an earlier run
        built from the same sources is kept, and so are its other kernels, candidates and sizes. After ``deadline`` (of
        ``time.monotonic``) only defaults are built."""
        (self.out / KERNELS).mkdir(parents=True, exist_ok=True)
        known = self._known()
        plan = {spec: self._again(entry) for spec, entry in known.items()}
        for number, request in enumerate(requests):
            spec = request.spec
            share = (deadline - time.monotonic()) / (len(requests) - number)
            plan[spec] = self._entry(request, known.get(spec, _Known(request)), farm, time.monotonic() + share)
            report(number + 1, len(requests), f"{spec.form}: built")
            self._write(list(plan.values()))
        self._clear(plan)
        return [plan[request.spec] for request in requests]

    def _entry(self, request: Request, known: _Known, farm: Farm, deadline: float) -> dict[str, Any]:
        spec, answers = request.spec, dict(known.answers)
        tried = candidates(spec, self.target, request.rows, self.units, request.limit)
        jobs = [
            {
                "job": "build",
                "spec": spec_to_json(spec),
                "schedule": schedule.to_dict(),
                "target": self.target.name,
                "folder": str(self.out / KERNELS / folder_name(spec, schedule)),
            }
            for schedule in tried.schedules
            if schedule_text(schedule) not in answers
        ]
        default = tried.schedules[0].to_dict()

        def done(job: Job, answer: Job) -> None:
            answers[trial_text(job)] = clean(answer)
            if answer.get("resources", {}).get("spill_bytes") and job["schedule"] != default:
                shutil.rmtree(job["folder"], ignore_errors=True)  # which nobody times

        if jobs:
            farm.run(jobs, deadline, done)
        asked = {schedule_text(s): s for s in (*tried.schedules, *known.schedules)}
        pruned = [(s, reason) for s, reason in tried.pruned if schedule_text(s) not in answers]
        built = [(s, answers[text]) for text, s in asked.items() if text in answers]
        return _entry(joined([request, known.request])[0], tried.legal, pruned, built)

    def _again(self, known: _Known) -> dict[str, Any]:
        """The entry of what this run does not ask for."""
        built = [(s, known.answers[text]) for s in known.schedules if (text := schedule_text(s)) in known.answers]
        return _entry(known.request, known.legal, known.pruned, built)

    def _known(self) -> dict[KernelSpec, _Known]:
        """What an earlier run into the same folder knows of each kernel: answers by schedule, where what was built is
        still there. What took too long, or crashed, may have met a busy machine: it is tried again."""
        try:
            bundle = Bundle.read(self.out)
        except BundleError:
            return {}
        if bundle.target != self.target:
            return {}

        def there(spec: KernelSpec, text: str, answer: Job) -> bool:
            folder = bundle.kernels / folder_name(spec, schedule_from_dict(json.loads(text)))
            spills = answer.get("resources", {}).get("spill_bytes", 0)
            return answer["status"] == COMPILE or (answer["status"] == OK and (spills > 0 or folder.is_dir()))

        found = {}
        for request in bundle.requests:
            tried, answers = bundle.tried(request), bundle.answers[request.spec]
            kept = {text: answer for text, answer in answers.items() if there(request.spec, text, answer)}
            found[request.spec] = _Known(request, kept, tried.schedules, tried.pruned, tried.legal)
        return found

    def _clear(self, plan: Mapping[KernelSpec, Mapping[str, Any]]) -> None:
        """Remove what an earlier run built and the plan does not name."""
        pairs = [(spec, made) for spec, entry in plan.items() for made, _ in entry["candidates"]]
        named = {folder_name(spec, schedule_from_dict(made)) for spec, made in pairs}
        for folder in (self.out / KERNELS).iterdir():
            if folder.name not in named:
                shutil.rmtree(folder, ignore_errors=True)

    def _write(self, entries: list[dict[str, Any]]) -> None:
        plan = {
            "schema": SCHEMA,
            "target": self.target.name,
            "space": space.space_hash(),
            "generator": generator_hash(),
            "searches": entries,
        }
        write_file(self.out / PLAN, (json.dumps(plan) + "\n").encode())


@dataclass(frozen=True)
class _Known:
    """What a bundle holds of one kernel."""

    request: Request
    answers: Mapping[str, Job] = field(default_factory=dict)
    schedules: Sequence[Schedule] = ()
    pruned: Sequence[tuple[Schedule, str]] = ()
    legal: int = 0


def _entry(
    request: Request, legal: int, pruned: Sequence[tuple[Schedule, str]], built: Sequence[tuple[Schedule, Job]]
) -> dict[str, Any]:
    return {
        "spec": spec_to_json(request.spec),
        "points": [[p.rows, p.H] for p in request.points],
        "legal": legal,
        "pruned": [[schedule.to_dict(), reason] for schedule, reason in pruned],
        "candidates": [[schedule.to_dict(), answer] for schedule, answer in built],
    }


# --- the half that measures


@dataclass(frozen=True)
class Bundle:
    """Stands for the farm and for the list of candidates in a search. ``answers``: by spec and canonical schedule, what
    the build job answered.
    """

    folder: Path
    target: Target
    requests: list[Request]
    candidates: Mapping[KernelSpec, Candidates]
    answers: Mapping[KernelSpec, Mapping[str, Job]]

    @classmethod
    def read(cls, folder: Path) -> Bundle:
        """Raises :class:`BundleError`."""
        if not (folder / PLAN).is_file():
            raise BundleError(f"{folder} has no {PLAN}; accepted: a folder that `tune --build-only` wrote")
        try:
            data, _ = decode(folder / PLAN)
            return cls._of(folder, data)
        except (ArtifactError, KeyError, TypeError, ValueError) as error:
            what = error or type(error).__name__
            raise BundleError(f"{folder / PLAN} cannot be used: {what}; build it again") from None

    @classmethod
    def _of(cls, folder: Path, data: Any) -> Bundle:
        here = {"schema": SCHEMA, "space": space.space_hash(), "generator": generator_hash()}
        for name, value in here.items():
            if data[name] != value:
                both = "install the same version on both sides"
                raise ValueError(f"{name} is {data[name]}, that of this installation is {value} ({both})")
        requests, tried, answers = [], {}, {}
        for entry in data["searches"]:
            spec = spec_from_json(entry["spec"])
            pruned = [(schedule_from_dict(schedule), str(reason)) for schedule, reason in entry["pruned"]]
            built = [(schedule_from_dict(schedule), dict(answer)) for schedule, answer in entry["candidates"]]
            tried[spec] = Candidates([schedule for schedule, _ in built], pruned, int(entry["legal"]))
            answers[spec] = {schedule_text(schedule): answer for schedule, answer in built}
            points = tuple(Point(int(rows), int(H)) for rows, H in entry["points"])
            requests.append(Request(spec, points, len(built)))
        return cls(folder, target_named(data["target"]), requests, tried, answers)

    @property
    def kernels(self) -> Path:
        return self.folder / KERNELS

    def tried(self, request: Request) -> Candidates:
        return self.candidates[request.spec]

    def check_machine(self, machine: Machine) -> None:
        """Raises :class:`BundleError` where the kernels are for another device."""
        accepted = self.target.capabilities
        if accepted and machine.capability not in accepted:
            raise BundleError(
                f"{self.folder} is for {self.target.name}, compute capability {', '.join(accepted)}; {machine.name} "
                f"has {machine.capability}: measure it on another device, or build for this one"
            )

    def run(self, jobs: Sequence[Job], deadline: float, done: Callable[[Job, Job], None]) -> int:
        """What :meth:`~kvbuffer_codegen.autotune.farm.Farm.run` would say, at once."""
        for job in jobs:
            answers = self.answers[spec_from_json(job["spec"])]
            done(job, answers[trial_text(job)])
        return len(jobs)
