"""CPU kernels of every form against the float64 forms and the oracle; cpu_harness.py holds the tolerances."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from cpu_harness import CPU, Case, decode, index, kernel
from inventions import EVERY, INVENTIONS

from kvbuffer_codegen.ir import oracle
from kvbuffer_codegen.ir.forms import FORMS, KernelSpec, cursor_spec, ring_rows
from kvbuffer_codegen.ir.recurrences import RECURRENCES, gated_delta_rule
from kvbuffer_codegen.ir.signature import (
    ADVANCE_FORMS,
    BASE,
    COUNT,
    FAULT,
    FAULT_ACCEPTED,
    FAULT_LENGTH,
    FAULT_SLOT,
    KV_ONLY,
    SKIPPED,
    WINDOW,
)
from kvbuffer_codegen.schedules import space

RECURRENT = [name for name, form in FORMS.items() if form.tokens or name == "flush"]
FLOATS = ("float32", "bfloat16", "float16")
FAMILY = [*INVENTIONS, *(r for r in RECURRENCES.values() if r is not gated_delta_rule)]


def spec(form: str, recurrence: Any = gated_delta_rule, **more: Any) -> KernelSpec:
    values = {"K": 32, "V": 16, "ratio": 2, "buffer": 4, "window": 3 if form == "verify" else 0, **more}
    return KernelSpec(form, recurrence.normal_form, **values)


def tuples(form: str) -> list[tuple[str, str, str]]:
    """(io, state, layout): every pair of dtypes, the layouts in turn; both for float32 and bfloat16."""
    turns = [(io, state, ("VK", "KV")[i % 2]) for i, (io, state) in enumerate(itertools.product(FLOATS, FLOATS))]
    return [*turns, ("float32", "float32", "KV"), ("bfloat16", "bfloat16", "KV" if form == "flush" else "VK")]


@pytest.mark.parametrize("form", ["decode", "verify"])
@pytest.mark.parametrize("seed", range(4))
def test_every_row_of_a_mixed_batch(form: str, seed: int) -> None:
    """Ragged occupancies and lengths, folds, kv_only rows, padding, gaps, poison: one launch."""
    Case(spec(form, io="bfloat16", kv_only=8), seed=seed, B=8).run()


@pytest.mark.parametrize("form", RECURRENT)
def test_float32(form: str) -> None:
    for seed, dtype in enumerate((np.int32, np.int64)):
        Case(spec(form, kv_only=8), seed=seed, B=7, index_dtype=dtype).run()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "dtypes"), [(form, d) for form in RECURRENT for d in dict.fromkeys(tuples(form))], ids=str
)
def test_dtypes_and_layouts(form: str, dtypes: tuple[str, str, str]) -> None:
    io, state, layout = dtypes
    for seed in range(2):
        Case(spec(form, io=io, state=state, layout=layout), seed=seed).run()


@pytest.mark.parametrize("form", ["decode", "verify"])
def test_narrow_state(form: str) -> None:
    """The fast suite's share of the matrix above: both 16-bit formats, both layouts."""
    Case(spec(form, io="float16", state="bfloat16", layout="KV", kv_only=8)).run()
    if form == "decode":
        Case(spec(form, io="bfloat16", state="float16", kv_only=8)).run()


@pytest.mark.parametrize(
    "sizes",
    [
        {"buffer": 1, "window": 4},
        pytest.param({"buffer": 2, "window": 5, "kv_only": 3}, marks=pytest.mark.slow),
        pytest.param({"K": 100, "V": 6, "io": "bfloat16"}, marks=pytest.mark.slow),
        pytest.param({"K": 1, "V": 1, "ratio": 1}, marks=pytest.mark.slow),
        pytest.param({"K": 33, "V": 7, "ratio": 3, "layout": "KV", "state": "float16"}, marks=pytest.mark.slow),
        pytest.param({"K": 128, "V": 128, "buffer": 16, "window": 8}, marks=pytest.mark.slow),
        pytest.param({"window": 16, "buffer": 64, "kv_only": 64}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_sizes(sizes: dict[str, Any]) -> None:
    """T > L, L = 1, odd and real dims."""
    Case(spec("verify", **sizes), B=5).run()


@pytest.mark.slow
@pytest.mark.parametrize("buffer", range(1, 65))
def test_every_buffer_length(buffer: int) -> None:
    """The covering arrays take a few lengths of each kind; here is each."""
    Case(spec("decode", buffer=buffer, V=8), B=7).run()


@pytest.mark.parametrize("form", ["decode", "step"])
def test_buffer_of_one(form: str) -> None:
    Case(spec(form, buffer=1), B=5).run()


@pytest.mark.slow
@pytest.mark.parametrize("form", RECURRENT)
@pytest.mark.parametrize("recurrence", FAMILY, ids=lambda r: r.name)
def test_other_recurrences(recurrence: Any, form: str) -> None:
    """Several reads and writes, counts, decays over K and over V, a nonlinear left vector."""
    for layout in ("VK", "KV"):
        Case(spec(form, recurrence, io="bfloat16", layout=layout, kv_only=8), B=7).run()


def test_two_writes_and_reads() -> None:
    """The fast suite's share of the matrix above."""
    Case(spec("decode", EVERY[3], io="bfloat16", kv_only=8), B=7).run()


@pytest.mark.slow
@pytest.mark.parametrize("form", RECURRENT)
def test_every_schedule(form: str) -> None:
    for layout in ("VK", "KV"):
        small = spec(form, layout=layout, io="bfloat16")
        for schedule in space.legal(small, CPU):
            Case(small, B=5).run(schedule)


def extremes(log_decay: float) -> Any:
    """Raw gates that make the log-decay of the gated delta rule about 0, -20, or -infinity."""
    raw = {0.0: (0.0, -200.0), -20.0: (0.0, 20.0), -np.inf: (88.7, 100.0)}[log_decay]

    def gates(values: dict[str, Any]) -> dict[str, Any]:
        made = dict(values)
        for name, value in (("A_log", raw[0]), ("a", raw[1]), ("dt_bias", 0.0)):
            if name in made:
                made[name] = np.full_like(made[name], value)
        return made

    return gates


@pytest.mark.parametrize("log_decay", [0.0, -20.0, -np.inf])
@pytest.mark.parametrize("form", RECURRENT)
def test_extreme_decays(form: str, log_decay: float) -> None:
    """exp(-inf) = 0 is legal, and a step of -20 costs its neighbours no accuracy."""
    Case(spec(form, kv_only=8), B=6, gates=extremes(log_decay)).run()


def test_decay_of_one_step_among_others() -> None:
    """One record decays by e^-20 or to nothing, the others not at all."""
    for sharp in (-20.0, -np.inf):
        turn = itertools.count()

        def gates(values: dict[str, Any], sharp: float = sharp, turn: Any = turn) -> dict[str, Any]:
            return extremes(sharp if "a" in values and next(turn) % 3 == 0 else 0.0)(values)

        case = Case(spec("decode", kv_only=8), B=6, gates=gates)
        case.run()


def test_saturation() -> None:
    """A state value beyond its format becomes the largest finite one."""
    case = Case(spec("step", state="float16", io="float32"), B=1)
    case.given["v"][...] = 1e7
    case.tokens[0][0]["v"] = np.full_like(case.tokens[0][0]["v"], 1e7)
    kernel(case.spec)(**case.given)
    state = decode(np.ascontiguousarray(case.given["state"][case.slots[0]]), "float16")
    assert np.isfinite(state).all()
    assert np.abs(state).max() == 65504


@pytest.mark.parametrize("form", ["decode", "verify"])
def test_repeats_bit_for_bit_and_ignores_neighbours(form: str) -> None:
    """The same row alone, and in a batch at another place, gives the same bits."""
    first, again = (Case(spec(form, kv_only=8), B=7, seed=5).run() for _ in range(2))
    for name in first.whole:
        assert first.whole[name].tobytes() == again.whole[name].tobytes(), name
    alone = Case(spec(form, kv_only=8), B=7, seed=5)
    row = 1
    per_row = [a.name for a in alone.arguments if a.shape[0] == "B"]
    alone.given |= {name: alone.given[name][row : row + 1] for name in per_row}
    kernel(alone.spec)(**alone.given)
    assert np.array_equal(alone.given["out"][0], first.given["out"][row])
    for f in alone.spec.record_layout.fields:
        ring = alone.rings[row]
        assert (
            np.ascontiguousarray(alone.given[f.name][ring]).tobytes()
            == np.ascontiguousarray(first.given[f.name][ring]).tobytes()
        )


@pytest.mark.parametrize("name", ["slots", "rings"])
@pytest.mark.parametrize("bad", [99, -2, 2**32, -(2**32)])
def test_slots_and_rings_out_of_range(bad: int, name: str) -> None:
    """Treated as padding and reported in column P, the nearest int32 where one does not fit; -1 is reported nowhere.
    A slot whose ring does not exist is marked for what closes the step."""
    case = Case(spec("decode", kv_only=8), B=3, index_dtype=np.int64)
    case.given["slots"][[0, 2]] = -1
    case.given[name][1] = bad
    case.given["slots"][1] = 4 if name == "rings" else bad
    kernel(case.spec)(**case.given)
    cursors = case.given["cursors"]
    assert cursors[FAULT, case.P] == FAULT_SLOT
    assert cursors[BASE, case.P] == np.clip(bad, -(2**31), 2**31 - 1)
    assert (cursors[FAULT, : case.P] == 0).all()
    assert cursors[WINDOW, : case.P].tolist() == [SKIPPED * (name == "rings" and p == 4) for p in range(case.P)]
    assert (case.given["out"] == 0).all()
    for name, whole in case.whole.items():
        assert name in ("out", "cursors") or whole.tobytes() == case.before[name].tobytes()


def test_padding_reports_nothing() -> None:
    case = Case(spec("decode", kv_only=8), B=3, index_dtype=np.int32)
    case.given["slots"][:] = -1
    kernel(case.spec)(**case.given)
    assert case.given["cursors"].tobytes() == case.before["cursors"].tobytes()


def test_lengths_out_of_range() -> None:
    case = Case(spec("verify", io="bfloat16", kv_only=8), B=3, index_dtype=np.int64)
    case.given["lengths"][:] = [4, -1, 2**40]
    kernel(case.spec)(**case.given)
    for b in (0, 2):
        assert case.given["cursors"][FAULT, case.slots[b]] == FAULT_LENGTH
        assert case.given["cursors"][WINDOW, case.slots[b]] == 0
    assert (decode(np.ascontiguousarray(case.given["out"]), "bfloat16") == 0).all()


def test_no_rows() -> None:
    case = Case(spec("decode", kv_only=8), B=2)
    case.given |= {a.name: case.given[a.name][:0] for a in case.arguments if a.shape[0] == "B"}
    kernel(case.spec)(**case.given)
    assert case.given["state"].base.tobytes() == case.before["state"].tobytes()


# -- cursors ---------------------------------------------------------------------------------------------------------


def advanced(column: Any, form: str, L: int, C: int, R: int) -> Any:
    """docs/architecture.md, in Python."""
    base, n, flag, window, fault = (int(x) for x in column)
    if window == SKIPPED:
        return [base, n, flag, 0, fault]
    capacity = C if flag else L
    if n > 0 and (form != "decode" or n + 1 > capacity):
        base, n, flag = (base + n) % R, 0, 0
    return [base, n + (form == "decode"), 0 if form == "step" else flag, 0, fault]


def committed(column: Any, accepted: int, L: int, C: int, R: int) -> Any:
    base, n, flag, t, fault = (int(x) for x in column)
    if t <= 0:
        return [base, n, flag, 0, fault]
    if not 0 <= accepted <= t:
        accepted, fault = 0, fault | FAULT_ACCEPTED
    if n > 0 and n + t > (C if flag else L):
        base, n, flag = (base + n) % R, 0, 0
    return [base, n + accepted, flag, 0, fault]


@pytest.mark.parametrize("form", ["decode", "step", "flush", "commit"])
def test_cursors(form: str) -> None:
    L, C, T = 4, 6, 5
    R = ring_rows(L, C, T)
    random = np.random.default_rng(3)
    B, P = 300, 400
    cursors = np.zeros((5, P + 1), np.int32)
    cursors[BASE], cursors[COUNT] = random.integers(0, R, P + 1), random.integers(0, max(C, T) + 1, P + 1)
    cursors[KV_ONLY], cursors[WINDOW] = (
        random.integers(0, 2, P + 1),
        random.integers(0, T + 1, P + 1) * (form == "commit"),
    )
    cursors[WINDOW, ::5] = SKIPPED
    slots = random.permutation(P)[:B]
    slots[::7] = -1
    slots[5] = P + 3
    accepted = random.integers(-1, T + 2, B)
    wanted = cursors.copy()
    for slot, a in zip(slots, accepted, strict=True):
        if 0 <= slot < P:
            column = wanted[:, slot]
            column[:] = committed(column, a, L, C, R) if form == "commit" else advanced(column, form, L, C, R)
    wanted[FAULT, P], wanted[BASE, P] = FAULT_SLOT, P + 3
    for dtype in (np.int32, np.int64):
        got = cursors.copy()
        given = {"cursors": got, "slots": index(slots, dtype), "buffer": L, "kv_only": C, "ring": R}
        if form == "commit":
            kernel(cursor_spec("commit"))(**given, accepted=index(accepted, dtype))
        else:
            kernel(cursor_spec("advance"))(**given, form=ADVANCE_FORMS[form])
        assert np.array_equal(got, wanted)


# -- a request from beginning to end ---------------------------------------------------------------------------------


def test_forms_in_turn_follow_the_oracle() -> None:
    """One row through kv_only windows, decode, step, partial acceptance and flush, with the cursor kernels.

    Tolerance 3e-5 of the largest value: 40 tokens of float32 arithmetic; older errors decay with the state.
    """
    specs = {form: spec(form, kv_only=8) for form in RECURRENT}
    case = Case(specs["verify"], B=1, seed=9, index_dtype=np.int32)
    case.flags[:] = True
    g = dict(case.given)
    g["cursors"][:] = 0
    g["cursors"][KV_ONLY] = 1
    R = case.R
    history: list[dict[str, Any]] = []
    turns = [
        ("verify", 3),
        ("verify", 2),
        ("verify", 3),
        *[("decode", 1)] * 9,
        ("step", 1),
        ("verify", 1),
        ("verify", 0),
    ]
    turns += [
        *[("decode", 1)] * 3,
        ("step", 1),
        ("step", 1),
        ("decode", 1),
        ("flush", 0),
        ("verify", 3),
        *[("decode", 1)] * 8,
    ]

    def outputs_of(tokens: list[dict[str, Any]]) -> tuple[Any, Any]:
        inputs = {name: np.stack([t[name] for t in tokens]) for name in tokens[0]} | case.parameters
        return oracle.run(gated_delta_rule, inputs, np.zeros((case.HV, 16, 32)))

    for form, accepted in turns:
        tokens = [case.token() for _ in range(3 if form == "verify" else 1)]
        call = dict(g)
        if form == "verify":
            call["lengths"] = np.array([3], np.int32)
        for name in tokens[0]:
            call[name] = np.stack([t[name] for t in tokens])[None].astype(np.float32)
            call[name] = call[name] if form == "verify" else call[name][:, 0].copy()
        call["out"] = np.full((1, 3, case.HV, 16) if form == "verify" else (1, case.HV, 16), np.nan, np.float32)
        if form == "flush":
            layered = {f.name for f in specs["flush"].record_layout.fields} | {"state"}
            call |= {name: g[name][None] for name in layered}
        kernel(specs[form])(**call)
        cursors = {"cursors": g["cursors"], "slots": g["slots"], "buffer": 4, "kv_only": 8, "ring": R}
        if form == "verify":
            kernel(cursor_spec("commit"))(**cursors, accepted=np.array([accepted], np.int32))
        else:
            kernel(cursor_spec("advance"))(**cursors, form=ADVANCE_FORMS[form])
        if form != "flush":
            wanted = outputs_of(history + tokens)[0][len(history) :]
            got = call["out"].reshape(len(tokens), case.HV, 16)
            assert np.abs(got - wanted).max() <= 3e-5 * max(1, np.abs(wanted).max()), (form, len(history))
            history += tokens[: accepted if form == "verify" else 1]
    assert g["cursors"][FAULT].max() == 0
    assert g["cursors"][KV_ONLY, case.slots[0]] == 0


@pytest.mark.parametrize(("form", "records"), [("decode", "bf16"), ("verify", "hilo")])
def test_narrow_records(form: str, records: str) -> None:
    Case(spec(form, io="float16", records=records, layout="KV", kv_only=8)).run()


@pytest.mark.slow
@pytest.mark.parametrize("recurrence", FAMILY, ids=lambda r: r.name)
@pytest.mark.parametrize(("form", "records"), list(itertools.product(RECURRENT, ["bf16", "hilo"])))
def test_narrow_records_of_the_family(recurrence: Any, form: str, records: str) -> None:
    Case(spec(form, recurrence, records=records)).run()


@pytest.mark.parametrize(
    ("form", "state", "layout"), [("verify", "int8", "VK"), ("decode", "float8_e4m3fn", "KV"), ("step", "int8", "KV")]
)
def test_scaled_state(form: str, state: str, layout: str) -> None:
    Case(spec(form, io="bfloat16", state=state, layout=layout, kv_only=8), B=8).run()


@pytest.mark.parametrize(
    ("form", "state", "layout"), [("decode", "float16", "KV"), ("step", "bfloat16", "VK"), ("decode", "int8", "VK")]
)
def test_stochastic_rounding(form: str, state: str, layout: str) -> None:
    """Bit for bit what the model draws for slot, head, element and write, up to what float32 moves across a step."""
    Case(spec(form, io="bfloat16", state=state, layout=layout, kv_only=8, rounding="stochastic"), B=8).run()


@pytest.mark.slow
@pytest.mark.parametrize("state", ["bfloat16", "float16", "int8", "float8_e4m3fn"])
@pytest.mark.parametrize(("form", "layout"), list(itertools.product(RECURRENT, ["VK", "KV"])))
def test_stochastic_rounding_of_every_form(form: str, layout: str, state: str) -> None:
    for recurrence in EVERY[:2]:
        Case(spec(form, recurrence, state=state, layout=layout, K=20, V=12, rounding="stochastic")).run()


@pytest.mark.slow
@pytest.mark.parametrize("recurrence", EVERY, ids=lambda r: r.name)
@pytest.mark.parametrize(("form", "layout"), list(itertools.product(RECURRENT, ["VK", "KV"])))
def test_scaled_state_of_the_family(recurrence: Any, form: str, layout: str) -> None:
    for state, io in (("int8", "float16"), ("float8_e4m3fn", "float32")):
        Case(spec(form, recurrence, state=state, layout=layout, io=io, records="hilo", K=20, V=12)).run()


@pytest.mark.parametrize("form", ["decode", "verify"])
def test_more_value_head_rows_than_16_bits_count(form: str) -> None:
    """Rows behind so much padding that B x HV passes 65,536: the same bits as without it."""
    small, large = (Case(spec(form, ratio=8, io="bfloat16", window=2 * (form == "verify")), B=5) for _ in range(2))
    padding = 65536 // small.HV + 1
    for a in large.arguments:
        if a.shape[0] == "B":
            x = large.given[a.name]
            fill = -1 if a.name == "slots" else 0
            large.given[a.name] = np.concatenate([np.full((padding, *x.shape[1:]), fill, x.dtype), x])
    large.given["out"][...] = 77
    for case in (small, large):
        kernel(case.spec)(**case.given)
    assert not large.given["out"][:padding].any()
    assert np.array_equal(large.given["out"][padding:], small.given["out"])
    for name, whole in small.whole.items():
        if name not in ("out", *(a.name for a in small.arguments if a.shape[0] == "B")):
            assert whole.tobytes() == large.whole[name].tobytes(), name
