"""What a plan takes a device for that is not here: data sheets, rounded. Nothing is chosen by them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from kvbuffer_codegen.schedules.targets import Target


@dataclass(frozen=True)
class Traits:
    """``units``: cores or multiprocessors; ``cache``: bytes of the last level; ``read``: bytes a second."""

    units: int
    cache: int
    read: float


TYPICAL = {
    "sm_80": Traits(108, 40 * 2**20, 1.7e12),  # A100 80 GB
    "sm_90a": Traits(132, 50 * 2**20, 4.3e12),  # H200
    "sm_100f": Traits(148, 126 * 2**20, 7e12),  # B200
    "sm_120f": Traits(188, 128 * 2**20, 1.6e12),  # RTX PRO 6000
}


def traits(target: Target, device: torch.device | None) -> Traits:
    """Those of ``device``, measured, or where it is None what is typical for ``target``."""
    if device is None:
        return TYPICAL[target.name]
    from kvbuffer_codegen.autotune.workload import last_level_cache, read_bandwidth, units

    return Traits(units(device), last_level_cache(device), read_bandwidth(device))


def units_of(target: Target, device: torch.device | None) -> int:
    """Without measuring anything."""
    if device is None:
        return TYPICAL[target.name].units
    from kvbuffer_codegen.autotune.workload import units

    return units(device)


def device_for(target: Target) -> torch.device | None:
    """The device of this machine that runs ``target``'s kernels, or None."""
    import torch

    if target.kind == "cpu":
        return torch.device("cpu")
    return torch.device("cuda") if gpu_capability() in target.capabilities else None


def gpu_capability() -> str | None:
    """Compute capability of the current GPU, as "9.0", or None."""
    import torch

    return "{}.{}".format(*torch.cuda.get_device_capability()) if torch.cuda.is_available() else None
