"""Whatever recurrence is drawn, its derived forms agree with the function itself, and so do its compiled kernels."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from random_recurrences import Written, recurrence_of, written

from kvbuffer_codegen.ir import oracle
from kvbuffer_codegen.ir.forms import KernelSpec
from kvbuffer_codegen.ir.forms_numpy import Row
from kvbuffer_codegen.ir.language import Recurrence
from kvbuffer_codegen.ir.normal_form import NormalForm
from kvbuffer_codegen.recurrences import of_normal_form

H, HV, K, V, T = 2, 4, 5, 3, 10
#: float64 over ten tokens whose errors may each grow a few times; a wrong formula is off by more than 1e-3.
LIMIT = 1e-9
RELAXED = settings(deadline=None, phases=(Phase.generate, Phase.shrink),  suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def draw_inputs(recurrence: Recurrence, seed: int) -> tuple[dict[str, Any], Any]:
    rng = np.random.default_rng(seed)
    wide = {"K": (K,), "V": (V,), None: ()}
    data = {
        a.name: rng.standard_normal(
            (
                *(() if a.parameter else (T,)),
                *((a.count,) if a.count else ()),
                H if a.heads == "key" else HV,
                *wide[a.axis],
            )
        )
        for a in recurrence.arguments
    }
    return data, rng.standard_normal((HV, V, K))


def close(got: Any, want: Any) -> None:
    np.testing.assert_allclose(got, want, rtol=LIMIT, atol=LIMIT * max(1.0, np.abs(want).max()))


@settings(RELAXED, max_examples=600)
@given(drawn=written(), io=st.sampled_from(["float32", "bfloat16"]), buffer=st.integers(1, 5), seed=st.integers(0, 99))
def test_derived_forms_equal_the_oracle(drawn: Written, io: str, buffer: int, seed: int) -> None:
    recurrence = recurrence_of(drawn)
    nf = recurrence.normal_form
    assert NormalForm.from_dict(json.loads(json.dumps(nf.to_dict()))) == nf
    data, state = draw_inputs(recurrence, seed)
    for kv_only in (0, 4):
        start = None if kv_only else state
        outputs, states = oracle.run(recurrence, data, np.zeros_like(state) if kv_only else state)
        again, _ = oracle.run(of_normal_form(nf), data, np.zeros_like(state) if kv_only else state)
        close(again, outputs)
        parameters = {a.name: data[a.name] for a in recurrence.arguments if a.parameter}
        tokens = [{a.name: data[a.name][t] for a in recurrence.arguments if not a.parameter} for t in range(T)]
        spec = KernelSpec("decode", nf, K, V, HV // H, io=io, buffer=buffer, kv_only=kv_only)
        row = Row(spec, start, parameters)
        close(row.verify(tokens[:3]), outputs[:3])
        row.commit(2)
        close(row.decode(tokens[2]), outputs[2])
        close(row.verify(tokens[3:7]), outputs[3:7])
        row.commit(4)
        close(row.step(tokens[7]), outputs[7])
        close([row.decode(token) for token in tokens[8:]], outputs[8:])
        row.flush()
        close(row.state, states[-1])
