"""Portable kernels: files of Triton source, compiled by Triton for the device at hand.

The only file of the runtime that imports triton. A file is run only where its bytes have the digest that an
``index.json`` lists. Each kernel is compiled once a device, from the spec alone, so no call compiles anything and a
graph can be captured after :meth:`TritonKernel.prepare`.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import linecache
import types
from pathlib import Path
from typing import Any

import torch

from kvbuffer_codegen.artifact import ArtifactError, read_file
from kvbuffer_codegen.ir import portable
from kvbuffer_codegen.ir.forms import KernelSpec
from kvbuffer_codegen.ir.signature import signature, to_dict
from kvbuffer_codegen.runtime.ctypes_launcher import device_index
from kvbuffer_codegen.runtime.errors import KernelError
from kvbuffer_codegen.runtime.plan import Plan

#: Triton's names of pointers and integers.
TYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "int32": "i32", "int64": "i64"}


@functools.cache
def available() -> bool:
    """Whether Triton is installed."""
    return importlib.util.find_spec("triton") is not None


class TritonKernel:
    """``spec`` by the portable kernel in the file ``path``; call it with the arguments of ``signature(spec)``.

    It runs on the device of its tensors, on torch's current stream there; nothing is allocated and nothing waits.
    ``device`` "cpu" is for Triton's interpreter. Raises :class:`~kvbuffer_codegen.artifact.ArtifactError` where the
    file's sha256 is not ``digest``, :class:`~kvbuffer_codegen.runtime.errors.KernelError` where Triton cannot run or
    compile it; calls raise :class:`~kvbuffer_codegen.runtime.errors.ArgumentError` as a compiled kernel does.
    """

    def __init__(self, spec: KernelSpec, path: Path, digest: str, device: torch.device | str = "cuda") -> None:
        if not available():
            raise KernelError("portable kernels need triton; install the extra kvbuffer-codegen[triton]")
        self.spec, self.path, self.digest = spec, path, digest
        self.name = portable.function_name(spec)
        self.manifest = _manifest(spec, torch.device(device).type)
        self.plan = Plan.of(self.manifest)
        self.function = getattr(_module(path, checked(path, digest)), self.name)
        self.parameters = portable.parameters(spec)
        self._position = {a.name: i for i, a in enumerate(signature(spec))}
        self._compiled: dict[int, Any] = {}

    def __repr__(self) -> str:
        return f"TritonKernel({self.name}, {self.path})"

    def __call__(self, *arguments: Any, **named: Any) -> None:
        if named:
            arguments = self.plan.named(arguments, named)
        launch = self.plan.launch(arguments)
        if not launch.grid:
            return
        values = self._values(arguments, launch.slots)
        if self.plan.device_type == "cpu":
            self.function[launch.grid](*values)
            return
        index = device_index(arguments)
        compiled = self._compiled.get(index) or self.prepare(index)
        if index == torch.cuda.current_device():
            compiled[launch.grid](*values)
        else:
            with torch.cuda.device(index):
                compiled[launch.grid](*values)

    def prepare(self, index: int = 0) -> Any:
        """Compile and load the kernel on CUDA device ``index``: what must come before a graph capture."""
        import triton

        with torch.cuda.device(index):
            try:
                target = triton.runtime.driver.active.get_current_target()
                compiled = compile_for(self.function, self.spec, target)
                compiled._init_handles()
            except Exception as error:  # Triton's errors have no common class
                raise KernelError(f"{self.name}: Triton cannot compile it here: {error}") from error
        return self._compiled.setdefault(index, compiled)

    def _values(self, arguments: tuple[Any, ...], slots: tuple[int, ...]) -> list[Any]:
        """The kernel's parameters: tensors, integers of the plan, constants."""
        values: list[Any] = []
        for parameter, slot in zip(self.parameters, (*slots, *[0] * len(self.parameters)), strict=False):
            if parameter.kind == "constant":
                values.append(parameter.value)
            elif parameter.kind == "integer":
                values.append(slot)
            else:
                values.append(_tensor(arguments[self._position[parameter.argument]], parameter.dtype))
        return values


def compile_for(function: Any, spec: KernelSpec, target: Any) -> Any:
    """The kernel of ``spec`` compiled by Triton for ``target``, a ``GPUTarget``; no GPU is needed."""
    from triton.compiler import ASTSource
    from triton.compiler import compile as compile_source

    types_: dict[str, str] = {}
    constants: dict[str, Any] = {}
    attributes: dict[tuple[int], list[list[Any]]] = {}
    for i, p in enumerate(portable.parameters(spec)):
        if p.kind == "constant":
            types_[p.name] = "constexpr"
            constants[p.name] = p.value
            continue
        types_[p.name] = f"{'*' if p.kind == 'pointer' else ''}{TYPES[p.dtype]}"
        if p.divisor > 1:
            attributes[(i,)] = [["tt.divisibility", p.divisor]]
    source = ASTSource(function, types_, constants, attributes)
    options = {"num_warps": portable.WARPS, "maxnreg": portable.REGISTERS}
    return compile_source(source, target=target, options=options)


def checked(path: Path, digest: str) -> bytes:
    """The bytes of ``path``, whose sha256 is ``digest``. Raises ``ArtifactError``."""
    data = read_file(path)
    actual = hashlib.sha256(data).hexdigest()
    if actual != digest:
        raise ArtifactError(f"{path} has sha256 {actual}, the index lists {digest}: build or fetch it again")
    return data


@functools.lru_cache(maxsize=256)
def _module(path: Path, data: bytes) -> types.ModuleType:
    """The kernels of a file: the bytes that were hashed are the bytes that run."""
    text, name = data.decode(), str(path)
    made = types.ModuleType(f"kvbuffer_codegen_triton_{path.stem}")
    made.__file__ = name
    linecache.cache[name] = (len(data), None, text.splitlines(keepends=True), name)  # Triton asks for source there
    exec(compile(text, name, "exec"), made.__dict__)
    return made


def _tensor(given: torch.Tensor, dtype: str) -> Any:
    """``given``, an int64 index as the int32 words that the kernel reads."""
    if dtype == "int32" and given.dtype == torch.int64:
        import triton

        return triton.reinterpret(given, triton.language.int32)
    return given


def _manifest(spec: KernelSpec, kind: str) -> dict[str, Any]:
    """What :class:`Plan` reads of a manifest."""
    passed = [
        {"pointer": p.argument} if p.kind == "pointer" else {"integer": p.name, "dtype": p.dtype}
        for p in portable.parameters(spec)
        if p.kind != "constant"
    ]
    return {
        **spec.key(),
        "name": portable.function_name(spec),
        "target": {"kind": kind},
        "arguments": [to_dict(a) for a in signature(spec)],
        "launch": {"grid": [portable.cells(spec)], "block": [32 * portable.WARPS], "shared": 0, "arguments": passed},
    }
