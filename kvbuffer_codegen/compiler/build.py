"""From a kernel's spec, schedule and target to an artifact folder."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

from kvbuffer_codegen.artifact import SCHEMA, cpu_device, write_artifact
from kvbuffer_codegen.compiler.lower import Lowered, device_ir, lower, rename
from kvbuffer_codegen.compiler.toolchain import Binary, Compiler, compile_source, find_compiler
from kvbuffer_codegen.ir.forms import KernelSpec
from kvbuffer_codegen.ir.signature import ScalarArg, TensorArg, inner_axes, signature, to_dict
from kvbuffer_codegen.schedules import Program, program, space
from kvbuffer_codegen.schedules.space import Schedule
from kvbuffer_codegen.schedules.targets import Target

#: What ``levels`` can show per kind of target.
LEVELS = {"cuda": ("tilelang", "tir", "cuda"), "cpu": ("tilelang", "tir", "c")}
_SUFFIXES = {"cuda": ("cu", "cubin"), "cpu": ("cpp", "so")}


def emit(spec: KernelSpec, schedule: Schedule, target: Target) -> Lowered:
    """The device source of a kernel and its launch; equal arguments give equal bytes.

    Raises ``ValueError`` for an illegal schedule, :class:`~kvbuffer_codegen.compiler.lower.LoweringError` for a
    program that cannot become a kernel.
    """
    made = _program(spec, schedule, target)
    return lower(made.func, target, name=spec.name, cells=made.cells, **_passes(spec, target))


def build(spec: KernelSpec, schedule: Schedule, target: Target, folder: Path) -> Path:
    """Compile a kernel into the artifact ``folder`` (docs/artifacts.md): binary, source, manifest. Returns ``folder``.

    No GPU is needed. Raises what :func:`emit` raises, :class:`~kvbuffer_codegen.compiler.toolchain.MissingCompiler` and
    :class:`~kvbuffer_codegen.compiler.toolchain.CompileError`; then nothing is written.
    """
    compiler = find_compiler(target)
    lowered = emit(spec, schedule, target)
    binary = compile_source(lowered.source, compiler)
    source_suffix, binary_suffix = _SUFFIXES[target.kind]
    files = {
        f"{spec.name}.{source_suffix}": lowered.source.encode(),
        f"{spec.name}.{binary_suffix}": binary.data,
    }
    return write_artifact(Path(folder), manifest(spec, schedule, target, lowered, binary, compiler), files)


def levels(spec: KernelSpec, schedule: Schedule, target: Target, level: str) -> str:
    """The kernel's text: "tilelang" (the program), "tir" (lowered by TileLang), "cuda" or "c" (what is compiled).

    Raises ``ValueError`` for a level that ``target`` has not.
    """
    if level not in LEVELS[target.kind]:
        raise ValueError(
            f"level {level!r} does not exist for target {target.name}; accepted: {', '.join(LEVELS[target.kind])}"
        )
    if level in ("cuda", "c"):
        return emit(spec, schedule, target).source
    func = _program(spec, schedule, target).func
    return str(func.script()) + "\n" if level == "tilelang" else device_ir(func, target, **_passes(spec, target)) + "\n"


#: The order in which a kernel needs its arguments; sizes and scalars are needed first.
_ROLES = ("index", "cursors", "input", "parameter", "record", "scale", "state", "out")


def _passes(spec: KernelSpec, target: Target) -> dict[str, Any]:
    """What ``lower`` is told of a GPU kernel's arguments: which strides have products that need 64 bits, and by what
    its parameters are ordered."""
    if target.kind == "cpu":
        return {}
    tensors = {a.name: a for a in signature(spec) if isinstance(a, TensorArg)}
    wide = {f"{a.name}_s{axis}" for a in tensors.values() for axis in a.free_strides if axis not in inner_axes(a.shape)}

    def rank(parameter: str) -> int:
        tensor = tensors.get(parameter) or tensors.get(parameter.rpartition("_")[0])
        return _ROLES.index(tensor.role) if tensor else 0

    return {"wide": wide, "rank": rank}


def _program(spec: KernelSpec, schedule: Schedule, target: Target) -> Program:
    """The template's program, its arguments and run-time integers called as the signature says.

    An assignment in a template, ``heads = a.HV``, renames the variable behind ``a.HV`` itself, and names are all that
    ties a launch expression to a size.
    """
    made = program(spec, schedule, target)
    for argument, parameter in zip(signature(spec), made.func.params, strict=False):
        if isinstance(argument, ScalarArg):
            rename(parameter, argument.name)
            continue
        buffer = made.func.buffer_map[parameter]
        rename(buffer, argument.name)
        for size, extent in zip(argument.shape, buffer.shape, strict=False):
            if isinstance(size, str) and size.isidentifier():
                rename(extent, size)
        for axis in argument.free_strides:
            rename(buffer.strides[axis], f"{argument.name}_s{axis}")
        if argument.dtype == "index":
            rename(buffer.shape[-1], f"{argument.name}_words")
    if target.kind == "cpu":
        rename(made.func.params[-1], "cell")
    return made


def manifest(
    spec: KernelSpec, schedule: Schedule, target: Target, lowered: Lowered, binary: Binary, compiler: Compiler
) -> dict[str, Any]:
    """The manifest of a kernel, its ``files`` aside (``write_artifact`` fills them in)."""
    recurrence = spec.recurrence
    return {
        "schema": SCHEMA,
        "name": spec.name,
        "form": spec.form,
        "recurrence": recurrence
        and {"name": recurrence.name, "hash": recurrence.hash, "normal_form": recurrence.to_dict()},
        "records": [
            {"name": f.name, "dtype": f.dtype, "heads": f.heads, "axis": f.axis}
            for f in (spec.record_layout.fields if recurrence else ())
        ],
        "io": spec.io,
        "state": spec.state,
        "records_mode": spec.records,
        "layout": spec.layout,
        "dims": {"K": spec.K, "V": spec.V},
        "ratio": spec.ratio,
        "buffer": spec.buffer,
        "window": spec.window,
        "kv_only": spec.kv_only,
        "rounding": spec.rounding,
        **({"tree": True} if spec.tree else {}),
        "target": _target(target, compiler),
        "arguments": [to_dict(a) for a in signature(spec)],
        "launch": lowered.launch,
        "schedule": schedule.to_dict(),
        "schedule_space": space.space_hash(),
        "compiler": {
            "tilelang": version("tilelang"),
            compiler.name: compiler.version,
            "flags": " ".join(compiler.flags),
        },
        "resources": dict(binary.resources),
        "evidence": [],
    }


def _target(target: Target, compiler: Compiler) -> dict[str, Any]:
    common = {"name": target.name, "kind": target.kind, "arch": target.arch}
    if target.kind == "cpu":
        host = cpu_device()
        return {**common, "machine": host.capability, "features": sorted(host.features)}
    # A driver loads cubins of its own major version's toolkit and of older ones.
    toolkit = int(compiler.version.split(".")[0]) * 1000
    return {**common, "capabilities": list(target.capabilities), "min_driver": max(target.min_driver, toolkit)}
