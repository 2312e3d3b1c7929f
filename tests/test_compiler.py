"""The compiler on small programs of its own: lowering, launch facts, both toolchains, refusals.

Without postponed annotations: TileLang evaluates those of a prim_func, and they name sizes of the enclosing function.
"""

import ctypes
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("tilelang")

import tilelang.language as T
from tilelang import tvm

from kvbuffer_codegen import expressions
from kvbuffer_codegen.artifact import cpu_device, read_artifact
from kvbuffer_codegen.compiler import toolchain
from kvbuffer_codegen.compiler.build import build, emit, levels
from kvbuffer_codegen.compiler.cpu_source import PROLOGUE
from kvbuffer_codegen.compiler.cubin import waits_first
from kvbuffer_codegen.compiler.lower import Lowered, LoweringError, _repair_bfloat16, device_ir, expression, lower
from kvbuffer_codegen.compiler.toolchain import (
    CompileError,
    Compiler,
    MissingCompiler,
    compile_source,
    find_compiler,
    ptxas_resources,
)
from kvbuffer_codegen.ir.forms import FORMS, KernelSpec, cursor_spec
from kvbuffer_codegen.ir.normal_form import trace
from kvbuffer_codegen.ir.recurrences.gated_delta_rule import gated_delta_rule
from kvbuffer_codegen.ir.signature import signature
from kvbuffer_codegen.schedules import space
from kvbuffer_codegen.schedules.targets import TARGETS, Target, target

K, V, HV = 64, 32, 2
CPU = target("cpu")
CUDA = [t for t in TARGETS.values() if t.kind == "cuda"]


def cpu_program(dtype: str):
    """out[b, h] = exp(state[slot, h] @ x[b]) + shift, one (b, h) a cell; rows whose slot is out of range are zero."""
    B, P = T.dynamic("B"), T.dynamic("P")
    state_s0, x_s0, slots_s0 = (T.dynamic(n, "int64") for n in ("state_s0", "x_s0", "slots_s0"))

    @T.prim_func
    def small(
        state: T.StridedTensor((P, HV, V, K), (state_s0, V * K, K, 1), dtype),
        slots: T.StridedTensor((B, 1), (slots_s0, 1), "int32"),
        x: T.StridedTensor((B, K), (x_s0, 1), dtype),
        out: T.Tensor((B, HV, V), dtype),
        shift: T.int32,
        cell: T.int32,
    ):
        with T.Kernel(1):
            sums = T.alloc_local((V,), "float32")
            row = T.alloc_local((K,), "float32")
            b = cell // HV
            h = cell % HV
            s = slots[b, 0]
            T.clear(sums)
            if s >= 0 and s < P:
                for i in T.serial(K):
                    row[i] = T.cast(x[b, i], "float32")
                for j in T.serial(V):
                    for i in T.serial(K):
                        sums[j] = sums[j] + T.cast(state[s, h, j, i], "float32") * row[i]
                for j in T.serial(V):
                    sums[j] = T.exp(sums[j]) + T.cast(shift, "float32")
            for j in T.serial(V):
                out[b, h, j] = T.cast(sums[j], dtype)

    return small


def cuda_program(dtype: str = "float32", rows: int = V):
    B = T.dynamic("B")

    @T.prim_func
    def small(
        state: T.Tensor((B, HV, rows, K), dtype), x: T.Tensor((B, K), dtype), out: T.Tensor((B, HV, rows), dtype)
    ):
        with T.Kernel(HV, T.ceildiv(B, 4), threads=128) as (h, group):
            tile = T.alloc_shared((rows, K), dtype)
            products = T.alloc_fragment((rows, K), "float32")
            sums = T.alloc_fragment((rows,), "float32")
            for b in T.serial(4):
                if group * 4 + b < B:
                    T.copy(state[group * 4 + b, h, 0:rows, 0:K], tile)
                    for j, i in T.Parallel(rows, K):
                        products[j, i] = T.cast(tile[j, i], "float32") * T.cast(x[group * 4 + b, i], "float32")
                    T.reduce_sum(products, sums, dim=1)
                    for j in T.Parallel(rows):
                        out[group * 4 + b, h, j] = T.cast(sums[j], dtype)

    return small


def load(source: str, folder: Path) -> ctypes.CDLL:
    library = folder / "kernel.so"
    library.write_bytes(compile_source(source, find_compiler(CPU)).data)
    return ctypes.CDLL(str(library))


def pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def launch(library: ctypes.CDLL, lowered: Lowered, tensors: dict[str, torch.Tensor], integers: dict[str, int]) -> None:
    """What a launcher does with a lowered CPU kernel."""

    def value(text: str | int) -> int:
        return expressions.evaluate(expressions.parse(text), integers)

    slots = [tensors[a["pointer"]].data_ptr() if "pointer" in a else value(a["integer"]) for a in lowered.arguments]
    entry = getattr(library, lowered.entry)
    grid = (ctypes.c_int64 * 3)(*map(value, lowered.grid))
    assert entry((ctypes.c_uint64 * len(slots))(*slots), grid) == 0


# One rounding to the io dtype of values below 2, above the float32 sum of 64 products.
TOLERANCE = {"float32": 2e-6, "bfloat16": 2**-8, "float16": 2**-11}


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_cpu_kernel_computes(dtype: str, tmp_path: Path):
    lowered = lower(cpu_program(dtype), CPU, name="kvb_small", cells=f"B * {HV}")
    kind = getattr(torch, dtype)
    generator = torch.Generator().manual_seed(0)
    pool = torch.randn(5, 2, HV, V, K, generator=generator).mul(0.05).to(kind)
    state, packed = pool[:, 1], torch.randn(6, K + 24, generator=generator).mul(0.3).to(kind)
    x = packed[:, :K]
    slots = torch.tensor([3, -1, 0, 4, 2, 5], dtype=torch.int32)
    out = torch.full((6, HV, V), float("nan"), dtype=kind)
    tensors = {"state": state, "slots": slots, "x": x, "out": out}
    strides = {f"{name}_s0": tensor.stride(0) for name, tensor in tensors.items()}
    launch(load(lowered.source, tmp_path), lowered, tensors, {"B": 6, "P": 5, "shift": 0, **strides})

    live = (slots >= 0) & (slots < 5)
    read = torch.einsum("bhvk,bk->bhv", state[slots.clamp(0, 4).long()].double(), x.double())
    expected = torch.where(live[:, None, None], read.exp(), 0.0)
    assert expected.max() < 2
    assert (out.double() - expected).abs().max() <= TOLERANCE[dtype]
    assert (out[~live] == 0).all()


def test_cpu_launch_facts():
    lowered = lower(cpu_program("float32"), CPU, name="kvb_small", cells=f"B * {HV}")
    assert (lowered.entry, lowered.grid, lowered.block, lowered.shared) == ("kvb_small", ("B * 2", 1, 1), (1, 1, 1), 0)
    assert {a["pointer"] for a in lowered.arguments if "pointer" in a} == {"state", "slots", "x", "out"}
    integers = {a["integer"]: a["dtype"] for a in lowered.arguments if "integer" in a}
    assert integers == {"P": "int32", "shift": "int32", "slots_s0": "int64", "state_s0": "int64", "x_s0": "int64"}
    assert lowered == lower(cpu_program("float32"), CPU, name="kvb_small", cells=f"B * {HV}")
    assert "small_kernel" in device_ir(cpu_program("float32"), CPU)


@pytest.fixture(scope="module")
def prologue(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    loops = {
        "widen": "half float (float)x[i]",
        "narrow": "float half (half)x[i]",
        "exponential": "float float exp_float(x[i])",
    }
    lines = {
        "widen_line": "half float widen(y, 4, x, 2, n - 1)",
        "narrow_line": "float half narrow(y, 2, x, 4, n - 1)",
    }  # all but the first value
    text = [PROLOGUE]
    for name, (source, result, body) in ((name, loop.split(" ", 2)) for name, loop in loops.items()):
        text.append(f'extern "C" void {name}(const {source}* x, {result}* y, int64_t n)')
        text.append(f"{{ for (int64_t i = 0; i < n; ++i) y[i] = {body}; }}")
    for name, (source, result, call) in ((name, line.split(" ", 2)) for name, line in lines.items()):
        text.append(
            f'extern "C" void {name}(const {source}* x, {result}* y, int64_t n) {{ y[0] = ({result})x[0]; {call}; }}'
        )
    return load("\n".join(text), tmp_path_factory.mktemp("prologue"))


def apply(function: Any, x: np.ndarray, dtype: type) -> np.ndarray:
    y = np.empty(x.shape, dtype)
    function(pointer(x), pointer(y), ctypes.c_int64(x.size))
    return y


@pytest.mark.parametrize("suffix", ["", "_line"])
def test_float16_conversions_are_exact(prologue: ctypes.CDLL, suffix: str):
    every = np.arange(2**16, dtype=np.uint16).view(np.float16)
    wide = every.astype(np.float32)
    np.testing.assert_array_equal(apply(prologue["widen" + suffix], every, np.float32), wide)
    finite = np.sort(wide[np.isfinite(wide)])
    ties = (finite[1:] + finite[:-1]) / 2
    odd = np.float32([65519.99, 65520, 1e30, 2.98e-8, 2.99e-8, 1e-40, np.inf, -np.inf, np.nan])
    x = np.concatenate(
        [wide, ties, np.nextafter(ties, np.float32(np.inf)), np.nextafter(ties, np.float32(-np.inf)), odd]
    )
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(apply(prologue["narrow" + suffix], x, np.float16), x.astype(np.float16))


def test_exp_is_accurate_and_keeps_its_limits(prologue: ctypes.CDLL):
    x = np.linspace(-87.3, 88.7, 1 << 20, dtype=np.float32)
    exact = np.exp(x.astype(np.float64))
    error = np.abs(apply(prologue.exponential, x, np.float32) - exact) / exact
    assert error.max() <= 1.5 * 2**-23
    limits = np.float32([-np.inf, -104.5, -1e30, 0, -0.0, 88.8, np.inf, np.nan])
    np.testing.assert_array_equal(
        apply(prologue.exponential, limits, np.float32), np.float32([0, 0, 0, 1, 1, np.inf, np.inf, np.nan])
    )
    below = np.float32([-90, -100, -103])  # subnormal results keep the spacing of subnormals
    np.testing.assert_allclose(
        apply(prologue.exponential, below, np.float32), np.exp(np.float64(below)), rtol=0, atol=2e-45
    )


@pytest.mark.parametrize("cuda", CUDA, ids=lambda t: t.name)
def test_cubin(cuda: Target):
    lowered = lower(cuda_program("bfloat16"), cuda, name="kvb_small")
    assert "kvb_small(" in lowered.source
    assert "small_kernel" not in lowered.source
    assert (lowered.grid[0], lowered.grid[2], lowered.block) == (HV, 1, (128, 1, 1))
    groups = expressions.parse(lowered.grid[1])
    assert [expressions.evaluate(groups, {"B": b}) for b in (0, 1, 4, 9)] == [0, 1, 1, 3]
    assert lowered.shared >= V * K * 2
    assert {a.get("pointer") for a in lowered.arguments} >= {"state", "x", "out"}
    compiler = find_compiler(cuda)
    binary = compile_source(lowered.source, compiler)
    assert binary.data.startswith(b"\x7fELF")
    assert binary.resources["spill_bytes"] == 0
    assert 0 < binary.resources["registers"] < 255
    assert compiler.flags[-1] == f"-arch={cuda.arch}"
    assert lowered.overlap == waits_first(binary.data) == (cuda.name != "sm_80")


def test_a_cubin_does_not_depend_on_the_folder_it_is_made_in():
    """nvcc names what headers keep to a file after the folder; tensor cores bring such headers."""
    sm90 = target("sm_90a")
    spec = decode(K=64, V=64, state="float16", buffer=8)
    schedule = next(s for s in space.legal(spec, sm90) if s.mma)
    source = emit(spec, schedule, sm90).source
    first, second = (compile_source(source, find_compiler(sm90)).data for _ in range(2))
    assert first == second
    assert b"_INTERNAL_00000000_9_kernel_cu_00000000" in first


def test_an_access_in_front_of_the_wait_is_refused():
    """Nothing keeps a compiler from moving a load through a restricted pointer there."""
    cuda = target("sm_90a")
    source = lower(cuda_program("float32"), cuda, name="kvb_small").source
    wait = "cudaGridDependencySynchronize();"
    body, loaded = source.index(wait), "out[0] = x[0]; "
    assert source.count(wait) == 1
    with pytest.raises(CompileError, match="moved an access of memory in front of the wait"):
        compile_source(source[:body] + loaded + source[body:], find_compiler(cuda))


def decode(**changes: Any) -> KernelSpec:
    fields = {"K": 32, "V": 32, "ratio": 2, "io": "bfloat16", "state": "float32", "buffer": 4}
    return KernelSpec("decode", trace(gated_delta_rule), **{**fields, **changes})


def emitted() -> str:
    spec = decode()
    return emit(spec, space.default(spec, CPU), CPU).source


def test_source_does_not_depend_on_the_process():
    code = "import sys; sys.path.insert(0, sys.argv[1]); import test_compiler as t; print(end=t.emitted())"
    there = subprocess.run(
        [sys.executable, "-c", code, str(Path(__file__).parent)],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "7", "PATH": "/usr/bin:/bin"},
    )
    assert there.stdout == emitted()


def test_build_makes_an_artifact(tmp_path: Path):
    spec = decode()
    schedule = space.default(spec, CPU)
    artifact = read_artifact(build(spec, schedule, CPU, tmp_path / "artifact"))
    made = artifact.manifest
    assert artifact.files[f"{spec.name}.cpp"].decode() == emitted()
    assert artifact.binary.startswith(b"\x7fELF")
    assert (made["name"], made["form"], made["dims"]) == (spec.name, "decode", {"K": 32, "V": 32})
    assert made["launch"]["entry"] == spec.name
    assert made["recurrence"]["hash"] == trace(gated_delta_rule).hash
    assert [a["name"] for a in made["arguments"]] == [a.name for a in signature(spec)]
    assert made["schedule"] == schedule.to_dict()
    assert made["compiler"].keys() == {"tilelang", "g++", "flags"}
    assert set(made["target"]["features"]) == cpu_device().features
    again = read_artifact(build(spec, schedule, CPU, tmp_path / "again"))
    assert again.files == artifact.files
    # Launch arguments are called as in the signature, whatever the template calls them.
    passed = {a["pointer"] for a in made["launch"]["arguments"] if "pointer" in a}
    assert passed == {a.name for a in signature(spec)}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_every_form_becomes_a_cubin(form: str, tmp_path: Path):
    """At the head shape of Qwen3-Next, without a GPU."""
    cuda = target("sm_90a")
    wide = {"K": 128, "V": 128, "ratio": 2, "io": "bfloat16", "buffer": 16, "window": 4 if form == "verify" else 0}
    spec = cursor_spec(form) if FORMS[form].cursors_only else KernelSpec(form, trace(gated_delta_rule), **wide)
    made = read_artifact(build(spec, space.default(spec, cuda), cuda, tmp_path / "artifact"))
    assert made.binary.startswith(b"\x7fELF")
    assert made.manifest["resources"]["spill_bytes"] == 0
    assert made.manifest["target"]["capabilities"] == ["9.0"]
    assert made.manifest["target"]["min_driver"] >= cuda.min_driver


def test_a_build_that_fails_leaves_nothing(tmp_path: Path, bare: Path):
    spec = decode()
    with pytest.raises(MissingCompiler):
        build(spec, space.default(spec, CPU), CPU, tmp_path / "out" / "artifact")
    assert not (tmp_path / "out").exists()


def test_levels():
    spec = decode()
    schedule = space.default(spec, CPU)
    tilelang, tir, c = (levels(spec, schedule, CPU, level) for level in ("tilelang", "tir", "c"))
    assert c == emitted()
    assert "match_buffer(state_handle, (P, HV, 32, 32)" in tilelang
    assert "uint16" in tir  # bfloat16 is lowered to its bits
    assert "uint16" not in tilelang
    with pytest.raises(ValueError, match=r"level 'cuda' does not exist for target cpu; accepted: tilelang, tir, c"):
        levels(spec, schedule, CPU, "cuda")


def test_bound_bfloat16_cast_is_repaired(tmp_path: Path):
    """TileLang alone reads the bits of 1.0 as 16256.0 here."""
    B = T.dynamic("B")

    @T.prim_func
    def squares(x: T.Tensor((B, K), "bfloat16"), out: T.Tensor((B, K), "float32"), cell: T.int32):
        with T.Kernel(1):
            for i in T.serial(K):
                value = T.cast(x[cell, i], "float32")
                out[cell, i] = value * value

    lowered = lower(squares, CPU, name="kvb_squares", cells="B")
    assert "float value" in lowered.source  # still bound: TileLang has not learned to inline it
    x, out = torch.randn(3, K).bfloat16(), torch.empty(3, K)
    launch(load(lowered.source, tmp_path), lowered, {"x": x, "out": out}, {"B": 3})
    torch.testing.assert_close(out, x.float() ** 2, rtol=0, atol=0)


def test_float_cast_to_the_bits_of_bfloat16_is_refused():
    tirx = tvm.tirx
    x = tirx.Var("x", "float32")
    with pytest.raises(LoweringError, match=r"Cast.*as an integer"):
        _repair_bfloat16(tirx.PrimFunc([x], tirx.Evaluate(tirx.Cast("uint16", x))))


def test_other_programs_are_refused():
    B = T.dynamic("B")

    @T.prim_func
    def twice(out: T.Tensor((B,), "float32")):
        with T.Kernel(B, threads=32) as b:
            out[b] = 1.0
        with T.Kernel(B, threads=32) as b:
            out[b] = 2.0

    with pytest.raises(LoweringError, match="2 launches"):
        lower(twice, target("sm_90a"))

    @T.prim_func
    def no_cell(out: T.Tensor((B,), "float32")):
        with T.Kernel(1):
            out[0] = 1.0

    with pytest.raises(LoweringError, match="int32 parameter `cell`"):
        lower(no_cell, CPU, cells="B")

    @T.prim_func
    def bound(x: T.Tensor((B,), "bfloat16"), cell: T.int32):
        with T.Kernel(1):
            value = x[cell]
            x[cell + 1] = value

    with pytest.raises(LoweringError, match=r"TileLang cannot lower this program for cpu"):
        lower(bound, CPU, cells="B")
    with pytest.raises(LoweringError, match=r"131072 bytes of shared memory; sm_80 has 101376"):
        lower(cuda_program("float32", rows=512), target("sm_80"))

    @T.prim_func
    def last(x: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32):
            x[-1] = 1.0

    with pytest.raises(LoweringError, match="an index is negative"):
        lower(last, target("sm_90a"))


def test_expressions_of_sizes():
    tirx = tvm.tirx
    B, HV_ = tirx.Var("B", "int32"), tirx.Var("HV", "int64")
    value = tirx.max(tirx.Cast("int64", tirx.floordiv(B + 3, 4)) * HV_ - 1, tirx.min(HV_, tirx.IntImm("int64", 9)))
    parsed = expressions.parse(expression(value))
    for b, hv in ((0, 1), (5, 32), (8, 4)):
        assert expressions.evaluate(parsed, {"B": b, "HV": hv}) == max((b + 3) // 4 * hv - 1, min(hv, 9))
    with pytest.raises(LoweringError, match=r"FloorMod.*accepted are integers, sizes"):
        expression(tirx.floormod(B, 4))


def test_targets():
    assert set(TARGETS) == {"cpu", "sm_80", "sm_90a", "sm_100f", "sm_120f"}
    assert all(name == t.name for name, t in TARGETS.items())
    with pytest.raises(ValueError, match=r"target 'sm_70' is unknown; accepted: cpu, sm_80, sm_90a, sm_100f, sm_120f"):
        target("sm_70")


def nvcc(folder: Path, release: str) -> Path:
    folder.mkdir(parents=True)
    path = folder / "nvcc"
    path.write_text(f"#!/bin/sh\necho 'Cuda compilation tools, release {release}, V{release}.99'\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine with nothing but a shell and gcc; returns a folder that counts as site-packages."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "gcc").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CXX", raising=False)
    packages = tmp_path / "site-packages"
    monkeypatch.setattr(toolchain, "_site_packages", lambda: [packages])
    return packages


def test_missing_compilers_name_the_package(bare: Path):
    with pytest.raises(MissingCompiler, match=r"'g\+\+' not found.*Debian package g\+\+"):
        find_compiler(CPU)
    with pytest.raises(MissingCompiler, match=r"none at all.*pip install 'kvbuffer-codegen\[cuda-build\]'"):
        find_compiler(target("sm_90a"))


def test_nvcc_from_wheels_and_by_version(bare: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    old = nvcc(tmp_path / "cuda" / "bin", "12.4")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    assert find_compiler(target("sm_90a")).path == str(old)
    with pytest.raises(MissingCompiler, match=r"sm_100f.*is of CUDA 12\.4\.99.*toolkit from 12\.9"):
        find_compiler(target("sm_100f"))
    wheel = nvcc(bare / "nvidia" / "cu13" / "bin", "13.0")
    with pytest.raises(MissingCompiler, match="pip install nvidia-cuda-cccl"):
        find_compiler(target("sm_100f"))
    headers = bare / "nvidia" / "cu13" / "include" / "cccl" / "nv"
    headers.mkdir(parents=True)
    (headers / "target").touch()
    found = find_compiler(target("sm_100f"))
    assert (found.path, found.version) == (str(wheel), "13.0.99")


def test_refused_source_shows_what_the_compiler_said():
    with pytest.raises(CompileError, match=r"(?s)g\+\+ .* refused generated source.*nonsense"):
        compile_source("nonsense", find_compiler(CPU))
    with pytest.raises(
        CompileError, match=r"toolkit headers are incompatible(?s:.*)one minor version of nvidia-cuda-nvcc"
    ):
        compile_source('#error "CUDA toolkit headers are incompatible"\n', Compiler("g++", "g++", "0", ("-shared",)))


def test_ptxas_report():
    log = (
        "24 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n"
        "Used 78 registers, used 1 barriers, 2048 bytes smem"
    )
    assert ptxas_resources(log) == {
        "registers": 78,
        "spill_bytes": 20,
        "stack_bytes": 24,
        "static_shared": 2048,
    }
