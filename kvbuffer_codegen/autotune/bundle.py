"""Candidates built on one machine, to be checked and timed on another that has no compiler.

A bundle is a folder: ``plan.json`` and, below ``kernels/``, one artifact for each candidate that compiled. The plan
holds, as JSON, what a search would have learned from building: schedules, why one is out, resources, versions. Nothing
in it is run but the kernels, whose files are hashed as those of every artifact; a bundle is as trustworthy as whoever
may write its folder.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvbuffer_codegen.artifact import ArtifactError, decode, write_file
from kvbuffer_codegen.autotune.candidates import Candidates, candidates, folder_name, schedule_text
from kvbuffer_codegen.autotune.farm import Farm
from kvbuffer_codegen.autotune.jobs import COMPILE, OK, Job, spec_from_json, spec_to_json
from kvbuffer_codegen.autotune.logs import clean, trial_text
from kvbuffer_codegen.autotune.measure import Machine
from kvbuffer_codegen.autotune.search import Point, generator_hash
from kvbuffer_codegen.ir.forms import KernelSpec
from kvbuffer_codegen.schedules import space
from kvbuffer_codegen.schedules.space import schedule_from_dict
from kvbuffer_codegen.schedules.targets import Target
from kvbuffer_codegen.schedules.targets import target as target_named

PLAN, KERNELS = "plan.json", "kernels"
SCHEMA = 1


class BundleError(ValueError):
    """A bundle that cannot be measured here: one line with the reason."""


# --- the half that builds


@dataclass(frozen=True)
class BundleBuilder:
    """``units``: cores or multiprocessors of the machine that will measure, which rule candidates out."""

    out: Path
    target: Target
    points: Sequence[Point]
    units: int
    limit: int | None

    def run(
        self, specs: Sequence[KernelSpec], farm: Farm, deadline: float, report: Callable[[float, float, str], None]
    ) -> list[dict[str, Any]]:
        """Build the candidates of every spec into ``out``, and return the plan's entries; what an earlier run built
        from the same sources is kept. After ``deadline`` (of ``time.monotonic``) only defaults are built."""
        (self.out / KERNELS).mkdir(parents=True, exist_ok=True)
        known = self._known()
        entries = []
        for number, spec in enumerate(specs):
            most = max(p.heads(spec) for p in self.points)
            tried = candidates(spec, self.target, most, self.units, self.limit)
            share = (deadline - time.monotonic()) / (len(specs) - number)
            entries.append(self._entry(spec, tried, known.get(spec, {}), farm, time.monotonic() + share))
            report(number + 1, len(specs), f"{spec.form}: built")
            self._write(entries)
        self._clear(specs, entries)
        return entries

    def _entry(
        self, spec: KernelSpec, tried: Candidates, known: Mapping[str, Job], farm: Farm, deadline: float
    ) -> dict[str, Any]:
        answers = dict(known)
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
        built = [(s, answers[text]) for s in tried.schedules if (text := schedule_text(s)) in answers]
        return {
            "spec": spec_to_json(spec),
            "legal": tried.legal,
            "pruned": [[schedule.to_dict(), reason] for schedule, reason in tried.pruned],
            "candidates": [[schedule.to_dict(), answer] for schedule, answer in built],
        }

    def _known(self) -> dict[KernelSpec, dict[str, Job]]:
        """Answers of an earlier run into the same folder, by schedule, where what was built is still there. What took
        too long, or crashed, may have met a busy machine: it is tried again."""
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

        return {
            spec: {text: answer for text, answer in answers.items() if there(spec, text, answer)}
            for spec, answers in bundle.answers.items()
        }

    def _clear(self, specs: Sequence[KernelSpec], entries: Sequence[Mapping[str, Any]]) -> None:
        """Remove what an earlier run built and the plan does not name."""
        pairs = [(spec, made) for spec, entry in zip(specs, entries, strict=True) for made, _ in entry["candidates"]]
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
            "points": [[p.rows, p.H] for p in self.points],
            "searches": entries,
        }
        write_file(self.out / PLAN, (json.dumps(plan) + "\n").encode())


# --- the half that measures


@dataclass(frozen=True)
class Bundle:
    """Stands for the farm and for the list of candidates in a search. ``answers``: by spec and canonical schedule, what
    the build job answered.
    """

    folder: Path
    target: Target
    points: list[Point]
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
        tried, answers = {}, {}
        for entry in data["searches"]:
            spec = spec_from_json(entry["spec"])
            pruned = [(schedule_from_dict(schedule), str(reason)) for schedule, reason in entry["pruned"]]
            built = [(schedule_from_dict(schedule), dict(answer)) for schedule, answer in entry["candidates"]]
            tried[spec] = Candidates([schedule for schedule, _ in built], pruned, int(entry["legal"]))
            answers[spec] = {schedule_text(schedule): answer for schedule, answer in built}
        points = [Point(int(rows), int(H)) for rows, H in data["points"]]
        return cls(folder, target_named(data["target"]), points, tried, answers)

    @property
    def specs(self) -> list[KernelSpec]:
        return list(self.candidates)

    @property
    def kernels(self) -> Path:
        return self.folder / KERNELS

    def tried(self, spec: KernelSpec) -> Candidates:
        return self.candidates[spec]

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
