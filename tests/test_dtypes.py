"""What is stored narrower than float32: records, 8-bit states, stochastic rounding; NumPy forms and torch reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from inventions import EVERY
from runtime_kit import Streams, error, make_pool

from kvbuffer_codegen import checking
from kvbuffer_codegen.autotune.cases import Case
from kvbuffer_codegen.ir import cost, oracle, philox, storage
from kvbuffer_codegen.ir.forms import FORMS, KernelSpec, cursor_spec
from kvbuffer_codegen.ir.forms_numpy import Row, StoredRow
from kvbuffer_codegen.ir.recurrences import gated_delta_rule
from kvbuffer_codegen.runtime.reference import ReferenceKernel
from kvbuffer_codegen.runtime.storage import offsets, on_grid, stored, values

pytestmark = [pytest.mark.filterwarnings("ignore:No .* kernel"), pytest.mark.usefixtures("one_thread")]
TOKEN_FORMS = [name for name, form in FORMS.items() if not form.cursors_only]


def spec_of(form: str, recurrence: Any = gated_delta_rule, **more: Any) -> KernelSpec:
    given = {
        "K": 16,
        "V": 12,
        "ratio": 2,
        "buffer": 4,
        "window": 3 if form == "verify" else 0,
        "io": "bfloat16",
        **more,
    }
    return KernelSpec(form, recurrence.normal_form, **given)


def by_reference(spec: KernelSpec, recurrence: Any, seed: int = 0) -> str:
    """What the judge says of the torch reference."""
    case = checking.case_of(spec, recurrence, seed)
    given = case.tensors()
    ReferenceKernel(spec, "cpu")(*checking.arguments_of(spec, given))
    return checking.judge(case, given).reason


def drawn(spec: KernelSpec, tokens: int, seed: int = 0) -> tuple[dict[str, Any], Any]:
    """Inputs of two key heads, and a state."""
    rng, heads = np.random.default_rng(seed), {"key": 2, "value": 2 * spec.ratio}
    wide = {"K": (spec.K,), "V": (spec.V,), None: ()}
    data = {
        a.name: rng.standard_normal((*(() if a.parameter else (tokens,)), heads[a.heads], *wide[a.axis]))
        for a in gated_delta_rule.arguments
    }
    return data, rng.standard_normal((2 * spec.ratio, spec.V, spec.K))


# -- records ---------------------------------------------------------------------------------------------------------


def test_record_layouts() -> None:
    fields = {
        records: [
            (f.name, f.stored("bfloat16")) for f in spec_of("decode", K=128, records=records).record_layout.fields
        ]
        for records in ("exact", "bf16", "hilo")
    }
    assert fields["bf16"][0] == ("record_left0", "bfloat16")
    assert fields["hilo"][:2] == [("record_left0_high", "bfloat16"), ("record_left0_low", "bfloat16")]
    assert fields["exact"][1:] == fields["bf16"][1:] == fields["hilo"][2:], "rights and log-decays stay exact"
    sizes = [cost.record_bytes(spec_of("decode", V=128, records=r), 4) for r in ("exact", "bf16", "hilo")]
    assert sizes[0] - sizes[1] == 4 * 128 * 2
    assert sizes[2] == sizes[0]
    with pytest.raises(ValueError, match="records='fp8': accepted: exact, bf16, hilo"):
        spec_of("decode", records="fp8")


@pytest.mark.parametrize(("records", "least", "most"), [("bf16", 1e-4, 2**-8), ("hilo", 1e-7, 2**-16)])
def test_error_of_narrow_records(records: str, least: float, most: float) -> None:
    """The state after 40 tokens is off by about one rounding of what was written, and by no less: the model does
    round."""
    spec = spec_of("decode", records=records, buffer=6)
    data, state = drawn(spec, 40)
    row = Row(spec, state, {name: data[name] for name in ("A_log", "dt_bias")})
    for t in range(40):
        row.decode({name: x[t] for name, x in data.items() if name not in ("A_log", "dt_bias")})
    row.flush()
    truth = oracle.run(gated_delta_rule, data, state)[1][-1]
    assert least < np.linalg.norm(row.state - truth) / np.linalg.norm(truth) < most


@pytest.mark.parametrize("records", ["bf16", "hilo"])
@pytest.mark.parametrize("form", TOKEN_FORMS)
def test_narrow_records_in_the_reference(form: str, records: str) -> None:
    for recurrence in EVERY:
        assert by_reference(spec_of(form, recurrence, records=records, layout="KV", kv_only=5), recurrence) == ""


def test_judge_sees_records_that_were_not_narrowed() -> None:
    """A fold of the exact left vectors instead of the ring's: off by more than the judge accepts of a state."""
    spec = spec_of("flush", records="bf16")
    case = Case(spec, gated_delta_rule)
    given = case.tensors()
    given["record_left0"] = given["record_left0"].float() * (1 + 2**-9)
    exact = ReferenceKernel(spec_of("flush"), "cpu")
    exact(*checking.arguments_of(spec_of("flush"), given))
    given["record_left0"] = case.before["record_left0"]
    assert "state" in checking.judge(case, given).reason


# -- 8-bit states ----------------------------------------------------------------------------------------------------

SCALED = ("int8", "float8_e4m3fn")


@pytest.mark.parametrize("state", SCALED)
def test_scaled_tiles(state: str) -> None:
    """Half a step of error at most, scales that fit, strong channels that cost the others nothing, exact zeros."""
    tile = np.random.default_rng(0).standard_normal((3, 20, 16))
    tile[:, :, 3] *= 1000.0
    tile[1, 4], tile[1, :, 5], tile[2] = 0.0, 0.0, 0.0
    made = storage.scaled(tile, state)
    top = storage.FORMATS[state].largest
    step = 1.0 if state == "int8" else np.maximum(np.abs(made.codes) / 8, 2.0**-9)
    assert np.all(np.abs(made.values - tile) <= 0.5001 * step * made.rows[..., None] * made.channels[..., None, :])
    assert np.abs(made.codes).max() == top
    assert np.all(made.channels[0] == np.abs(tile[0]).max(0).astype(np.float32))
    assert not made.values[1, 4].any()
    assert not made.values[1, :, 5].any()
    assert not made.values[2].any()
    others = np.arange(16) != 3
    error = np.linalg.norm((made.values - tile)[0][:, others]) / np.linalg.norm(tile[0][:, others])
    rows_only = np.abs(tile[0]).max(-1, keepdims=True) / top
    worse = np.rint(tile[0] / rows_only) * rows_only if state == "int8" else np.zeros_like(tile[0])
    assert error < 0.05 < np.linalg.norm((worse - tile[0])[:, others]) / np.linalg.norm(tile[0][:, others])


def test_float8_grid_is_that_of_torch() -> None:
    """Every value of e4m3, and what lies between them, to the neighbour that torch picks; ties aside."""
    codes = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).double().numpy()
    codes = np.unique(codes[np.isfinite(codes)])
    between = np.concatenate([codes[:-1] * (1 - f) + codes[1:] * f for f in (0.0, 0.3, 0.499, 0.501, 0.9)])
    wanted = torch.from_numpy(between).float().to(torch.float8_e4m3fn).double().numpy()
    assert np.array_equal(storage.on_grid(between, "float8_e4m3fn"), wanted)
    assert np.array_equal(on_grid(torch.from_numpy(between).float(), "float8_e4m3fn").double().numpy(), wanted)


@pytest.mark.parametrize("state", SCALED)
def test_torch_and_numpy_store_the_same(state: str) -> None:
    tile = np.random.default_rng(1).standard_normal((4, 12, 16)).astype(np.float32)
    tile *= np.exp(3 * np.random.default_rng(2).standard_normal((4, 1, 16))).astype(np.float32)
    tile[0, 0, 0], tile[1, 2, 3], tile[2] = np.inf, -3e38, 1e-35
    made, wanted = stored(torch.from_numpy(tile), getattr(torch, state)), storage.scaled(tile, state)
    assert torch.isfinite(values(made)).all()
    np.testing.assert_allclose(made["state_rows"].numpy(), wanted.rows, rtol=1e-6)
    np.testing.assert_allclose(made["state_channels"].numpy(), wanted.channels, rtol=1e-6)
    differ = made["state"].double().numpy() != wanted.codes
    assert differ.mean() < 0.002, "codes may differ where float32 rounds across a half"


@pytest.mark.parametrize("state", SCALED)
@pytest.mark.parametrize("form", TOKEN_FORMS)
def test_scaled_states_in_the_reference(form: str, state: str) -> None:
    for recurrence in EVERY:
        spec = spec_of(form, recurrence, state=state, layout="KV" if form == "step" else "VK", kv_only=5)
        assert by_reference(spec, recurrence) == ""


def pool_of(state: str) -> Any:
    return make_pool(state=state, io="bfloat16", layout="KV" if state == "int8" else "VK", kv_only=6)


@pytest.mark.parametrize("state", SCALED)
def test_life_of_a_row_with_a_scaled_state(backend: str, state: str) -> None:
    """load, decode over several folds, fork, flush, materialize, verify, step, reset: what is stored is the float64
    model's within a few steps, and a fork goes on bit for bit."""
    pool = pool_of(state)
    streams = Streams(pool, 1, 12, zero=True)
    a, b = pool.alloc(), pool.alloc()
    states = torch.randn(2, 4, 16, 16, generator=torch.Generator().manual_seed(1))
    states[..., 3] *= 40
    pool.load(a, states)
    limit = {"int8": 0.01, "float8_e4m3fn": 0.07}[state]
    kept = storage.stored(states.numpy(), state)
    assert np.isclose(pool.materialize(a), kept, rtol=1e-5).mean() > 0.99, "a code may go the other way"
    assert 1e-4 < error(pool.materialize(a), states.double().numpy()) < limit
    rows = []
    for layer in range(2):
        spec = KernelSpec("decode", gated_delta_rule.normal_form, 16, 16, 2, io="bfloat16", state=state, buffer=4)
        rows.append(StoredRow(spec, kept[layer], {n: streams.inputs[n][layer].numpy() for n in ("A_log", "dt_bias")}))

    def token(layer: int, t: int) -> dict[str, Any]:
        return {n: x[layer, 0, t].float().numpy() for n, x in streams.inputs.items() if n not in ("A_log", "dt_bias")}

    def feed(slots: list[int], tokens: range, form: str) -> Any:
        for t in tokens:
            for layer in range(2):
                given = streams.layer(layer, [(0, t)] * len(slots))
                out = getattr(pool, form)(layer, torch.tensor(slots), **given)
                wanted = getattr(rows[layer], form)(token(layer, t))
                assert error(out[0].float(), wanted) < 3 * limit
            pool.advance(torch.tensor(slots))
        return out

    feed([a], range(6), "decode")
    pool.fork(a, b)
    out = feed([a, b], range(6, 10), "decode")
    assert torch.equal(out[0], out[1])
    assert torch.equal(pool.materialize(a), pool.materialize(b))
    out = feed([a, b], range(10, 12), "step")
    pool.flush(torch.tensor([a]))
    assert torch.equal(pool.materialize(a), pool.materialize(b))
    assert error(pool.materialize(a), np.stack([row.state for row in rows])) < 2 * limit
    pool.reset(a)
    assert not pool.materialize(a).any()
    assert pool.materialize(b).any()


@pytest.mark.parametrize("state", SCALED)
def test_scaled_states_saturate(backend: str, state: str) -> None:
    """Infinities and what overflows float32 in a fold become the largest value; a row of zeros stays zero."""
    pool = pool_of(state)
    slot = pool.alloc()
    states = torch.zeros(2, 4, 16, 16)
    states[0, 0, 0, 0], states[0, 1, 2] = float("inf"), -3e38
    pool.load(slot, states)
    kept = pool.materialize(slot)
    assert torch.isfinite(kept).all()
    assert kept[0, 0, 0, 0] > 1e38
    assert kept[0, 1, 2].max() < -1e38
    streams = Streams(pool, 1, 1, zero=True)
    given = streams.layer(0, [(0, 0)])
    given["v"] = given["v"] * 1e38
    given["v"][:, :, 7], given["b"] = 0.0, torch.full_like(given["b"], 9.0)
    pool.reset(slot)
    for layer in range(2):
        pool.step(layer, torch.tensor([slot]), **given)
    pool.advance(torch.tensor([slot]))
    kept = pool.materialize(slot)
    assert torch.isfinite(kept).all()
    assert kept.abs().max() > 1e36
    assert not kept[:, :, 7].any()


# -- stochastic rounding ---------------------------------------------------------------------------------------------

NARROW = ("bfloat16", "float16", *SCALED)


def test_philox_is_the_published_one() -> None:
    """Known answers of Random123's philox4x32-10."""
    for value, words in (
        (0, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        (0xFFFFFFFF, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    ):
        assert [int(w) for w in philox.philox([value] * 4, (value, value))] == words


@pytest.mark.parametrize("state", NARROW)
def test_torch_draws_as_numpy_does(state: str) -> None:
    for layout, seed in (("VK", 7), ("KV", -3)):
        spec = spec_of("decode", state=state, layout=layout, K=18, V=6, rounding="stochastic")
        writes = torch.tensor([0, 5, 2**31 - 1], dtype=torch.int32)
        made = offsets(spec, 3, writes, torch.tensor(seed, dtype=torch.int32))
        for b, n in enumerate(writes.tolist()):
            assert np.array_equal(made[b].numpy(), philox.offsets(state, layout, (3, 6, 18), seed, n))


@pytest.mark.parametrize("state", NARROW)
def test_stochastic_rounding_has_no_bias(state: str) -> None:
    """A tile written 4,000 times: the mean is the tile to within five standard errors of the worst of 288 elements,
    where rounding to nearest is off by a fixed part of a step; what the format has stays what it is."""
    tile = np.random.default_rng(0).uniform(0.5, 1.0, (1, 12, 24))
    count, nearest = 4000, storage.stored(tile, state)
    drawn = [storage.stored(tile, state, philox.offsets(state, "VK", (1, 12, 24), 3, n)) for n in range(count)]
    step = np.ptp(drawn, axis=0)
    fraction = np.abs(nearest - tile) / np.where(step > 0, step, 1)
    error = np.abs(np.mean(drawn, axis=0) - tile) / np.where(step > 0, step, 1)
    spread = np.sqrt(np.clip(fraction * (1 - fraction), 1e-4, None) / count)
    assert np.all(error < 5 * spread + 2.0**-12)
    assert np.mean(fraction) > 10 * np.mean(error)
    assert np.all(step > 0) or state in SCALED, "the largest of an 8-bit row is exact"
    if state not in SCALED:
        assert np.array_equal(storage.stored(nearest, state, drawn[0] * 0 + 1 - 2.0**-13), nearest)


@pytest.mark.parametrize("state", NARROW)
@pytest.mark.parametrize("form", TOKEN_FORMS)
def test_stochastic_rounding_in_the_reference(form: str, state: str) -> None:
    for recurrence in EVERY[:3]:
        spec = spec_of(form, recurrence, state=state, layout="KV" if form == "flush" else "VK", rounding="stochastic")
        assert by_reference(spec, recurrence) == ""


@pytest.mark.parametrize("form", ["advance", "commit"])
def test_cursors_count_writes(form: str) -> None:
    spec = cursor_spec(form, "stochastic")
    assert checking.check_kernel(ReferenceKernel(spec, "cpu"), spec, seeds=6).reason == ""


@pytest.mark.parametrize("state", ["int8"])
def test_the_same_seed_gives_the_same_bits(backend: str, state: str) -> None:
    """In another slot, batch and place in it, after whatever the slot was before; another seed gives others."""
    states = torch.randn(2, 4, 16, 16, generator=torch.Generator().manual_seed(5))

    def run(slot: int, batch: list[int], seed: int, rounding: str = "stochastic") -> Any:
        pool = make_pool(state=state, io="bfloat16", rounding=rounding, seed=seed)
        streams = Streams(pool, 1, 12, zero=True)
        rows = torch.tensor(batch)
        for start in (0, 4):  # a first life of the slot leaves nothing behind
            pool.reset(batch)
            pool.load(slot, states)
            for t in range(start, 12):
                for layer in range(2):
                    given = streams.layer(layer, [(0, t) if s == slot else (-1, 0) for s in batch])
                    given = {n: x if n in ("A_log", "dt_bias") else x.nan_to_num(1.0) for n, x in given.items()}
                    getattr(pool, "step" if t == 9 else "decode")(layer, rows, **given)
                pool.advance(rows)
        pool.flush(rows)
        return pool.materialize(slot)

    wanted = run(0, [0], 11)
    assert torch.equal(run(3, [1, 5, 3], 11), wanted)
    other, nearest = run(0, [0], 12), run(0, [0], 11, "nearest")
    assert not torch.equal(other, wanted)
    assert 0 < (other - nearest).norm() / nearest.norm() < 0.1


def test_rounding_arguments() -> None:
    with pytest.raises(ValueError, match="rounding='up': accepted: nearest, stochastic"):
        make_pool(rounding="up")
    with pytest.raises(ValueError, match="rounding='stochastic': accepted: nearest for a float32 state"):
        make_pool(rounding="stochastic")
    with pytest.raises(ValueError, match="seed=4294967296; accepted: a whole number of 32 bits"):
        make_pool(state="int8", rounding="stochastic", seed=2**32)
    spec = spec_of("decode", state="int8", rounding="stochastic")
    assert spec.key()["rounding"] == "stochastic"
    assert spec.name != spec_of("decode", state="int8").name
