"""Portable kernels without a GPU: the emitted text in Triton's interpreter against the float64 oracle, and compiled."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from inventions import INVENTIONS
from test_random_recurrences import RELAXED, specs
from triton_kit import called, interpreted, interpreter, kernel_of, spec_of

from kvbuffer_codegen import checking, covering
from kvbuffer_codegen.autotune.cases import Case
from kvbuffer_codegen.ir import portable
from kvbuffer_codegen.ir.forms import SCALED, KernelSpec, cursor_spec
from kvbuffer_codegen.ir.language import Key, State, Value, exp, log, outer, recurrence, tanh
from kvbuffer_codegen.ir.recurrences import RECURRENCES, gated_delta_rule
from kvbuffer_codegen.ir.signature import (
    BASE,
    COUNT,
    FAULT,
    FAULT_LENGTH,
    FAULT_SLOT,
    SKIPPED,
    WINDOW,
    TensorArg,
    signature,
)
from kvbuffer_codegen.runtime.triton_kernels import available, compile_for
from kvbuffer_codegen.schedules import triton

pytestmark = pytest.mark.skipif(not available(), reason="triton is not installed")
ROOT = Path(__file__).parent.parent
FORMS = portable.PORTABLE_FORMS
EVERY = (*RECURRENCES.values(), *INVENTIONS)


@pytest.fixture(scope="module", autouse=True)
def cache() -> Iterator[None]:
    """What Triton compiles is kept in the checkout's own cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(ROOT / ".cache" / "triton"))
        yield


@pytest.fixture(scope="module")
def triton_process() -> Iterator[Executor]:
    with interpreter() as process:
        yield process


@pytest.fixture
def run(triton_process: Executor) -> Any:
    """``run(spec)``: the kernel of ``spec``, interpreted, is right."""

    def judged(spec: KernelSpec, seed: int = 0) -> None:
        result = triton_process.submit(interpreted, spec, seed).result()
        assert result.ok, f"{spec.key()}: {result.reason}"

    return judged


# --- against the oracle


@pytest.mark.parametrize(
    ("form", "changes"),
    [
        ("step", {"kv_only": 6}),
        ("decode", {"kv_only": 6}),
        ("verify", {"kv_only": 6}),
        ("flush", {"kv_only": 6}),
        ("step", {"io": "float32", "state": "bfloat16", "layout": "KV"}),
        ("decode", {"io": "float16", "state": "float16", "layout": "KV"}),
        ("verify", {"io": "float32", "state": "float16", "layout": "KV"}),
        ("flush", {"io": "float16", "state": "bfloat16", "layout": "KV"}),
        ("decode", {"io": "float32", "buffer": 1, "K": 1, "V": 1, "ratio": 1}),
        ("decode", {"K": 16, "V": 32, "ratio": 3, "state": "bfloat16"}),
        ("verify", {"buffer": 2, "window": 5, "K": 33, "V": 7}),
        ("decode", {"records": "bf16", "kv_only": 6}),
        ("verify", {"records": "hilo"}),
        ("flush", {"records": "hilo"}),
        ("step", {"K": 100, "V": 100, "ratio": 1, "buffer": 2}),  # several tiles of V, the last one not full
    ],
    ids=str,
)
def test_the_forms_of_one_recurrence(run: Any, form: str, changes: dict[str, Any]) -> None:
    """Every form, dtype and layout; L = 1, T > L, masked lanes, kv_only rows; folds, padding, poison in every case."""
    run(spec_of(form, gated_delta_rule, **changes))


@pytest.mark.parametrize(
    ("form", "name"),
    [
        ("decode", "kda"),
        ("verify", "rwkv7"),
        ("flush", "rwkv6"),
        ("step", "mamba2_gated"),
        ("verify", "lightning"),
        ("decode", "gated_delta_product_3"),
        ("decode", "linear_attention"),
    ],
)
def test_a_covering_set_of_recurrences(run: Any, form: str, name: str) -> None:
    run(spec_of(form, RECURRENCES[name], kv_only=6))


@pytest.mark.parametrize("form", ["decode", "verify", "flush"])
def test_a_decay_over_v_and_a_nonlinear_write(run: Any, form: str) -> None:
    run(spec_of(form, INVENTIONS[-1], io="float32"))


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("one", EVERY, ids=lambda r: r.name)
def test_every_recurrence(run: Any, one: Any, form: str) -> None:
    run(spec_of(form, one, kv_only=6))
    run(spec_of(form, one, io="float32", state="float16", layout="KV"))
    run(spec_of(form, one, io="float16", K=32, V=64, buffer=7, ratio=1), seed=1)


COVERED = [
    spec
    for spec in map(covering.spec_of, covering.fixed_set())
    if spec.form in FORMS and not spec.tree and not spec.scaled and not spec.stochastic
]


@pytest.mark.slow
@pytest.mark.parametrize("spec", COVERED, ids=lambda s: s.name)
def test_the_covering_set(run: Any, spec: KernelSpec) -> None:
    """What of the fixed covering set portable kernels offer, at its real sizes."""
    run(spec)
    for arch in (80, 90, 100):
        assert compiled(spec, arch)[0].asm["cubin"][:4] == b"\x7fELF"


@recurrence
def names_like_ours(S: State, k: Key, v: Value, row: Key, x: Key, k_0: Value, head: Value) -> Any:  # type: ignore[no-untyped-def]
    """Arguments called what a kernel calls its own things."""
    S = S + outer(v * k_0, k * x)
    return S, S @ row + head


@recurrence
def steep(S: State, q: Key, k: Key, v: Value) -> Any:
    """Every function where it is hardest: logarithms near 1, tanh near 0 and far, exp beyond float32."""
    S = S + outer(tanh(v * 1e-3) + log(1.0 + exp(v * 1e-3 - 8.0)) + tanh(v * 50.0), k)
    return S, S @ q * (1.0 - 1.0 / exp(exp(v * 0.0 + 100.0)))


@pytest.mark.parametrize("one", [names_like_ours, steep], ids=lambda r: r.name)
def test_names_and_functions(run: Any, one: Any) -> None:
    run(spec_of("decode", one, io="float32"))


@pytest.mark.parametrize("form", portable.CURSOR_FORMS)
def test_cursors(run: Any, form: str) -> None:
    run(cursor_spec(form))


@settings(RELAXED, derandomize=True, max_examples=3)
@given(drawn=specs())
def test_random_recurrences(triton_process: Executor, drawn: tuple[Any, KernelSpec]) -> None:
    result = triton_process.submit(interpreted, drawn[1]).result()
    assert result.ok, result.reason


@pytest.mark.slow
@settings(RELAXED, max_examples=60)
@given(drawn=specs())
def test_many_random_recurrences(triton_process: Executor, drawn: tuple[Any, KernelSpec]) -> None:
    result = triton_process.submit(interpreted, drawn[1]).result()
    assert result.ok, result.reason


# --- the contract of a row


def call(process: Executor, case: Case, **changes: Any) -> dict[str, Any]:
    given: dict[str, Any] = process.submit(called, case.spec, {**case.tensors(), **changes}).result()
    return given


def case_of(form: str, **changes: Any) -> Case:
    return Case(spec_of(form, gated_delta_rule, kv_only=6, **changes), gated_delta_rule, 0)


@pytest.mark.parametrize("bad", [-2, 99, 2**32, -(2**32)])
def test_a_slot_out_of_range_is_reported_and_touches_nothing(triton_process: Executor, bad: int) -> None:
    case = case_of("decode")
    slots = torch.full((2 * len(case.rows),), -1)[::2]  # int64, strided
    slots[3] = bad
    left = call(triton_process, case, slots=slots)
    assert left["cursors"][FAULT, -1] == FAULT_SLOT
    assert left["cursors"][BASE, -1] == max(min(bad, 2**31 - 1), -(2**31))
    assert not left["out"].any()
    for name in ("state", *(f.name for f in case.spec.record_layout.fields)):
        assert checking.same_bits(left[name], case.before[name]), name


@pytest.mark.parametrize(("bad", "reported"), [(99, True), (-1, False)])
def test_a_ring_that_does_not_exist_skips_its_row(triton_process: Executor, bad: int, reported: bool) -> None:
    case = case_of("decode")
    row = next(b for b, r in enumerate(case.rows) if r.slot >= 0)
    rings = case.before["rings"].clone()
    rings[row] = bad
    left = call(triton_process, case, rings=rings)
    assert left["cursors"][WINDOW, case.rows[row].slot] == SKIPPED
    assert left["cursors"][[BASE, FAULT], -1].tolist() == ([bad, FAULT_SLOT] if reported else [0, 0])
    assert not left["out"][row].any()
    assert checking.same_bits(left["state"][case.rows[row].slot], case.before["state"][case.rows[row].slot])


def test_padding_reports_nothing(triton_process: Executor) -> None:
    case = case_of("verify")
    left = call(triton_process, case, slots=torch.full_like(case.before["slots"], -1))
    assert torch.equal(left["cursors"], case.before["cursors"])
    assert not left["out"].any()


def test_int64_slots_with_a_stride_are_right(triton_process: Executor) -> None:
    case = case_of("verify")
    wide = {name: case.before[name].long().repeat_interleave(3)[::3] for name in ("slots", "rings", "lengths")}
    left = call(triton_process, case, **wide)
    result = checking.judge(case, {**left, **{name: case.before[name] for name in wide}})
    assert result.ok, result.reason


@pytest.mark.parametrize("bad", [-1, 5, 2**40])
def test_a_length_out_of_range_counts_as_none(triton_process: Executor, bad: int) -> None:
    case = case_of("verify")
    lengths = torch.full((len(case.rows),), bad)
    left = call(triton_process, case, lengths=lengths)
    for r in case.rows:
        if r.slot >= 0:
            assert left["cursors"][FAULT, r.slot] == FAULT_LENGTH
            assert left["cursors"][WINDOW, r.slot] == 0
            assert left["cursors"][COUNT, r.slot] == r.count
    assert not left["out"].any()
    assert checking.same_bits(left["state"], case.before["state"])


def test_gaps_between_rows_and_heads(triton_process: Executor) -> None:
    """State and inputs are slices of larger tensors: strides are run-time values."""
    case = case_of("decode", K=8, V=4)
    parts: dict[str, Any] = {}
    for name in ("state", "q", "v", "record_left0"):
        x = case.before[name]
        larger = torch.full((x.shape[0] + 1, x.shape[1] + 2, *x.shape[2:]), torch.nan, dtype=x.dtype)
        larger[: x.shape[0], : x.shape[1]] = x
        parts[name] = larger[: x.shape[0], : x.shape[1]]
    left = call(triton_process, case, **parts)
    result = checking.judge(case, left)
    assert result.ok, result.reason


def test_a_value_out_of_range_saturates(triton_process: Executor) -> None:
    case = case_of("step", state="float16", io="float32")
    left = call(triton_process, case, v=torch.full_like(case.before["v"], 1e7))
    live = [r.slot for r in case.rows if r.slot >= 0]
    assert left["state"][live].isfinite().all()
    assert left["state"][live].abs().max() == 65504


def test_no_rows(triton_process: Executor) -> None:
    case = case_of("decode")
    none = {name: case.before[name][:0] for name in ("slots", "rings", "q", "k", "v", "a", "b", "out")}
    left = call(triton_process, case, **none)
    assert checking.same_bits(left["state"], case.before["state"])


# --- what is emitted


def test_one_file_serves_every_size_dtype_and_form() -> None:
    base = spec_of("decode", gated_delta_rule)
    sizes = [{"K": 256, "V": 7}, {"ratio": 8}, {"state": "float16"}, {"layout": "KV"}, {"buffer": 64, "kv_only": 64}]
    for changes in (*sizes, {"form": "flush"}, {"form": "verify", "window": 16}, {"io": "float16"}):
        other = replace(base, **changes)
        assert portable.source_name(other) == portable.source_name(base)
        assert triton.source(other) == triton.source(base)
    assert portable.source_name(replace(base, io="float32")) != portable.source_name(base)  # another record layout


def test_names_are_those_of_every_kernel() -> None:
    spec = spec_of("verify", gated_delta_rule)
    assert re.fullmatch(r"kvb_verify_gated_delta_rule_[0-9a-f]{8}", portable.function_name(spec))
    assert f"def {portable.function_name(spec)}(" in triton.source(spec)


@pytest.mark.parametrize("state", SCALED)
def test_what_has_no_portable_kernel_is_refused_by_name(state: str) -> None:
    with pytest.raises(ValueError, match=f"state='{state}': portable kernels take float32"):
        triton.source(spec_of("decode", gated_delta_rule, state=state))


@pytest.mark.parametrize("form", ["decode", "advance"])
def test_stochastic_rounding_is_refused_by_name(form: str) -> None:
    spec = cursor_spec(form, "stochastic") if form == "advance" else spec_of(form, gated_delta_rule, state="float16")
    with pytest.raises(ValueError, match="rounding='stochastic': portable kernels round to nearest"):
        triton.source(replace(spec, rounding="stochastic"))


def test_an_argument_that_the_emitter_does_not_know_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    parents = TensorArg("parents", "index", "index", ("B",), (0,), 4, "read")
    monkeypatch.setattr(portable, "signature", lambda spec: (*signature(spec), parents))
    with pytest.raises(ValueError, match="parents: portable kernels of verify take no such argument"):
        triton.source(spec_of("verify", gated_delta_rule))


# --- ahead of time


def compiled(spec: KernelSpec, arch: int) -> tuple[Any, str]:
    """Triton's result for ``arch``, and what ptxas says of its PTX."""
    import triton as compiler
    from triton.backends.compiler import GPUTarget

    with tempfile.TemporaryDirectory() as folder:
        kernel = compile_for(kernel_of(spec, "cuda", Path(folder)).function, spec, GPUTarget("cuda", arch, 32))
        nvidia = compiler.knobs.nvidia
        ptxas = (nvidia.ptxas_blackwell if arch >= 100 else nvidia.ptxas).path
        target = re.search(r"\.target (\w+)", kernel.asm["ptx"])
        assert target
        (Path(folder) / "kernel.ptx").write_text(kernel.asm["ptx"])
        command = [ptxas, "-v", f"--gpu-name={target[1]}", "-o", f"{folder}/kernel.cubin", f"{folder}/kernel.ptx"]
        return kernel, subprocess.run(command, capture_output=True, text=True, check=True).stderr


def assert_clean(spec: KernelSpec, arch: int) -> None:
    kernel, said = compiled(spec, arch)
    assert kernel.asm["cubin"][:4] == b"\x7fELF"
    assert portable.function_name(spec) in said
    assert re.search(r"\b0 bytes spill stores, 0 bytes spill loads", said), said
    assert ".f64" not in kernel.asm["ptx"]


REAL = {"K": 128, "V": 128, "buffer": 16}


@pytest.mark.parametrize("arch", [80, 90, 100])
@pytest.mark.parametrize("form", FORMS)
def test_kernels_compile_for_every_architecture(form: str, arch: int) -> None:
    assert_clean(spec_of(form, gated_delta_rule, **REAL), arch)


@pytest.mark.parametrize("form", portable.CURSOR_FORMS)
def test_cursors_compile(form: str) -> None:
    assert_clean(cursor_spec(form), 90)


def test_accesses_to_a_state_are_16_bytes_wide() -> None:
    for layout in ("VK", "KV"):
        kernel, _ = compiled(spec_of("decode", gated_delta_rule, **REAL, layout=layout), 90)
        assert "ld.global.v4.b32" in kernel.asm["ptx"]


@pytest.mark.slow
@pytest.mark.parametrize("arch", [80, 90, 100])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("one", EVERY, ids=lambda r: r.name)
def test_every_recurrence_compiles(one: Any, form: str, arch: int) -> None:
    assert_clean(spec_of(form, one, **REAL, kv_only=64), arch)
    assert_clean(spec_of(form, one, K=256, V=96, io="float32", state="float16", layout="KV", ratio=1), arch)
