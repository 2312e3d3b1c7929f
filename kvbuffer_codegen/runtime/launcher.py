"""The native launcher: `launcher.cpp`, compiled once with the host's C++ compiler into the user's cache.

Without a compiler, without apache-tvm-ffi, or without a cache that can be written, :mod:`ctypes_launcher` serves.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib.resources
import logging
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import torch

from kvbuffer_codegen.caches import CacheError, cache_folder
from kvbuffer_codegen.runtime.cpu_module import CpuModule
from kvbuffer_codegen.runtime.ctypes_launcher import CtypesLauncher
from kvbuffer_codegen.runtime.cuda_driver import CudaModule
from kvbuffer_codegen.runtime.errors import KernelError, shown
from kvbuffer_codegen.runtime.packing import pack
from kvbuffer_codegen.runtime.plan import Plan
from kvbuffer_codegen.trust import distrust

_FLAGS = ("-std=c++17", "-O2", "-fwrapv", "-fPIC", "-shared", "-fvisibility=hidden")
_log = logging.getLogger(__name__)


class NativeLauncher:
    """Called with the tuple of a kernel's arguments; returns a status (`launcher.cpp`)."""

    def __init__(self, plan: Plan, module: CpuModule | CudaModule) -> None:
        self.library = native_library()
        self.module = module  # the driver's functions and the kernel's code live as long as this
        code = pack(plan)
        address, length = code.buffer_info()
        self.handle = self.library["create"](address, length, exchange_api(), id(torch.Tensor), *module.addresses)
        self.function = self.library["function"](self.handle)
        self.function.release_gil = False  # it looks into Python's objects, and releases the GIL when it has

    def __call__(self, arguments: tuple[Any, ...]) -> int:
        status: int = self.function(id(arguments))
        return status

    def prepare(self, index: int, context: int, function: int) -> None:
        self.library["prepare"](self.handle, index, context, function)


def make_launcher(
    plan: Plan, module: CpuModule | CudaModule, kind: str | None = None
) -> NativeLauncher | CtypesLauncher:
    """``kind``: "native", "ctypes", or None for the first where it is to be had. Raises :class:`KernelError`."""
    if kind is not None and (not isinstance(kind, str) or kind not in ("native", "ctypes")):
        raise KernelError(f"launcher={shown(kind)}; accepted: 'native', 'ctypes', None")
    if kind == "native" or (kind is None and launcher_status()[0] == "native"):
        return NativeLauncher(plan, module)
    return CtypesLauncher(plan, module)


@functools.cache
def launcher_status() -> tuple[str, str]:
    """The launcher that kernels get, "native" or "ctypes", and the native one's file or why there is none."""
    try:
        native_library()
    except KernelError as error:
        _log.warning("%s; calls go through ctypes, at 20 us and more of host time each", error)
        return "ctypes", str(error)
    return "native", str(_built())


def exchange_api() -> int:
    """The address of torch's table of DLPack functions (dlpack.h: DLPackExchangeAPI)."""
    capsule = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    if capsule is None:
        raise KernelError(
            f"no native launcher: torch {torch.__version__} has no DLPack exchange API; "
            "accepted: torch 2.11 and newer, update it"
        )
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return int(pointer(capsule, b"dlpack_exchange_api"))


@functools.cache
def native_library() -> Any:
    """The compiled launcher, loaded. Raises :class:`KernelError` with the reason where there is none."""
    exchange_api()
    try:
        import tvm_ffi
    except ImportError as error:
        raise KernelError(f"no native launcher: {error}; install apache-tvm-ffi") from None
    return tvm_ffi.load_module(str(_built()))


@functools.cache
def _built() -> Path:
    import tvm_ffi.libinfo

    source = (importlib.resources.files(__package__) / "launcher.cpp").read_bytes()
    identity = hashlib.sha256(
        b"\0".join([source, tvm_ffi.__version__.encode(), os.uname().machine.encode(), repr(_FLAGS).encode()])
    )
    try:
        path = cache_folder("launcher") / f"launcher-{identity.hexdigest()[:16]}.so"
        if not path.exists():
            _compile(source, path, tvm_ffi.libinfo.include_paths())
        reason = distrust(path, path.lstat())
    except (CacheError, OSError) as error:
        raise KernelError(f"no native launcher: {error}") from None
    if reason:
        raise KernelError(f"no native launcher: {reason}")
    return path


def _compile(source: bytes, path: Path, includes: list[str]) -> None:
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if not compiler:
        raise KernelError("no native launcher: no C++ compiler is found; install g++ or set CXX")
    with tempfile.TemporaryDirectory(prefix="build-", dir=path.parent) as folder:
        text, binary = Path(folder) / "launcher.cpp", Path(folder) / "launcher.so"
        text.write_bytes(source)
        command = [
            *compiler.split(),
            *_FLAGS,
            *(f"-I{i}" for i in dict.fromkeys(includes)),
            str(text),
            "-o",
            str(binary),
        ]
        try:
            result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise KernelError(f"no native launcher: {error}; check CXX") from None
        if result.returncode:
            first = next((line for line in result.stderr.splitlines() if "error" in line), result.stderr.strip()[:300])
            raise KernelError(f"no native launcher: {compiler} failed: {first}")
        binary.chmod(0o700)
        binary.replace(path)
