"""NVIDIA Hopper (H100, H200, GH200); "a": its own instructions, and no other architecture runs the binary."""

from __future__ import annotations

from kvbuffer_codegen.schedules.targets.base import Target

TARGET = Target(
    name="sm_90a",
    kind="cuda",
    arch="sm_90a",
    capabilities=("9.0",),
    min_driver=12000,
    min_toolkit=(12, 0),
    shared_limit=227 * 1024,
    overlaps=True,
)
