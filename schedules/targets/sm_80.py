"""NVIDIA Ampere and Ada (A100, A10, L40S, RTX 30 and 40). Shared memory is that of 8.6 and 8.9: 99 KiB a block."""

from __future__ import annotations

from kvbuffer_codegen.schedules.targets.base import Target

TARGET = Target(
    name="sm_80",
    kind="cuda",
    arch="sm_80",
    capabilities=("8.0", "8.6", "8.7", "8.9"),
    min_driver=12000,
    min_toolkit=(12, 0),  # the first that takes -std=c++20, which TileLang's headers need
    shared_limit=99 * 1024,
)
