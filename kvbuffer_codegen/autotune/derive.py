"""What ships, from tuning logs alone: choices as the logs give them, kernels built anew, evidence from the lines.

No GPU is needed. The same logs, sources and compilers give the same bytes.
"""

from __future__ import annotations

import math
import platform
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvbuffer_codegen.artifact import read_artifact
from kvbuffer_codegen.autotune.bundle import Bundle
from kvbuffer_codegen.autotune.candidates import folder_name
from kvbuffer_codegen.autotune.evidence import binary_digest, device_of, heads_of
from kvbuffer_codegen.autotune.farm import Farm
from kvbuffer_codegen.autotune.install import folder_of, install
from kvbuffer_codegen.autotune.jobs import OK, Job, key_to_json, spec_from_json, spec_to_json
from kvbuffer_codegen.autotune.logs import Choice, Line, LogError, choices
from kvbuffer_codegen.ir.forms import FORMS, KernelSpec
from kvbuffer_codegen.ir.language import Recurrence
from kvbuffer_codegen.schedules import space
from kvbuffer_codegen.schedules.space import schedule_from_dict
from kvbuffer_codegen.schedules.targets import TARGETS, Target

OTHER_SPACE = "of another version's schedules"
OTHER_TARGET = "of another target"


@dataclass(frozen=True)
class Winner:
    """A choice and the kernel that it needs. ``trial``: the winner's final line."""

    spec: KernelSpec
    target: Target
    choice: Choice
    trial: Line

    @property
    def name(self) -> str:
        return folder_of(self.spec, schedule_from_dict(self.trial["schedule"]), self.target)


@dataclass
class Derived:
    """``kernels``: one row per choice, JSON as it stands; ``left_out``: choices that were not derived, by reason;
    ``failures``: kernels that could not be built, with the reason.
    """

    kernels: list[dict[str, Any]] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


def winners(
    lines: Sequence[Line], recurrences: Mapping[str, Recurrence], target: Target | None = None
) -> tuple[list[Winner], Counter[str]]:
    """What the newest runs of ``lines`` chose, and how much is left out, by reason. ``recurrences``: by name, those
    that this tree has; ``target``: only this one. Raises :class:`LogError` for a key or a schedule that is none."""
    here = space.space_hash()
    chosen = choices(lines, here)
    newer = {_search(t) for _, t in chosen}
    left_out: Counter[str] = Counter()
    for other in sorted({t["space"] for t in lines} - {here}):
        left_out[OTHER_SPACE] += sum(_search(t) not in newer for _, t in choices(lines, other))
    found = []
    for choice, trial in chosen:
        its_target = _target(trial)
        recurrence = recurrences.get(trial["key"]["recurrence"])
        if its_target is None or (target is not None and its_target != target):
            left_out[OTHER_TARGET] += 1
        elif not _is(recurrence, trial["key"]):
            left_out[f"of a recurrence {trial['key']['recurrence']} that is not what this tree has"] += 1
        else:
            found.append(_winner(choice, trial, its_target, recurrence))
    return found, +left_out


def derive(
    found: Sequence[Winner],
    left_out: Counter[str],
    out: Path,
    farm: Farm,
    work: Path,
    progress: Callable[[float, float, str], None] = lambda *_: None,
    bundle: Bundle | None = None,
) -> Derived:
    """Build into ``out`` what :func:`winners` found. ``work``: an empty folder. Evidence goes along where the binary is
    the very one that was measured: other compilers or other sources give another. ``bundle``: what it holds is not
    built again.

    Raises :class:`~kvbuffer_codegen.autotune.worker.WorkerError` where this machine is at fault.
    """
    result = Derived(left_out=left_out)
    by_name = {w.name: w for w in found}
    failed: dict[str, str] = {}
    built = 0

    def done(job: Job, answer: Job) -> None:
        nonlocal built
        built += 1
        progress(built, len(by_name), f"{job['spec']['form']}: built")
        if answer["status"] != OK:
            failed[job["name"]] = answer["reason"]

    places = {name: _built(w, bundle) or work / name for name, w in by_name.items()}
    missing = [(name, w) for name, w in by_name.items() if not places[name].is_dir()]
    built = len(by_name) - len(missing)
    if missing:
        farm.run([_job(w, places[name]) | {"name": name} for name, w in missing], math.inf, done)
    result.failures = [f"{name}: {reason}" for name, reason in sorted(failed.items())]
    for w in found:  # sorted by size: of several in one bucket the largest is installed last, and stays
        if w.name not in failed:
            place = places[w.name]
            install(w.spec, w.trial, place, w.target, out)
            result.kernels.append(_row(w, binary_digest(read_artifact(place)) == w.trial.get("binary")))
    return result


def _built(w: Winner, bundle: Bundle | None) -> Path | None:
    """Where a bundle has the kernel."""
    if bundle is None or bundle.target != w.target:
        return None
    folder = bundle.kernels / folder_name(w.spec, schedule_from_dict(w.trial["schedule"]))
    return folder if folder.is_dir() else None


def _winner(choice: Choice, trial: Line, target: Target, recurrence: Recurrence | None) -> Winner:
    try:
        schedule_from_dict(trial["schedule"])
        return Winner(
            spec_from_json(key_to_json(trial["key"], recurrence.normal_form if recurrence else None)),
            target,
            choice,
            trial,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise LogError(f"a {trial['key']['form']} of {trial['device']}, run {trial['run']}: {error}") from None


def _job(w: Winner, folder: Path) -> Job:
    common = {"job": "build", "target": w.target.name, "folder": str(folder)}
    return {**common, "spec": spec_to_json(w.spec), "schedule": w.trial["schedule"]}


def _row(w: Winner, measured: bool) -> dict[str, Any]:
    """``measured``: whether the binary is the very one that the log's times are of."""
    trial = w.trial
    about = {name: trial["key"][name] for name in ("form", "recurrence", "state", "buffer", "window", "kv_only")}
    about |= {"device": device_of(trial), "rows": heads_of(trial), "us": w.choice.us, "run": trial["run"]}
    about |= {"artifact": w.name, "schedule": trial["schedule"], "default": trial["default"]}
    return about | {"measured": measured}


def _search(trial: Line) -> tuple[str, ...]:
    """What a newer run of the same search has the same."""
    names = ("capability", "device", "rows", "H")
    return (str(sorted(trial["key"].items())), *(str(trial[name]) for name in names))


def _target(trial: Line) -> Target | None:
    """The target whose kernels were measured; None where they are for another kind of CPU than this."""
    capability = trial["capability"]
    if trial["schedule"]["kind"] == "cpu":
        return TARGETS["cpu"] if capability == platform.machine() else None
    return next((t for t in TARGETS.values() if capability in t.capabilities), None)


def _is(recurrence: Recurrence | None, key: Mapping[str, Any]) -> bool:
    if FORMS[key["form"]].cursors_only:
        return True
    return recurrence is not None and recurrence.normal_form.hash == key["recurrence_hash"]
