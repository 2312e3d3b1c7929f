"""The bars of ``numerics.py``: how far buffered states may drift from the truth, against the recurrent kernels'."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import runtime_kit
from numerics import DECAYS, GATES, Decay, Setting, Study, bar, drift, failures, typical

from kvbuffer_codegen.ir import oracle
from kvbuffer_codegen.ir.recurrences import RECURRENCES


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, one_thread: None) -> None:
    """Pools run kernels that are compiled for this CPU."""
    runtime_kit.use("cpu", monkeypatch, tmp_path)


one_thread = runtime_kit.one_thread

#: Fast: two heads and one seed show a rounding too many. The strong gates need more of both: what is left of a few
#: tokens is off by one rounding or two, in either form.
SHORT = {"tokens": (512,), "heads": 2, "seeds": (0,), "decays": DECAYS[:4]}


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize(
    ("recurrence", "state"), [("gated_delta_rule", "float32"), ("gated_delta_rule", "int8"), ("mamba2", "float16")]
)
def test_short_drift(recurrence: str, state: str) -> None:
    assert not failures(Study(recurrence, **SHORT), state)


@pytest.mark.usefixtures("compiled")
def test_weights_are_exponentials_of_sums() -> None:
    """At a slow decay a product of rounded exponentials drifts as the recurrent kernel does (0.9 times as far); one
    exponential a record leaves a third of that."""
    study = Study("mamba2", **SHORT | {"decays": (Decay(0.999),)})
    buffered, recurrent = (typical(drift(study, Setting(form))[512]) for form in ("decode", "step"))
    assert (buffered <= 0.6 * recurrent).all()


@pytest.mark.slow
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("state", ["float32", "float16", "int8"])
@pytest.mark.parametrize("recurrence", GATES)
def test_drift_of_4096_tokens(recurrence: str, state: str) -> None:
    assert not failures(Study(recurrence, tokens=(4096,)), state)


def test_the_truth_is_the_oracle_and_the_inputs_are_what_they_say() -> None:
    study = Study("gated_delta_rule", tokens=(32,), K=8, V=4, heads=2, seeds=(3,))
    (chunk,) = study.chunks()
    for row in range(len(study.rows)):
        for group, decay in enumerate(study.decays):
            given = study._group({n: x[:, row].double().numpy() for n, x in chunk.items()}, group)
            _, states = oracle.run(RECURRENCES[study.recurrence], given, np.zeros((2, 4, 8)))
            heads = slice(2 * group, 2 * group + 2)
            assert np.array_equal(study.truth[32][row, heads], states[-1])
            logs = -np.exp(given["A_log"]) * np.logaddexp(0, given["a"])
            if decay.strong:
                lowest = np.sort(logs, axis=0)
                assert (lowest[:2] <= 0.99 * decay.strong).all()
                assert (lowest[2:] > -1).all(), "one in each window"
            else:
                assert (np.exp(logs) == 1).all() if decay.mean == 1 else 0.5 < logs.mean() / -decay.A < 2
    k = chunk["k"].double().numpy()
    by_kind = dict(zip(study.inputs, np.moveaxis(k, 1, 0), strict=True))
    assert by_kind["outlier"][..., :2].std() > 15 * by_kind["outlier"][..., 2:].std()
    assert by_kind["correlated"].std(axis=0).mean() < 0.2 * by_kind["random"].std(axis=0).mean()


def test_bars_and_the_error_that_they_hold_for() -> None:
    assert bar("float32", "gated_delta_rule", Decay(0.999, -20.0)).factor == 2.0, "counts as decay 0.9"
    assert bar("float32", "gated_delta_rule", Decay(0.999)).factor == 1.0
    assert bar("int8", "mamba2", Decay(0.99)).factor == 1.5
    errors = np.zeros((1, 3, 1, 8))
    errors[0, :, 0, 5] = [1.0, 3.0, 2.0]
    assert typical(errors) == 2.0
    errors[0, 0, 0, 0] = np.nan
    assert np.isnan(typical(errors)).all()
