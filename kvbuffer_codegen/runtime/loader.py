"""From an artifact to a kernel that can be called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from kvbuffer_codegen.artifact import Artifact, ArtifactError, Device, cpu_device, fits, read_artifact
from kvbuffer_codegen.manifest import Manifest
from kvbuffer_codegen.runtime.arguments import device_of, folder_of
from kvbuffer_codegen.runtime.cpu_module import CpuModule
from kvbuffer_codegen.runtime.ctypes_launcher import FAILED, UNPREPARED, device_index
from kvbuffer_codegen.runtime.cuda_driver import CudaModule, driver
from kvbuffer_codegen.runtime.errors import KernelError
from kvbuffer_codegen.runtime.launcher import make_launcher
from kvbuffer_codegen.runtime.plan import Plan
from kvbuffer_codegen.runtime.triton_kernels import TritonKernel


class Kernel:
    """A loaded kernel: ``kernel(*tensors, *scalars)``, each in the order of ``manifest["arguments"]`` or by name.

    It runs on the device of its tensors, on torch's current stream there; nothing is allocated and nothing waits.
    With B = 0 nothing is launched. Raises :class:`~kvbuffer_codegen.runtime.errors.ArgumentError` before anything is
    touched, and :class:`~kvbuffer_codegen.runtime.errors.KernelError` where the launch itself fails.
    """

    def __init__(self, artifact: Artifact, module: CpuModule | CudaModule, launcher: str | None = None) -> None:
        self.artifact = artifact
        self.manifest: Manifest = artifact.manifest
        self.name = artifact.name
        self.key = artifact.key
        self.plan = Plan.of(artifact.manifest)
        self.module = module
        self.launcher = make_launcher(self.plan, module, launcher)

    def __repr__(self) -> str:
        return f"Kernel({self.name}, {self.manifest['target']['name']}, {self.artifact.folder})"

    def __call__(self, *arguments: Any, **named: Any) -> None:
        if named:
            arguments = self.plan.named(arguments, named)
        status = self.launcher(arguments)
        if status:
            self._settle(status, arguments)

    def prepare(self, index: int = 0) -> None:
        """Load the code on device ``index``: what the first call there would do, and what must come before a graph
        capture.

        Raises :class:`~kvbuffer_codegen.artifact.ArtifactError` where the kernel is not for this device.
        """
        reason = fits(self.manifest, self.module.device(index))
        if reason:
            raise ArtifactError(f"{self.name} cannot run on device {index}: {reason}")
        self.launcher.prepare(index, *self.module.prepare(index))

    def _settle(self, status: int, arguments: tuple[Any, ...]) -> None:
        if status & 7 == UNPREPARED:
            self.prepare(device_index(arguments))
            status = self.launcher(arguments)
        if status & 7 == FAILED:
            raise KernelError(f"{self.name} was not launched: {self.module.describe(status >> 3)}")
        if status:
            self.plan.launch(arguments)
            raise KernelError(
                f"{self.name}: the native launcher refuses what the manifest accepts; report this as a bug"
            )


def load_artifact(artifact: Artifact | Path, device: torch.device | str = "cpu", launcher: str | None = None) -> Kernel:
    """Load an artifact, or the one in a folder, for ``device`` and its like.

    ``launcher``: "native", "ctypes", or None for the first where it is to be had. Raises
    :class:`~kvbuffer_codegen.artifact.ArtifactError` where the artifact is damaged or not for this device,
    :class:`~kvbuffer_codegen.runtime.errors.KernelError` where the driver or the system refuses it.
    """
    device = device_of(device)
    artifact = artifact if isinstance(artifact, Artifact) else read_artifact(folder_of(artifact))
    reason = fits(artifact.manifest, describe(device))
    if reason:
        raise ArtifactError(f"{artifact.name} in {artifact.folder}: {reason}")
    launch = artifact.manifest["launch"]
    module: CpuModule | CudaModule
    if device.type == "cuda":
        module = CudaModule(driver(), artifact.binary, launch["entry"], launch["shared"])
    else:
        module = CpuModule(artifact.binary, launch["entry"])
    kernel = Kernel(artifact, module, launcher)
    kernel.prepare(_index(device))
    return kernel


def load_kernel(
    *,
    form: str,
    recurrence: Any = None,
    heads: tuple[int, int] = (1, 1),
    dims: tuple[int, int] = (0, 0),
    io: torch.dtype | str = "bfloat16",
    state: torch.dtype | str = "float32",
    buffer: int = 16,
    window: int = 0,
    kv_only: int = 0,
    layout: str = "VK",
    records: str = "exact",
    rounding: str = "nearest",
    tree: bool = False,
    batch: int = 1,
    device: torch.device | str = "cpu",
) -> Kernel | TritonKernel:
    """The kernel that the dispatcher finds for this key, for engines with pools of their own; a portable one, with a
    warning, where there is no artifact.

    ``heads``: (H, HV). ``dims``: (K, V). ``batch``: the rows that calls will have most of the time, which decides
    between kernels tuned for different ones. ``advance`` and the commits need ``form`` and ``device`` only. Raises what
    ``dispatcher.find`` and :func:`load_artifact` raise.
    """
    from kvbuffer_codegen.runtime import dispatcher  # which imports this file

    key = {
        "form": form,
        "recurrence": recurrence,
        "heads": heads,
        "dims": dims,
        "io": io,
        "state": state,
        "buffer": buffer,
        "window": window,
        "kv_only": kv_only,
        "layout": layout,
        "records": records,
        "rounding": rounding,
        "tree": tree,
    }
    found = dispatcher.find_kernel(device=device, batch=batch, **key)
    return load_artifact(found, device) if isinstance(found, Artifact) else found


def describe(device: torch.device | str) -> Device:
    """What ``device`` can run. Raises :class:`~kvbuffer_codegen.runtime.errors.KernelError` where there is no such
    device."""
    device = torch.device(device)
    if device.type == "cpu":
        return cpu_device()
    if device.type == "cuda":
        return driver().device(_index(device))
    raise KernelError(f"device {device}; accepted: cpu, cuda")


def _index(device: torch.device) -> int:
    if str(device) == "cuda":
        if not torch.cuda.is_available():
            raise KernelError(f"torch {torch.__version__} finds no GPU; install its CUDA build, or use device='cpu'")
        return torch.cuda.current_device()
    return device.index or 0
