"""Runs the CUDA source of a kernel on this CPU (emulator.h): a kernel to call with CPU tensors, as the runtime's are
with CUDA ones."""

from __future__ import annotations

import ctypes
import dataclasses
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from kvbuffer_codegen.compiler.build import manifest
from kvbuffer_codegen.compiler.lower import Lowered
from kvbuffer_codegen.compiler.toolchain import Binary, Compiler
from kvbuffer_codegen.ir.forms import KernelSpec
from kvbuffer_codegen.runtime.plan import Plan
from kvbuffer_codegen.schedules.space import Schedule
from kvbuffer_codegen.schedules.targets import Target

HERE = Path(__file__).parent
FLAGS = (
    "-std=c++20",
    "-O1",
    "-w",
    "-fPIC",
    "-shared",
    "-fno-strict-aliasing",
    "-fsanitize=alignment",
    "-fsanitize-undefined-trap-on-error",
)


def compile_kernel(lowered: Lowered, folder: Path) -> ctypes.CDLL:
    """The source of ``lowered`` and the emulator as a shared object in a new folder below ``folder``.

    A path that was loaded once gives the same code again, and schedules of one spec share a name: each has its own.
    """
    folder = Path(tempfile.mkdtemp(dir=folder))
    source = re.sub(r"^\s*#.*$", "", lowered.source, flags=re.MULTILINE)  # TileLang's headers, pragmas of nvcc
    # nvcc keeps these in registers, however they are accessed; memory wants them aligned.
    source = re.sub(r"^(\s+)(\w+ \w+\[\d+\];)$", r"\1alignas(16) \2", source, flags=re.MULTILINE)
    main = (
        "static const uint64_t* slots;\n"
        f"static void body() {{ emulator::call({lowered.entry}, slots); }}\n"
        'extern "C" int emulate(long long blocks, int threads, int descending, const uint64_t* given) {\n'
        "  slots = given;\n  return emulator::run(body, blocks, threads, descending);\n}\n"
    )
    text, binary = folder / f"{lowered.entry}.cpp", folder / f"{lowered.entry}.so"
    text.write_text(f'#include "{HERE / "emulator.h"}"\n{source}\n{main}')
    subprocess.run(["g++", *FLAGS, "-o", str(binary), str(text)], check=True)
    library = ctypes.CDLL(str(binary))
    library.emulate.argtypes = [ctypes.c_longlong, ctypes.c_int, ctypes.c_int, ctypes.c_void_p]
    return library


class Emulated:
    """The kernel of ``spec``, called positionally with CPU tensors; each call checks the arguments as the launchers do.

    ``descending``: threads run from the last to the first. Raises ``RuntimeError`` where threads wait for others in
    vain.
    """

    def __init__(self, spec: KernelSpec, schedule: Schedule, target: Target, lowered: Lowered, folder: Path):
        made = manifest(spec, schedule, target, lowered, Binary(b""), Compiler("nvcc", "", "12.0", ()))
        self.plan = dataclasses.replace(Plan.of(made), device_type="cpu")
        self.library = compile_kernel(lowered, folder)
        self.descending = False

    def __call__(self, *arguments: Any) -> None:
        launch = self.plan.launch(arguments)
        if launch.grid:
            slots = (ctypes.c_uint64 * len(launch.slots))(*launch.slots)
            if self.library.emulate(launch.grid[0], launch.block[0], self.descending, slots):
                raise RuntimeError(
                    f"{self.plan.name}: some threads of a warp or block do not reach a shuffle or barrier"
                )
