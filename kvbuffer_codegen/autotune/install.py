"""From a kernel that was built to an artifact that the dispatcher finds: folder, evidence, index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kvbuffer_codegen.artifact import cpu_device, read_artifact, write_artifact
from kvbuffer_codegen.autotune.candidates import folder_name
from kvbuffer_codegen.autotune.evidence import device_of, evidence_of, heads_of, joined, known_evidence
from kvbuffer_codegen.autotune.logs import Line
from kvbuffer_codegen.index import SPACE, Choice, update_index
from kvbuffer_codegen.ir.forms import KernelSpec
from kvbuffer_codegen.schedules.space import Schedule, schedule_from_dict
from kvbuffer_codegen.schedules.targets import Target

#: Value-head rows of a bucket: from one of these up to the next, the last without an end.
BUCKETS = (0, 16, 64, 256, 1024, 4096)


def bucket(rows: int) -> tuple[int, int | None]:
    """The bucket of ``rows`` value-head rows, both ends included."""
    lo = max(b for b in BUCKETS if b <= rows)
    above = [b for b in BUCKETS if b > rows]
    return lo, above[0] - 1 if above else None


def choice_key(spec: KernelSpec) -> dict[str, Any]:
    return {**spec.key(), "space": SPACE}


def folder_of(spec: KernelSpec, schedule: Schedule, target: Target) -> str:
    """Where an artifact lies, relative to its index."""
    return f"{target.name}/{folder_name(spec, schedule)}"


def add_default(spec: KernelSpec, schedule: Schedule, target: Target, out: Path) -> str:
    """Build an untuned kernel into ``out``; it serves every size for which nothing was tuned. Returns its folder
    there.
    """
    from kvbuffer_codegen.compiler.build import build

    relative = folder_of(spec, schedule, target)
    build(spec, schedule, target, out / relative)
    machines = target.capabilities or (cpu_device().capability,)
    choices = [Choice(choice_key(spec), (0, None), machine, relative, default=True) for machine in machines]
    update_index(out, {relative: read_artifact(out / relative).digest}, choices)
    return relative


def install(spec: KernelSpec, trial: Line, built_in: Path, target: Target, out: Path) -> str:
    """Put the winner of a search at one size into ``out`` with its evidence, and its choice into the index; returns
    its folder there.

    ``trial``: the winner's final line of the log. ``built_in``: the folder that the kernel was built into. The same
    line and the same binary give the same bytes, whenever and wherever.
    """
    relative = folder_of(spec, schedule_from_dict(trial["schedule"]), target)
    built = read_artifact(built_in)
    entries = joined(built, known_evidence(out / relative), evidence_of(trial))
    folder = write_artifact(out / relative, {**built.manifest, "evidence": entries}, built.files)
    rows, device = bucket(heads_of(trial)), device_of(trial)
    picked = Choice(choice_key(spec), rows, trial["capability"], relative, device, trial["default"])
    update_index(out, {relative: read_artifact(folder).digest}, [picked])
    return relative
