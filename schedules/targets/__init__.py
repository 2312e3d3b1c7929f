"""What differs per target: one small file each, and the lookup by name."""

from __future__ import annotations

from kvbuffer_codegen.schedules.targets import cpu, sm_80, sm_90a, sm_100f, sm_120f
from kvbuffer_codegen.schedules.targets.base import Target

__all__ = ["TARGETS", "Target", "target"]

TARGETS: dict[str, Target] = {file.TARGET.name: file.TARGET for file in (cpu, sm_80, sm_90a, sm_100f, sm_120f)}


def target(name: str) -> Target:
    """The target called ``name``; raises ``ValueError`` that lists the known names."""
    if name not in TARGETS:
        raise ValueError(f"target {name!r} is unknown; accepted: {', '.join(TARGETS)}")
    return TARGETS[name]
