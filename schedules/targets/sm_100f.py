"""NVIDIA Blackwell of the data centre (B200, GB200, B300); "f": one binary for the family, 10.0 and 10.3."""

from __future__ import annotations

from kvbuffer_codegen.schedules.targets.base import Target

TARGET = Target(
    name="sm_100f",
    kind="cuda",
    arch="sm_100f",
    capabilities=("10.0", "10.3"),
    min_driver=12090,
    min_toolkit=(12, 9),  # the first with family targets
    shared_limit=227 * 1024,
    vector_bytes=32,
    overlaps=True,
)
