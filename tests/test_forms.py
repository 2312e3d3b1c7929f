"""The derived forms against the oracle, in float64: the algebra, before any kernel."""

from __future__ import annotations

import json

import numpy as np
import pytest
from inventions import EVERY, INVENTIONS

from kvbuffer_codegen.ir import oracle
from kvbuffer_codegen.ir.forms import KernelSpec
from kvbuffer_codegen.ir.forms_numpy import Row
from kvbuffer_codegen.ir.normal_form import NormalForm

H, HV, K, V, T = 2, 4, 6, 5, 24
#: float64 rounding of sums of some dozens of terms; a wrong formula is off by more than 1e-3.
LIMIT = 1e-12


def draw(recurrence, seed=0):
    rng = np.random.default_rng(seed)
    data = {}
    for a in recurrence.arguments:
        heads = H if a.heads == "key" else HV
        lead = () if a.parameter else (T,)
        data[a.name] = rng.standard_normal(
            (*lead, *((a.count,) if a.count else ()), heads, *(({"K": K, "V": V}[a.axis],) if a.axis else ()))
        )
    return data, rng.standard_normal((HV, V, K))


def tokens_of(recurrence, data):
    parameters = {a.name: data[a.name] for a in recurrence.arguments if a.parameter}
    return parameters, [{a.name: data[a.name][t] for a in recurrence.arguments if not a.parameter} for t in range(T)]


def spec_of(recurrence, io="float32", buffer=4, kv_only=0):
    return KernelSpec("decode", recurrence.normal_form, K, V, HV // H, io=io, buffer=buffer, kv_only=kv_only)


def close(got, want):
    np.testing.assert_allclose(got, want, rtol=LIMIT, atol=LIMIT * max(1.0, np.abs(want).max()))


@pytest.mark.parametrize("io", ["float32", "bfloat16"])  # two record layouts
@pytest.mark.parametrize("recurrence", EVERY, ids=lambda r: r.name)
@pytest.mark.parametrize("buffer", [1, 4])
def test_decode_step_flush_equal_the_oracle(recurrence, io, buffer):
    data, state = draw(recurrence)
    outputs, states = oracle.run(recurrence, data, state)
    parameters, tokens = tokens_of(recurrence, data)
    row = Row(spec_of(recurrence, io, buffer), state, parameters)
    for t, token in enumerate(tokens):
        close(row.step(token) if t in (3, 4, 11) else row.decode(token), outputs[t])
    assert row.folds >= (T - 3) // buffer - 2
    row.flush()
    close(row.state, states[-1])


@pytest.mark.parametrize("recurrence", EVERY, ids=lambda r: r.name)
@pytest.mark.parametrize("kv_only", [0, 9])
def test_verify_commit_and_kv_only_equal_the_oracle(recurrence, kv_only):
    data, state = draw(recurrence, 1)
    state = state * 0 if kv_only else state
    outputs, states = oracle.run(recurrence, data, state)
    parameters, tokens = tokens_of(recurrence, data)
    row = Row(spec_of(recurrence, "bfloat16", 5, kv_only), None if kv_only else state, parameters)
    t = 0
    for length, accepted in [
        (3, 2),
        (4, 4),
        (1, 0),
        (6, 6),
        (0, 0),
        (3, 9),
        (3, 3),
        (2, 1),
        (4, 4),
    ]:  # 6 > buffer; 9 counts as none
        for i, out in enumerate(row.verify(tokens[t : t + length])):
            close(out, outputs[t + i])
        row.commit(accepted)
        t += accepted if accepted <= length else 0
    assert row.folds >= 2
    row.flush()
    close(row.state, states[t - 1])


@pytest.mark.parametrize("gate", [0.0, 20.0, np.inf])
def test_strong_gates_neither_overflow_nor_lose_the_other_records(gate):
    """Suffix sums: a step of log-decay -20 or -inf among ordinary ones."""
    recurrence = EVERY[0]
    data, state = draw(recurrence, 2)
    data["A_log"][:], data["dt_bias"][:] = 0.0, 0.0
    data["a"][5::7] = gate if gate else -np.inf
    outputs, _ = oracle.run(recurrence, data, state)
    parameters, tokens = tokens_of(recurrence, data)
    row = Row(spec_of(recurrence, buffer=6), state, parameters)
    got = np.array([row.decode(token) for token in tokens])
    assert np.isfinite(got).all()
    close(got, outputs)


@pytest.mark.parametrize("recurrence", EVERY, ids=lambda r: r.name)
def test_normal_form_survives_json(recurrence):
    nf = recurrence.normal_form
    again = NormalForm.from_dict(json.loads(json.dumps(nf.to_dict())))
    assert again == nf
    assert again.hash == nf.hash


def test_inventions_differ_in_kind():
    forms = [r.normal_form for r in INVENTIONS]
    assert [len(nf.reads) for nf in forms] == [1, 2, 3, 2]
    assert [len(nf.writes) for nf in forms] == [1, 2, 2, 1]
    assert [nf.affine for nf in forms] == [True, True, True, False]
    assert forms[0].log_decay_key is not None
    assert forms[3].log_decay_value is not None


def test_record_layout_keeps_the_cheaper_exact_form():
    nf = EVERY[0].normal_form
    wide = KernelSpec("decode", nf, 128, 128, 2, io="bfloat16", buffer=16).record_layout
    assert [(f.name, f.dtype, f.heads, f.axis) for f in wide.fields] == [
        ("record_left0", "float32", "value", "V"),
        ("record_k", "io", "key", "K"),
        ("record_scale0", "float32", "key", None),
        ("record_log_decay", "float32", "value", None),
    ]
    same = KernelSpec("decode", nf, 128, 128, 2, io="float32", buffer=16).record_layout
    assert [f.name for f in same.fields] == ["record_left0", "record_right0", "record_log_decay"]


def test_a_constant_decay_stores_nothing():
    from kvbuffer_codegen.ir.language import HeadScalar, Key, State, Value, exp, outer, recurrence

    @recurrence
    def retention(S: State, q: Key, k: Key, v: Value, slope: HeadScalar):
        S = exp(-exp(slope)) * S + outer(v, k)
        return S, S @ q

    spec = KernelSpec("decode", retention.normal_form, 16, 16, 1, buffer=4)
    assert [f.name for f in spec.record_layout.fields] == ["record_left0", "record_right0"]
    data, state = draw(retention)
    parameters, tokens = tokens_of(retention, data)
    row = Row(spec_of(retention), state, parameters)
    close([row.decode(t) for t in tokens], oracle.run(retention, data, state)[0])
