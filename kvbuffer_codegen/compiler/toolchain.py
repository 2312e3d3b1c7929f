"""The host's compilers: g++ for CPU kernels, nvcc for cubins. Finds them, runs them, reads what they report.

nvcc comes from CUDA_HOME, from PATH, or from the wheels of the extra ``cuda-build`` in site-packages, in this order.
"""

from __future__ import annotations

import os
import re
import shutil
import site
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from kvbuffer_codegen.compiler.cubin import waits_first
from kvbuffer_codegen.schedules.targets import Target

#: Not -ffast-math: a log-decay of -infinity is legal, and a sum must not be reordered behind the schedule's back.
GXX_FLAGS = (
    "-std=c++17",
    "-O3",
    "-march=native",
    "-fopenmp",
    "-fno-strict-aliasing",  # TileLang reinterprets floats through pointers
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=fast",
    "-fPIC",
    "-shared",
    "-w",
)
#: Without -lineinfo, which triples a cubin and writes the build's paths into it.
NVCC_FLAGS = ("-cubin", "-O3", "-std=c++20", "-w", "-Xptxas", "-v")
#: In names of what headers keep to a file nvcc puts hashes of that file and of the folder it was in.
MODULE = re.compile(rb"(_INTERNAL_|_GLOBAL__N__)[0-9a-f]{8}(_9_kernel_cu_)[0-9a-f]{8}")
WHEELS = ("nvidia-cuda-nvcc", "nvidia-cuda-crt", "nvidia-nvvm", "nvidia-cuda-runtime", "nvidia-cuda-cccl")


class MissingCompiler(RuntimeError):  # noqa: N818  (what is missing, not an error of the compiler)
    """A compiler that a target needs is not installed; the message names the package that brings it."""


class CompileError(RuntimeError):
    """A compiler refused generated source; the message ends with what it said."""


@dataclass(frozen=True)
class Compiler:
    """A compiler that was found: its executable, its version, and the flags it will get."""

    name: str
    path: str
    version: str
    flags: tuple[str, ...]


@dataclass(frozen=True)
class Binary:
    """What a compiler made: the bytes, and for CUDA registers of a thread, spilled bytes and static shared memory."""

    data: bytes
    resources: dict[str, int] = field(default_factory=dict)


def find_compiler(target: Target) -> Compiler:
    """The compiler that ``target`` needs; raises :class:`MissingCompiler`."""
    return find_gxx() if target.kind == "cpu" else find_nvcc(target)


def compile_source(source: str, compiler: Compiler) -> Binary:
    """Device source (:mod:`lower`) to a shared object (g++) or a cubin (nvcc); raises :class:`CompileError`."""
    if compiler.name == "g++":
        data, _ = _run(compiler, source, "kernel.cpp", "kernel.so", ("-lm",))
        return Binary(data)
    data, log = _run(compiler, source, "kernel.cu", "kernel.cubin", _tilelang_includes())
    data = MODULE.sub(rb"\g<1>00000000\g<2>00000000", data)
    if "cudaGridDependencySynchronize()" in source and not waits_first(data):
        moved = "moved an access of memory in front of the wait for the kernel before"
        raise CompileError(f"{compiler.name} {compiler.version} {moved}")
    return Binary(data, ptxas_resources(log))


def ptxas_resources(log: str) -> dict[str, int]:
    """What ``ptxas -v`` says of one kernel: registers, bytes spilled, of local memory, of static shared memory."""

    def largest(pattern: str) -> int:
        return max((int(n) for n in re.findall(pattern, log)), default=0)

    return {
        "registers": largest(r"Used (\d+) registers"),
        "spill_bytes": largest(r"(\d+) bytes spill stores") + largest(r"(\d+) bytes spill loads"),
        "stack_bytes": largest(r"(\d+) bytes stack frame"),
        "static_shared": largest(r"(\d+) bytes smem"),
    }


def find_gxx() -> Compiler:
    """g++, or what the variable CXX names; raises :class:`MissingCompiler`."""
    wanted = os.environ.get("CXX") or "g++"
    path = shutil.which(wanted)
    if path is None:
        raise MissingCompiler(
            f"C++ compiler {wanted!r} not found; CPU kernels need g++ (Debian package g++), or CXX naming another"
        )
    return Compiler("g++", path, _output(path, "-dumpfullversion", "-dumpversion"), GXX_FLAGS)


def find_nvcc(target: Target) -> Compiler:
    """The first nvcc that knows ``target``; raises :class:`MissingCompiler`."""
    too_old = []
    for path in _nvcc_paths():
        found = re.search(r"release (\d+)\.(\d+), V(\S+)", _output(str(path), "--version"))
        if found is None:
            too_old.append(f"{path} does not answer --version")
        elif (int(found[1]), int(found[2])) < target.min_toolkit:
            too_old.append(f"{path} is of CUDA {found[3]}")
        elif shutil.which("gcc") is None:
            raise MissingCompiler("gcc not found on PATH; nvcc preprocesses with it (Debian packages gcc and g++)")
        else:
            return Compiler("nvcc", str(path), found[3], (*NVCC_FLAGS, f"-arch={target.arch}"))
    least = ".".join(map(str, target.min_toolkit))
    raise MissingCompiler(
        f"no nvcc for {target.arch} in CUDA_HOME, on PATH or in site-packages ({'; '.join(too_old) or 'none at all'}); "
        f"install a CUDA toolkit from {least} on, or `pip install 'kvbuffer-codegen[cuda-build]'` (the wheels "
        "nvidia-cuda-nvcc, nvidia-cuda-cccl, ...)"
    )


def _nvcc_paths() -> Iterator[Path]:
    home = os.environ.get("CUDA_HOME")
    if home and (Path(home) / "bin" / "nvcc").is_file():
        yield Path(home) / "bin" / "nvcc"
    on_path = shutil.which("nvcc")
    if on_path:
        yield Path(on_path)
    for root in _site_packages():
        for nvcc in sorted(root.glob("nvidia/cu*/bin/nvcc")):
            include = nvcc.parents[1] / "include"
            if not any((include / folder / "nv" / "target").is_file() for folder in ("", "cccl")):
                raise MissingCompiler(f"{nvcc} lacks headers; `pip install nvidia-cuda-cccl` of the same CUDA version")
            yield nvcc


def _site_packages() -> list[Path]:
    roots = [sysconfig.get_path("purelib"), *site.getsitepackages(), site.getusersitepackages(), *sys.path]
    return [Path(root) for root in dict.fromkeys(roots) if root]


def _tilelang_includes() -> tuple[str, ...]:
    spec = find_spec("tilelang")
    if spec is None or spec.origin is None:
        raise MissingCompiler("tilelang is not installed; `pip install 'kvbuffer-codegen[compile]'`")
    root = Path(spec.origin).parent
    return (f"-I{root / 'src'}", f"-I{root / '3rdparty' / 'cutlass' / 'include'}")


def _run(compiler: Compiler, source: str, name: str, output: str, more: tuple[str, ...]) -> tuple[bytes, str]:
    """Compile in an empty folder under fixed names, so that the same source gives the same bytes."""
    with tempfile.TemporaryDirectory(prefix="kvb-") as folder:
        (Path(folder) / name).write_text(source)
        command = [compiler.path, *compiler.flags, "-o", output, name, *more]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            said = (done.stderr + done.stdout).strip()[-2000:]
            what = f"{compiler.name} {compiler.version} refused generated source (exit {done.returncode})"
            raise CompileError(f"{what}:\n{said}{_hint(said)}")
        return (Path(folder) / output).read_bytes(), done.stderr + done.stdout


def _hint(said: str) -> str:
    if "toolkit headers are incompatible" in said:
        return f"\nThe CUDA wheels are of different versions; install one minor version of {', '.join(WHEELS)}."
    return ""


def _output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    return (done.stdout + done.stderr).strip()
