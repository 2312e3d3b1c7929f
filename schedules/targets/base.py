"""What a target is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Target:
    """A family of devices that one binary serves. Facts that templates, compiler and loader share; no measurements.

    arch          what the device compiler is told: nvcc's ``-arch``, or g++'s ``-march``
    capabilities  compute capabilities whose devices run the binary; empty for a CPU, whose binary lists features
    min_driver    smallest CUDA version of a driver that knows the devices, as cuDriverGetVersion counts (12090: 12.9)
    min_toolkit   smallest (major, minor) of the toolkit that knows ``arch``
    shared_limit  bytes of shared memory that one block may use on every device of the family
    vector_bytes  widest access of one lane that pays off
    overlaps      whether a kernel can be started while the one before it finishes
    """

    name: str
    kind: Literal["cpu", "cuda"]
    arch: str
    capabilities: tuple[str, ...] = ()
    min_driver: int = 0
    min_toolkit: tuple[int, int] = (0, 0)
    shared_limit: int = 0
    vector_bytes: int = 16
    overlaps: bool = False
