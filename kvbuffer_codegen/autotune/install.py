"""From a kernel that was built to an artifact that the dispatcher finds: folder, evidence, index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kvbuffer_codegen.artifact import (
    Artifact,
    ArtifactError,
    binary_name,
    cpu_device,
    evidence,
    read_artifact,
    write_artifact,
)
from kvbuffer_codegen.autotune.candidates import schedule_digest
from kvbuffer_codegen.autotune.measure import Machine
from kvbuffer_codegen.autotune.search import Found
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
    return f"{target.name}/{spec.name}-{schedule_digest(schedule)}"


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


def install(found: Found, machine: Machine, target: Target, out: Path) -> str:
    """Put the winner into ``out`` with its evidence, and its choice into the index; returns its folder there."""
    spec, choice = found.spec, found.choice
    relative = folder_of(spec, schedule_from_dict(choice.schedule), target)
    built = read_artifact(found.folder)
    entries = [
        *kept_evidence(out / relative, built, machine, found.point.heads(spec)),
        *new_evidence(found, built, machine),
    ]
    folder = write_artifact(out / relative, {**built.manifest, "evidence": entries}, built.files)
    rows = bucket(found.point.heads(spec))
    picked = Choice(choice_key(spec), rows, machine.capability, relative, machine.model, choice.default)
    update_index(out, {relative: read_artifact(folder).digest}, [picked])
    return relative


def new_evidence(found: Found, built: Artifact, machine: Machine) -> list[dict[str, Any]]:
    common = {"device": machine.model, "driver": machine.driver}
    timing = {
        "us": round(found.choice.us, 3),
        "rows": found.point.heads(found.spec),
        "batch": found.point.rows,
        "heads": [found.point.H, found.point.H * found.spec.ratio],
        "bytes": round(found.choice.bytes),
        "read_bytes_per_s": round(found.choice.read or machine.read),
    }
    return [
        evidence(built, "check", **common, result={"errors": found.error}),
        evidence(built, "timing", **common, result=timing),
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
