"""NVIDIA Blackwell of workstations (RTX 50, RTX PRO, DGX Spark); "f": one binary for the family, 12.0 and 12.1."""

from __future__ import annotations

from kvbuffer_codegen.schedules.targets.base import Target

TARGET = Target(
    name="sm_120f",
    kind="cuda",
    arch="sm_120f",
    capabilities=("12.0", "12.1"),
    min_driver=12090,
    min_toolkit=(12, 9),
    shared_limit=99 * 1024,
    vector_bytes=16,
    overlaps=True,
)
