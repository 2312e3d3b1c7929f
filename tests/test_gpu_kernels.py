"""CUDA kernels without a GPU: their real source runs in the emulator against the float64 oracle, and becomes clean
cubins."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import inventions
import pytest
import torch
from cuda_emulator import Emulated

from kvbuffer_codegen.autotune.cases import Case, Stream
from kvbuffer_codegen.autotune.tree_cases import CompactCase
from kvbuffer_codegen.checking import arguments_of, check_kernel, judge, same_bits
from kvbuffer_codegen.compiler.build import emit
from kvbuffer_codegen.compiler.lower import Lowered
from kvbuffer_codegen.compiler.toolchain import Binary, compile_source, find_compiler
from kvbuffer_codegen.ir.forms import DTYPES, FORMS, KernelSpec, cursor_spec
from kvbuffer_codegen.ir.language import (
    HeadChannel,
    HeadScalar,
    HeadValue,
    Key,
    KeyScalar,
    State,
    Value,
    exp,
    outer,
    recurrence,
    softplus,
)
from kvbuffer_codegen.ir.recurrences import RECURRENCES as SHIPPED
from kvbuffer_codegen.ir.recurrences import gated_delta_rule
from kvbuffer_codegen.ir.signature import BASE, COUNT, FAULT, FAULT_LENGTH, FAULT_SLOT, SKIPPED, WINDOW
from kvbuffer_codegen.runtime.reference import ReferenceKernel
from kvbuffer_codegen.schedules import geometry, space
from kvbuffer_codegen.schedules.geometry import Geometry
from kvbuffer_codegen.schedules.space_gpu import GpuSchedule, fits_the_brim
from kvbuffer_codegen.schedules.targets import TARGETS, target

SM90 = target("sm_90a")
CUDA = [t for t in TARGETS.values() if t.kind == "cuda"]


@recurrence
def constant_decays(
    S: State, q: Key, k: Key, v: Value, s: KeyScalar, over_k: HeadChannel, over_v: HeadValue, of_head: HeadScalar
) -> Any:
    """Decays of every axis that depend on parameters alone: no record stores them, and flush takes the parameters."""
    for log in (of_head, over_k, over_v):
        S = exp(-softplus(log)) * S
    S = S + outer(v, k * s)
    return S, S @ q + over_v * v


KINDS = {r.name: r for r in (gated_delta_rule, *inventions.INVENTIONS, constant_decays)}
RECURRENCES = {**SHIPPED, **KINDS}


def spec_of(form: str, name: str = "gated_delta_rule", **given: Any) -> KernelSpec:
    """A small spec; K = V = 32 lets vector accesses and several blocks of V occur."""
    if FORMS[form].cursors_only:
        return cursor_spec(form)
    values = {
        "K": 32,
        "V": 32,
        "ratio": 2,
        "io": "bfloat16",
        "buffer": 4,
        "window": 3 if form == "verify" else 0,
        **given,
    }
    return KernelSpec(form, RECURRENCES[name].normal_form, **values)


def qwen3_next(form: str, **given: Any) -> KernelSpec:
    return spec_of(form, **{"K": 128, "V": 128, "buffer": 16, **given})


@functools.cache
def lowered(spec: KernelSpec, target_name: str = "sm_90a") -> Lowered:
    return emit(spec, space.default(spec, target(target_name)), target(target_name))


@functools.cache
def cubin(spec: KernelSpec, target_name: str = "sm_90a") -> Binary:
    return compile_source(lowered(spec, target_name).source, find_compiler(target(target_name)))


@pytest.fixture(scope="session")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder: Path = tmp_path_factory.mktemp("emulated")

    @functools.cache
    def make(spec: KernelSpec, schedule: GpuSchedule | None = None) -> Emulated:
        low = emit(spec, schedule, SM90) if schedule else lowered(spec)
        return Emulated(spec, schedule or space.default(spec, SM90), SM90, low, folder)

    return make


def case_of(spec: KernelSpec, seed: int = 1) -> Any:
    assert spec.recurrence is not None
    if spec.form == "compact":
        return CompactCase(spec, seed)
    return Case(spec, RECURRENCES[spec.recurrence.name], seed)


def check(kernel: Emulated, spec: KernelSpec) -> None:
    """A case against the recurrence's own function; threads from first to last and back give the same bits."""
    if spec.recurrence is None:
        assert check_kernel(kernel, spec).ok
        return
    case = case_of(spec)
    given = [case.tensors(), case.tensors()]
    for tensors, kernel.descending in zip(given, (False, True), strict=True):
        kernel(*arguments_of(spec, tensors))
    kernel.descending = False
    result = judge(case, given[0])
    assert result.ok, result.reason
    assert all(same_bits(given[0][name], given[1][name]) for name in case.before)


DECODE = spec_of("decode", kv_only=6)
STEP = spec_of("step", io="float16", state="float16", layout="KV")
FLUSH = spec_of("flush", state="bfloat16", buffer=11)
VERIFY = spec_of("verify", window=4, buffer=3, kv_only=6)
#: On tensor cores: warps that share a strip, have one of their own, or two.
DECODE_MMA = spec_of("decode", K=64, kv_only=6)
VERIFY_MMA = spec_of("verify", K=64, window=4, buffer=3, kv_only=6)
#: Walked channel by channel: a record's fields over K known early, or with sums that come late.
DECODE_KDA = spec_of("decode", "kda", K=64, buffer=16)
VERIFY_KDA = spec_of("verify", "kda", K=64, buffer=16, window=4)
MMA = {
    DECODE_MMA: GpuSchedule(16, 16, 64, 1, 1),
    VERIFY_MMA: GpuSchedule(32, 16, 64, 1, 1),
    spec_of("verify", "gated_delta_product_2", K=64, io="float32"): GpuSchedule(32, 16, 128, 1, 1),
    spec_of("verify", "lightning", K=64, window=8, records="hilo"): GpuSchedule(16, 16, 64, 1, 1),
    spec_of("verify", "simple_gla", K=64, window=2, buffer=20): GpuSchedule(32, 16, 64, 1, 1),
    spec_of("verify", K=64, V=64, window=8, buffer=20): GpuSchedule(64, 16, 64, 1, 1),
    spec_of("decode", K=64, V=64, state="float16"): GpuSchedule(64, 16, 64, 1, 1),
    spec_of("decode", K=64, state="bfloat16", io="float32", buffer=9, kv_only=6): GpuSchedule(32, 16, 64, 1, 1),
    spec_of("verify", K=64, V=64, state="bfloat16", records="bf16", window=4, buffer=9): GpuSchedule(64, 16, 64, 1, 1),
    spec_of("verify", "gated_delta_product_2", K=64, state="float16", window=2, kv_only=6): GpuSchedule(
        32, 16, 128, 1, 1
    ),
    spec_of("verify", K=64, state="float16", io="float16", window=8, buffer=16): GpuSchedule(32, 16, 64, 1, 1),
    # int8, with all of V in a block: two digits of a read vector a lane, all of one, all of two.
    spec_of("decode", K=64, state="int8", kv_only=6): GpuSchedule(32, 16, 64, 1, 1),
    spec_of("verify", K=128, V=64, state="int8", window=2, buffer=9, kv_only=6): GpuSchedule(64, 16, 64, 1, 1),
    spec_of("verify", K=64, state="int8", io="float32", window=4, buffer=9): GpuSchedule(32, 16, 64, 1, 1),
    spec_of("verify", "gated_delta_product_2", K=64, V=64, state="int8", window=8, io="float16"): GpuSchedule(
        64, 16, 64, 1, 1
    ),
}
#: States that wait in shared memory.
STAGED = {
    spec_of("decode", K=64, kv_only=6): GpuSchedule(16, 16, 128, 1, 0, 1),
    spec_of("decode", "lightning", K=100, V=40, buffer=8, state="float16"): GpuSchedule(16, 16, 128, 1, 0, 1),
    spec_of("decode", K=64, buffer=8, state="bfloat16", layout="KV"): GpuSchedule(16, 16, 128, 1, 0, 1),
}
#: Rows without a checkpoint by code of their own: two value heads of a block or one, tiles of records that follow
#: others, sums that lie where left vectors were, several writes a token, a step that folds first; decays of no field.
APART = {
    spec_of("decode", K=64, V=64, kv_only=40): GpuSchedule(32, 16, 128, 1, 0, 1, 1),
    spec_of("step", K=64, V=64, kv_only=40, buffer=3): GpuSchedule(16, 16, 128, 1, 0, 0, 1),
}
THOROUGH_APART = {
    spec_of("decode", K=64, V=64, kv_only=40, ratio=3): GpuSchedule(32, 16, 64, 1, 0, 0, 1),
    spec_of("decode", K=64, V=64, kv_only=20, buffer=16, ratio=1, io="float16", state="float16", records="bf16"): (
        GpuSchedule(32, 16, 64, 1, 1, 0, 1)
    ),
    spec_of("decode", "lightning", K=64, V=64, kv_only=33, buffer=16, layout="KV"): (
        GpuSchedule(16, 16, 128, 1, 0, 1, 1)
    ),
    spec_of("decode", "gated_delta_product_2", K=64, kv_only=18): GpuSchedule(16, 16, 64, 1, 0, 0, 1),
    spec_of("step", "kda", K=64, V=64, kv_only=40, buffer=3): GpuSchedule(16, 16, 128, 1, 0, 0, 1),
}
QUICK = [
    DECODE,
    STEP,
    FLUSH,
    VERIFY,
    spec_of("advance"),
    spec_of("commit"),
    spec_of("commit_path"),
    spec_of("compact"),
    spec_of("publish", kv_only=5),
    spec_of("verify", window=9, tree=True, kv_only=6),
    pytest.param(spec_of("verify", "additive_per_channel", window=9, tree=True), marks=pytest.mark.slow),
    pytest.param(spec_of("verify", "nonlinear_left", window=64, tree=True), marks=pytest.mark.slow),
    spec_of("decode", K=20, V=36, buffer=1, io="float32", state="float16"),
    spec_of("verify", "additive_per_channel", kv_only=7),
    spec_of("decode", "two_tokens_in_one", layout="KV", buffer=10),
    spec_of("verify", "nonlinear_left", window=2),
    spec_of("flush", "constant_decays", K=24, V=20),
    spec_of("verify", window=2, records="hilo", layout="KV"),
    spec_of("verify", window=2, state="float8_e4m3fn"),
    spec_of("decode", state="int8", layout="KV", rounding="stochastic", kv_only=6),
    # More rows than a tile has, walked by one block: a masked last tile, folds and updates, rows without a checkpoint.
    spec_of("decode", K=20, V=192, state="int8", kv_only=6, ratio=1),
    spec_of("step", K=16, V=160, state="float8_e4m3fn", layout="KV", ratio=1),
    spec_of("verify", K=16, V=192, state="int8", window=2, rounding="stochastic", ratio=1),
    spec_of("flush", "additive_per_channel", K=16, V=192, state="int8", buffer=9, ratio=1),
    spec_of("publish", K=16, V=192, state="float8_e4m3fn", kv_only=5, ratio=1),
    spec_of("verify", K=100, V=16, window=16, buffer=2, ratio=3, state="bfloat16"),  # replayed; one value an access
    DECODE_KDA,
    VERIFY_KDA,
    spec_of("verify", "rwkv7", K=36, V=48, ratio=1, buffer=9, kv_only=12, layout="KV", records="hilo"),
    spec_of("verify", "constant_decays", K=24, V=40, ratio=1, buffer=18, window=2, state="int8"),
    spec_of("decode", "kda", K=80, V=96, ratio=3, buffer=64),
    spec_of("decode", "rwkv7", K=36, ratio=1, buffer=9, kv_only=12, layout="KV", records="hilo"),
    spec_of("verify", "rwkv7", K=32, V=24, window=9, ratio=1, io="float32", buffer=20),
]
WIDER = (
    {"buffer": 9, "kv_only": 13, "layout": "KV", "state": "float16"},
    {"K": 24, "V": 40, "buffer": 18, "io": "float32", "ratio": 1},
)
THOROUGH = [
    spec_of(form, name, **WIDER[(i + j) % 2])
    for i, form in enumerate(("decode", "step", "flush", "verify"))
    for j, name in enumerate(KINDS)
] + [
    *(spec_of(form, name, ratio=1) for form in ("decode", "step", "flush", "verify") for name in SHIPPED),
    *(spec_of("verify", name, window=16, V=48, ratio=3, io="float32") for name in SHIPPED),
    *(spec_of("decode", K=K, V=V, ratio=8, buffer=64) for K, V in ((100, 80), (16, 256), (256, 16), (96, 100))),
    spec_of("verify", window=16, buffer=1),
    spec_of("verify", K=16, V=192, state="int8", window=12, ratio=1),
    spec_of("verify", K=16, V=192, state="int8", window=9, tree=True, ratio=1),
    *(spec_of("decode", name, K=16, V=192, state="int8", kv_only=6, ratio=1) for name in KINDS),
    *(spec_of("step", name, K=16, V=192, state="int8", kv_only=6, ratio=1) for name in KINDS),
    spec_of("verify", window=1, buffer=64, kv_only=64),
    *(spec_of("decode", K=K, V=16, buffer=5, io="float16") for K in (16, 80, 96, 100, 192, 256)),
    *(spec_of("step", K=K, V=16, state="bfloat16") for K in (100, 192)),
    *(
        spec_of(form, name, state=state, layout=layout, rounding=rounding, K=20, V=36, buffer=9)
        for form, layout in (("decode", "VK"), ("step", "KV"), ("flush", "VK"), ("verify", "KV"))
        for name in ("gated_delta_rule", "additive_per_channel")
        for state, rounding in (("int8", "nearest"), ("float8_e4m3fn", "stochastic"), ("float16", "stochastic"))
    ),
    *(spec_of(form, records=r, io="float16", K=20) for form in ("decode", "flush") for r in ("bf16", "hilo")),
]


def name_of(spec: KernelSpec) -> str:
    key = spec.key()
    names = ("form", "recurrence", "K", "V", "io", "state", "records", "layout", "buffer", "window", "kv_only")
    return "-".join(str(key[k]) for k in names) + ("-stochastic" if spec.stochastic else "")


@pytest.mark.parametrize("spec", QUICK, ids=name_of)
def test_against_oracle(spec: KernelSpec, emulated: Any) -> None:
    check(emulated(spec), spec)


@pytest.mark.parametrize("spec", MMA, ids=name_of)
def test_tensor_cores_against_oracle(spec: KernelSpec, emulated: Any) -> None:
    """Every sum to the accuracy of float32: operands are in two parts."""
    check(emulated(spec, MMA[spec]), spec)


@pytest.mark.parametrize("spec", STAGED, ids=name_of)
def test_a_state_in_shared_memory_against_oracle(spec: KernelSpec, emulated: Any) -> None:
    check(emulated(spec, STAGED[spec]), spec)


@pytest.mark.parametrize("spec", APART, ids=name_of)
def test_rows_without_a_checkpoint_apart_against_oracle(spec: KernelSpec, emulated: Any) -> None:
    check(emulated(spec, APART[spec]), spec)


@pytest.mark.slow
@pytest.mark.parametrize("spec", THOROUGH_APART, ids=name_of)
def test_every_kind_of_rows_apart_against_oracle(spec: KernelSpec, emulated: Any) -> None:
    check(emulated(spec, THOROUGH_APART[spec]), spec)


def test_offsets_inside_a_row_are_narrow() -> None:
    """Products with strides inside a slot or a batch are 32-bit ones: 64-bit addresses cost a third of a decode's
    instructions."""
    source = lowered(qwen3_next("decode")).source
    body = source[source.index("{", source.rindex("__launch_bounds__")) :]
    assert "* ((int)state_s1)" in body
    assert "* record_left0_s0)" in body
    wide = {name for name, _ in re.findall(r"\b(\w+)_s([0-9])\b", re.sub(r"\(int\)\w+_s[0-9]", "", body))}
    assert wide == {"state", "record_left0", "record_k", "record_scale0", "record_log_decay"}


def test_windows_have_no_rows_apart() -> None:
    """Their tokens would take gates from shared memory that nobody wrote."""
    spec = spec_of("verify", K=64, V=64, window=4, kv_only=40, buffer=9)
    assert not [s for s in space.legal(spec, SM90) if s.apart]


@pytest.mark.parametrize("name", ["linear_attention", "gated_delta_rule"])
def test_a_crowded_tree(name: str, emulated: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors that are inputs as they are share memory in the inputs' dtype where there are many."""
    monkeypatch.setattr(geometry, "MOST_VECTORS", 0)
    spec = spec_of("verify", name, window=9, tree=True, kv_only=6)
    kernel = emulated(spec)
    assert Geometry(spec, space.default(spec, SM90)).shared_dtype("reads") == spec.io == "bfloat16"
    check(kernel, spec)


@pytest.mark.slow
@pytest.mark.parametrize("spec", THOROUGH, ids=name_of)
def test_every_kind_against_oracle(spec: KernelSpec, emulated: Any) -> None:
    check(emulated(spec), spec)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["decode", "verify", "flush"])
def test_every_tiling_against_oracle(form: str, emulated: Any) -> None:
    spec = spec_of(form, V=64, K=64)
    tilings = {(s.block_v, s.lanes, s.threads, s.mma): s for s in space.legal(spec, SM90)}
    for schedule in list(tilings.values())[::6]:
        check(emulated(spec, schedule), spec)


def test_decay_of_zero_forgets_everything(emulated: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gate of infinity gives a log-decay of -inf, among committed records and among new tokens."""
    draw = Stream._draw

    def with_infinite_gates(self: Stream, a: Any, B: int, rng: Any) -> Any:
        drawn = draw(self, a, B, rng)
        if a.name == "a":
            drawn[1::3] = float("inf")
        return drawn

    monkeypatch.setattr(Stream, "_draw", with_infinite_gates)
    for spec in (DECODE, VERIFY, VERIFY_MMA, FLUSH, DECODE_KDA, VERIFY_KDA):
        case = case_of(spec)
        decays = case.before["record_log_decay_key" if spec in (DECODE_KDA, VERIFY_KDA) else "record_log_decay"]
        assert bool(decays.isneginf().any())
        given = case.tensors()
        emulated(spec)(*arguments_of(spec, given))
        result = judge(case, given)
        assert result.ok, result.reason


@pytest.mark.parametrize("spec", [DECODE, VERIFY, VERIFY_MMA, STEP], ids=name_of)
def test_a_row_does_not_depend_on_its_neighbours(spec: KernelSpec, emulated: Any) -> None:
    case = case_of(spec)
    together, per_token = case.tensors(), {a.name for a in RECURRENCES["gated_delta_rule"].arguments if not a.parameter}
    emulated(spec)(*arguments_of(spec, together))
    for b in (1, 5):
        alone = case.tensors()
        for name in per_token | {"slots", "rings", "lengths", "out"} & alone.keys():
            alone[name] = alone[name][b : b + 1].clone()
        emulated(spec)(*arguments_of(spec, alone))
        slot, ring = int(alone["slots"]), int(alone["rings"])
        assert same_bits(alone["out"][0], together["out"][b])
        assert same_bits(alone["state"][slot], together["state"][slot])
        for field in spec.record_layout.fields:
            assert same_bits(alone[field.name][ring], together[field.name][ring])


def strided(x: torch.Tensor, dim: int, gap: int) -> torch.Tensor:
    """The same values with ``gap`` elements of NaN between neighbours along ``dim``."""
    shape = list(x.shape)
    shape[dim] *= 2
    roomy = torch.full(
        (*shape[:-1], shape[-1] + gap if dim != x.ndim - 1 else shape[-1]), torch.nan, dtype=torch.float32
    ).to(x.dtype)
    view = roomy.unflatten(dim, (x.shape[dim], 2)).select(dim + 1, 0)[..., : x.shape[-1]]
    view.copy_(x)
    return view


@pytest.mark.parametrize("spec", [DECODE, VERIFY, VERIFY_MMA, DECODE_KDA], ids=name_of)
def test_strides_of_every_kind(spec: KernelSpec, emulated: Any) -> None:
    """Pools with gaps, inputs that are slices of a wider tensor, int64 indices with a stride: the same bits."""
    case = case_of(spec)
    plain, roomy = case.tensors(), case.tensors()
    for name in ("state", "record_left0", "record_k", "q", "k", "v"):
        if name in roomy:
            roomy[name] = strided(roomy[name], 1, 16)
    for name in ("b", "A_log") if spec is DECODE_KDA else ("a", "b", "A_log"):
        roomy[name] = strided(roomy[name], 0, 0) if roomy[name].ndim == 1 else strided(roomy[name], 0, 3)
    for name in {"slots", "rings", "lengths"} & roomy.keys():
        wide = torch.full((len(roomy[name]), 3), 77, dtype=torch.int64)
        wide[:, 1] = roomy[name]
        roomy[name] = wide[:, 1]
    for given in (plain, roomy):
        emulated(spec)(*arguments_of(spec, given))
    for name in case.before:
        if name not in ("slots", "rings", "lengths"):
            assert same_bits(roomy[name], plain[name]), name


def test_slots_out_of_range_are_reported_and_padded(emulated: Any) -> None:
    case = case_of(DECODE)
    for slots in (torch.int32, torch.int64):
        given = case.tensors()
        given["slots"] = given["slots"].to(slots)
        given["slots"][1] = case.P if slots == torch.int32 else int(given["slots"][1]) + 2**32
        emulated(DECODE)(*arguments_of(DECODE, given))
        assert not given["out"][1].any()
        assert int(given["cursors"][FAULT, case.P]) == FAULT_SLOT
        assert int(given["cursors"][BASE, case.P]) == min(int(given["slots"][1]), 2**31 - 1)
        gone = int(case.before["slots"][1])
        assert same_bits(given["state"][gone], case.before["state"][gone])
        assert int(given["cursors"][COUNT, case.P]) == 0


@pytest.mark.parametrize("spec", [DECODE, FLUSH], ids=name_of)
def test_a_slot_whose_ring_does_not_exist_is_marked(spec: KernelSpec, emulated: Any) -> None:
    case = case_of(spec)
    for ring in (-1, case.N):
        given = case.tensors()
        given["rings"][1] = ring
        emulated(spec)(*arguments_of(spec, given))
        slot = int(given["slots"][1])
        assert int(given["cursors"][WINDOW, slot]) == SKIPPED
        assert given["cursors"][[BASE, FAULT], case.P].tolist() == ([0, 0] if ring < 0 else [ring, FAULT_SLOT])
        at = (slice(None), slot) if spec.form == "flush" else (slot,)
        assert same_bits(given["state"][at], case.before["state"][at])


def test_lengths_out_of_range_count_as_nothing(emulated: Any) -> None:
    case = case_of(VERIFY)
    for length in (-1, VERIFY.window + 1):
        given = case.tensors()
        given["lengths"][1] = length
        emulated(VERIFY)(*arguments_of(VERIFY, given))
        slot = int(given["slots"][1])
        assert not given["out"][1].any()
        assert given["cursors"][[WINDOW, FAULT], slot].tolist() == [0, FAULT_LENGTH]
        assert same_bits(given["state"][slot], case.before["state"][slot])


@pytest.mark.parametrize("spec", [VERIFY, VERIFY_MMA, VERIFY_KDA], ids=name_of)
def test_tokens_past_the_length_may_be_anything(spec: KernelSpec, emulated: Any) -> None:
    """What lies beyond a short window in its tile must not leak into it: NaN there, the same bits as without."""
    case = case_of(spec)
    clean, poisoned = case.tensors(), case.tensors()
    lengths = clean["lengths"].tolist()
    assert min(lengths) < spec.window
    for a in RECURRENCES[case.spec.recurrence.name].arguments:
        for b, length in enumerate(lengths if not a.parameter else ()):
            poisoned[a.name][b, length:] = torch.nan
    for given in (clean, poisoned):
        emulated(spec)(*arguments_of(spec, given))
    for name in ("out", "state", "cursors", *(f.name for f in spec.record_layout.fields)):
        assert same_bits(clean[name], poisoned[name]), name


def test_an_empty_batch_launches_nothing(emulated: Any) -> None:
    given = case_of(DECODE).tensors()
    for name in ("slots", "rings", "q", "k", "v", "a", "b", "out"):
        given[name] = given[name][:0]
    emulated(DECODE)(*arguments_of(DECODE, given))


def test_a_missing_thread_is_noticed(tmp_path: Path) -> None:
    """The emulator's own test: a shuffle in a branch that not all lanes take."""
    low = lowered(DECODE)
    broken = re.sub(
        r"(\n\s*)(\S+ = \(\S+ \+ __shfl_xor_sync[^\n]*;)", r"\1if (threadIdx.x % 32 < 16) {\2}", low.source, count=1
    )
    assert broken != low.source
    kernel = Emulated(
        DECODE, space.default(DECODE, SM90), SM90, Lowered(**{**low.__dict__, "source": broken}), tmp_path
    )
    with pytest.raises(RuntimeError, match="do not reach"):
        kernel(*arguments_of(DECODE, case_of(DECODE).tensors()))


@pytest.mark.parametrize("window", [0, 8])
@pytest.mark.parametrize("form", ["decode", "step", "flush", "verify"])
def test_legal_space(form: str, window: int) -> None:
    if (form == "verify") != (window > 0):
        return
    for tgt in CUDA:
        for layout in ("VK", "KV"):
            spec = qwen3_next(form, window=window, layout=layout)
            legal = space.legal(spec, tgt)
            assert len(legal) >= 12
            assert space.default(spec, tgt) in legal
            assert all(Geometry(spec, s).shared_bytes <= tgt.shared_limit for s in legal)
    assert len(space.legal(spec_of("advance"), SM90)) >= 12


@pytest.mark.parametrize("K", [16, 32, 64, 80, 96, 100, 128, 192, 256])
def test_every_width_has_schedules(K: int) -> None:
    for form, state, layout in (("decode", "float32", "VK"), ("verify", "float16", "KV")):
        spec = spec_of(
            form, K=K, V=K, state=state, layout=layout, buffer=64, kv_only=64, window=16 if form == "verify" else 0
        )
        for tgt in CUDA:
            assert space.default(spec, tgt) in space.legal(spec, tgt)


@pytest.mark.parametrize("name", SHIPPED)
def test_defaults_have_the_registers_that_they_need(name: str) -> None:
    """Of the extremes of shapes and dtypes, on all targets: by the bound that :attr:`Geometry.pressure` is, or known
    to fit."""
    extremes = (
        {"K": 256, "V": 256, "buffer": 64, "io": "float32"},
        {"K": 100, "V": 16, "state": "bfloat16"},
        {"K": 128, "V": 128},
    )
    for form, window in (("decode", 0), ("step", 0), ("flush", 0), ("verify", 4), ("verify", 8), ("verify", 16)):
        for given in extremes:
            spec = spec_of(form, name, window=window, **given)
            for tgt in CUDA:
                schedule = space.default(spec, tgt)
                geometry = Geometry(spec, schedule)
                assert geometry.shared_bytes * schedule.ctas_per_sm <= tgt.shared_limit
                assert geometry.pressure <= schedule.registers or (
                    fits_the_brim(spec, schedule.stage) and tgt.name == "sm_90a"
                )


def assert_clean(spec: KernelSpec, target_name: str) -> None:
    binary, low = cubin(spec, target_name), lowered(spec, target_name)
    assert binary.data[:4] == b"\x7fELF"
    assert binary.resources["spill_bytes"] == 0
    assert binary.resources["stack_bytes"] == 0
    # Shared arrays do not share addresses: the barriers of the templates are placed for that.
    geometry = Geometry(spec, space.default(spec, target(target_name)))
    assert low.shared >= geometry.shared_bytes
    assert "__sync_thread_partial" not in low.source


def state_accesses(source: str) -> set[str]:
    """The types through which the state is read and written."""
    return set(re.findall(r"\*\((\w+)\*\)\(state \+", source)) | set(
        re.findall(r"= state\[|\bstate\[[^=;]*\] = ", source)
    )


@pytest.mark.parametrize("state", ["int8", "float8_e4m3fn", "float16"])
def test_narrow_states_are_those_of_the_reference(state: str, emulated: Any) -> None:
    """Codes and random numbers of a fold: the torch reference's, but for values that float32 moves across a step."""
    spec = spec_of("flush", state=state, rounding="stochastic", buffer=6)
    given = [case_of(spec).tensors() for _ in range(2)]
    emulated(spec)(*arguments_of(spec, given[0]))
    ReferenceKernel(spec, "cpu")(*arguments_of(spec, given[1]))
    before, (got, wanted) = case_of(spec).before["state"].double(), (g["state"].double() for g in given)
    changed = wanted.nan_to_num() != before.nan_to_num()
    assert changed.double().mean() > 0.3
    assert (got == wanted)[changed].double().mean() > 0.98


@pytest.mark.parametrize(("form", "window"), [("decode", 0), ("flush", 0), ("verify", 4)])
def test_cubin_is_clean(form: str, window: int) -> None:
    spec = qwen3_next(form, window=window)
    assert_clean(spec, "sm_90a")
    assert state_accesses(lowered(spec).source) == {"float4"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target_name", "state"),
    [*(("sm_90a", state) for state in DTYPES), *((t.name, "float32") for t in CUDA if t.name != "sm_90a")],
)
@pytest.mark.parametrize(
    ("form", "window"), [("decode", 0), ("step", 0), ("flush", 0), ("verify", 2), ("verify", 4), ("verify", 8)]
)
def test_every_cubin_is_clean(form: str, window: int, state: str, target_name: str) -> None:
    for layout in ("VK", "KV") if target_name == "sm_90a" else ("VK",):
        spec = qwen3_next(form, window=window, state=state, layout=layout)
        assert_clean(spec, target_name)
        # A lane's share of a fold on tensor cores is four neighbours.
        narrow = "uint2" if space.default(spec, target(target_name)).mma else "uint4"
        assert state_accesses(lowered(spec, target_name).source) == {"float4" if state == "float32" else narrow}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("state", "rounding"), [("int8", "nearest"), ("float8_e4m3fn", "stochastic"), ("float16", "stochastic")]
)
@pytest.mark.parametrize(("form", "window"), [("decode", 0), ("step", 0), ("flush", 0), ("verify", 4)])
def test_cubins_of_narrow_states_are_clean(form: str, window: int, state: str, rounding: str) -> None:
    assert_clean(qwen3_next(form, window=window, state=state, rounding=rounding), "sm_90a")


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["VK", "KV"])
@pytest.mark.parametrize("K", [16, 32, 64, 80, 96, 100, 128, 192, 256])
def test_every_width_compiles(K: int, layout: str) -> None:
    for form, window in (("step", 0), ("verify", 3)):
        spec = spec_of(form, K=K, V=K, window=window, layout=layout, state="float16", buffer=16)
        assert cubin(spec).data[:4] == b"\x7fELF"
