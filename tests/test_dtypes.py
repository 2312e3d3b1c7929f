"""What is stored narrower than float32: records, 8-bit states, stochastic rounding; NumPy forms and torch reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from inventions import EVERY

from kvbuffer_codegen import checking
from kvbuffer_codegen.autotune.cases import Case
from kvbuffer_codegen.ir import cost, oracle
from kvbuffer_codegen.ir.forms import FORMS, KernelSpec
from kvbuffer_codegen.ir.forms_numpy import Row
from kvbuffer_codegen.ir.recurrences import gated_delta_rule
from kvbuffer_codegen.runtime.reference import ReferenceKernel

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
    case = Case(spec, recurrence, seed)
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
