"""Artifacts without a compiler's help: manifests from real signatures, binaries from a few lines of C that record
what they are given."""

from __future__ import annotations

import ctypes
import platform
import subprocess
from pathlib import Path
from typing import Any

import torch

from kvbuffer_codegen.ir.forms import KernelSpec
from kvbuffer_codegen.ir.normal_form import trace
from kvbuffer_codegen.ir.recurrences.gated_delta_rule import gated_delta_rule
from kvbuffer_codegen.ir.signature import ScalarArg, TensorArg, signature, to_dict

# Sizes of the calls in these tests, by symbol.
SIZES = {"B": 3, "P": 5, "N": 4, "R": 7, "H": 2, "HV": 4, "Y": 2}

RECORDER = """
#include <stdint.h>
#include <string.h>
uint64_t recorded[256];
int64_t recorded_grid[3];
int32_t calls, answer;
int32_t entry(const uint64_t* arguments, const int64_t* grid) {
  memcpy(recorded, arguments, SLOTS * sizeof(uint64_t));
  memcpy(recorded_grid, grid, 3 * sizeof(int64_t));
  ++calls;
  return answer;
}
"""

MOCK_CUDA = """
#include <stdint.h>
#include <string.h>
typedef struct { unsigned grid[3], block[3], shared; void* stream; void* attributes; unsigned count; } Config;
uint64_t recorded[256];
Config config;
int attribute[3], slots, calls, answer, version = 13000, major = 9, minor = 0, shared_limit;
void* current;
void* launched_in;
void* launched;
int pushes, pops, loads, functions;
int cuInit(unsigned f) { return 0; }
int cuDriverGetVersion(int* v) { *v = version; return 0; }
int cuGetErrorString(int c, const char** s) { *s = c == 719 ? "unspecified launch failure" : "other"; return 0; }
int cuDeviceGet(int* d, int i) { *d = i; return i < 2 ? 0 : 101; }
int cuDeviceGetName(char* s, int n, int d) { strncpy(s, "Mock", n); return 0; }
int cuDeviceGetAttribute(int* v, int a, int d) { *v = a == 75 ? major : minor; return 0; }
int cuDevicePrimaryCtxRetain(void** c, int d) { *c = (void*)(uintptr_t)(0x1000 + d); return 0; }
int cuCtxGetCurrent(void** c) { *c = current; return 0; }
int cuCtxPushCurrent_v2(void* c) { ++pushes; current = c; return 0; }
int cuCtxPopCurrent_v2(void** c) { ++pops; *c = current; current = 0; return 0; }
int cuLibraryLoadData(void** l, const void* code, void* a, void* b, unsigned n, void* c, void* d, unsigned m) {
  ++loads; *l = (void*)0x2000; return memcmp(code, "cubin", 5) ? 200 : 0;
}
int cuLibraryGetKernel(void** k, void* l, const char* name) { *k = (void*)0x3000; return strcmp(name, "entry") ? 500 :
0; } int cuLibraryUnload(void* l) { --loads; return 0; }
int cuKernelSetAttribute(int a, int v, void* k, int d) { shared_limit = a == 8 ? v : -1; return 0; }
int cuKernelGetFunction(void** f, void* k) { ++functions; *f = (void*)0x4000; return current ? 0 : 201; }
int cuLaunchKernelEx(const Config* c, void* f, void** arguments, void** extra) {
  ++calls; config = *c; launched = f; launched_in = current;
  memset(attribute, 0, sizeof attribute);
  if (c->count) memcpy(attribute, c->attributes, sizeof attribute);
  for (int i = 0; i < slots; ++i) memcpy(&recorded[i], arguments[i], 8);
  return answer;
}
"""


def build_c(source: str, path: Path, *flags: str) -> Path:
    text = path.with_suffix(".c")
    text.write_text(source)
    subprocess.run(["cc", "-w", "-O1", "-shared", "-fPIC", *flags, str(text), "-o", str(path)], check=True)
    return path


def spec_of(form: str = "decode", **fields: Any) -> KernelSpec:
    if form in ("advance", "commit"):
        return KernelSpec(form, None)
    defaults = {"K": 16, "V": 16, "ratio": 2, "io": "bfloat16", "buffer": 4, "window": 3 if form == "verify" else 0}
    return KernelSpec(form, trace(gated_delta_rule), **{**defaults, **fields})


def manifest_of(spec: KernelSpec, kind: str = "cpu", shared: int = 0) -> dict[str, Any]:
    """A manifest whose launch passes every tensor, every free stride and every size."""
    arguments = [to_dict(a) for a in signature(spec)]
    slots: list[dict[str, Any]] = []
    for a in arguments:
        slots += [{"pointer": a["name"]}] if "shape" in a else [{"integer": a["name"], "dtype": "int32"}]
        slots += [{"integer": f"{a['name']}_s{axis}", "dtype": "int64"} for axis in a.get("free_strides", ())]
        if a.get("role") == "index":
            slots += [{"integer": f"{a['name']}_words", "dtype": "int32"}]
    slots += [
        {"integer": "B", "dtype": "int32"},
        {"integer": "P + 1", "dtype": "int32"},
        {"integer": "B * 2", "dtype": "float32"},
    ]
    nf = spec.recurrence
    targets = {
        "cpu": {"arch": platform.machine(), "machine": platform.machine(), "features": []},
        "cuda": {"arch": "sm_90a", "capabilities": ["9.0"], "min_driver": 12000},
    }
    fields = spec.record_layout.fields if nf else ()
    return {
        "schema": 1,
        "name": spec.name,
        "form": spec.form,
        "recurrence": {"name": nf.name, "hash": nf.hash, "normal_form": nf.to_dict()} if nf else None,
        "records": [{"name": f.name, "dtype": f.dtype, "heads": f.heads, "axis": f.axis} for f in fields],
        "io": spec.io,
        "state": spec.state,
        "records_mode": spec.records,
        "layout": spec.layout,
        "dims": {"K": spec.K, "V": spec.V},
        "ratio": spec.ratio,
        "buffer": spec.buffer,
        "window": spec.window,
        "kv_only": spec.kv_only,
        "target": {"name": kind, "kind": kind, **targets[kind]},
        "arguments": arguments,
        "launch": {
            "entry": "entry",
            "grid": ["B", "max(P // 2, 1)", 1],
            "block": [128, 1, 1],
            "shared": shared,
            "arguments": slots,
        },
        "schedule": {"kind": kind},
        "schedule_space": "0123",
        "compiler": {"cc": "12"},
        "resources": {"registers": 64, "spill_bytes": 0},
        "files": {},
        "evidence": [],
    }


def arguments_of(spec: KernelSpec, sizes: dict[str, int] | None = None, **replaced: Any) -> dict[str, Any]:
    """Well-formed arguments by name; the tensors are zero."""
    sizes = {**SIZES, **(sizes or {})}
    result: dict[str, Any] = {}
    for a in signature(spec):
        if isinstance(a, ScalarArg):
            result[a.name] = 1
            continue
        dtype = torch.int32 if a.dtype == "index" else getattr(torch, a.dtype)
        result[a.name] = torch.zeros([size_of(s, sizes) for s in a.shape], dtype=dtype)
    return {**result, **replaced}


def size_of(size: int | str, sizes: dict[str, int]) -> int:
    return sizes["P"] + 1 if size == "P + 1" else sizes[size] if isinstance(size, str) else size


def tensor_of(spec: KernelSpec, name: str) -> TensorArg:
    return next(a for a in signature(spec) if isinstance(a, TensorArg) and a.name == name)


def expected_slots(spec: KernelSpec, given: dict[str, Any], sizes: dict[str, int] | None = None) -> list[int]:
    """The slots that `manifest_of` asks for, worked out by hand."""
    sizes = {**SIZES, **(sizes or {})}
    result = []
    for a in signature(spec):
        value = given[a.name]
        if isinstance(a, ScalarArg):
            result.append(value % 2**64)
            continue
        words = value.element_size() // 4 if a.role == "index" else 1
        result.append(value.data_ptr())
        result += [value.stride(i) * words if value.shape[i] != 1 else 0 for i in a.free_strides]
        result += [words] if a.role == "index" else []
    as_float = int.from_bytes(bytes(ctypes.c_float(2.0 * sizes["B"])), "little")
    return [*result, sizes["B"], sizes["P"] + 1, as_float]
