"""Whatever recurrence is drawn, its derived forms agree with the function itself, and so do its compiled kernels."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_emulator import Emulated
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from random_recurrences import Written, recurrence_of, written

from kvbuffer_codegen.autotune.cases import Case
from kvbuffer_codegen.checking import arguments_of, judge
from kvbuffer_codegen.compiler.build import build, emit
from kvbuffer_codegen.ir import language, oracle
from kvbuffer_codegen.ir.forms import KernelSpec
from kvbuffer_codegen.ir.forms_numpy import Row
from kvbuffer_codegen.ir.language import HeadChannel, HeadScalar, Key, Recurrence, State, Value, l2norm, outer, width
from kvbuffer_codegen.ir.normal_form import NormalForm
from kvbuffer_codegen.recurrences import of_normal_form
from kvbuffer_codegen.runtime.loader import load_artifact
from kvbuffer_codegen.schedules import space
from kvbuffer_codegen.schedules.targets import target

CPU, SM90 = target("cpu"), target("sm_90a")
H, HV, K, V, T = 2, 4, 5, 3, 10
#: float64 over ten tokens whose errors may each grow a few times; a wrong formula is off by more than 1e-3.
LIMIT = 1e-9
RELAXED = settings(
    deadline=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


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


@settings(RELAXED, max_examples=150)
@given(drawn=written(), io=st.sampled_from(["float32", "bfloat16"]), buffer=st.integers(1, 5), seed=st.integers(0, 99))
def test_derived_forms_equal_the_oracle(drawn: Written, io: str, buffer: int, seed: int) -> None:
    recurrence = recurrence_of(drawn)
    nf = recurrence.normal_form
    assert NormalForm.from_dict(json.loads(json.dumps(nf.to_dict()))) == nf
    data, state = draw_inputs(recurrence, seed)
    for kv_only in (0, 4):
        spec = KernelSpec("decode", nf, K, V, HV // H, io=io, buffer=buffer, kv_only=kv_only)
        check_forms(recurrence, data, state, spec)


def check_forms(recurrence: Recurrence, data: dict[str, Any], state: Any, spec: KernelSpec) -> None:
    """Ten tokens through every form in float64, from ``state``, or as a kv_only row where ``spec`` has a capacity."""
    start = np.zeros_like(state) if spec.kv_only else state
    outputs, states = oracle.run(recurrence, data, start)
    close(oracle.run(of_normal_form(recurrence.normal_form), data, start)[0], outputs)
    parameters = {a.name: data[a.name] for a in recurrence.arguments if a.parameter}
    tokens = [{a.name: data[a.name][t] for a in recurrence.arguments if not a.parameter} for t in range(T)]
    row = Row(spec, None if spec.kv_only else state, parameters)
    close(row.verify(tokens[:3]), outputs[:3])
    row.commit(2)
    close(row.decode(tokens[2]), outputs[2])
    close(row.verify(tokens[3:7]), outputs[3:7])
    row.commit(4)
    close(row.step(tokens[7]), outputs[7])
    close([row.decode(token) for token in tokens[8:]], outputs[8:])
    row.flush()
    close(row.state, states[-1])


def holds(function: Any, io: str = "bfloat16") -> None:
    recurrence = language.recurrence(function)
    data, state = draw_inputs(recurrence, 3)
    for kv_only in (0, 4):
        check_forms(
            recurrence,
            data,
            state,
            KernelSpec("decode", recurrence.normal_form, K, V, 2, io=io, buffer=3, kv_only=kv_only),
        )


# What the test above found once.


def test_a_written_vector_that_only_parameters_give() -> None:
    """Its norm is a sum over K, which a record cannot rebuild from parameters: it was taken without the sum."""

    def constant_key(S: State, q: Key, v: Value, c: HeadChannel) -> Any:
        return S + outer(v, l2norm(c)), S @ q

    holds(constant_key)


def test_a_size_inside_a_stored_vector() -> None:
    """The name of a number that is no field stood in the record's formula."""

    def scaled(S: State, q: Key, v: Value) -> Any:
        return S + outer(v, language.tanh(q * width(q) ** -0.5)), S @ q

    holds(scaled)


def test_a_counted_parameter_before_a_checkpoint_is_there() -> None:
    def two_scales(S: State, q: Key, k: Key, v: Value, b: HeadScalar[3]) -> Any:  # type: ignore[type-arg]
        return S + outer(b[2] * v, k * 0.2), b[0] * (S @ q)

    holds(two_scales)


def test_arguments_called_as_fields_of_others() -> None:
    """``k0`` beside ``k[0]``, and ``left0``: two tensors of the ring had one name."""

    def names(S: State, left0: Key, k: Key[2], k0: Key, v: Value) -> Any:  # type: ignore[type-arg]
        S = S + outer(v, k[0] * 0.2) - outer(0.5 * v, k0 * 0.2) + outer(v, left0 * 0.2)
        return S, S @ k[1]

    spec = KernelSpec("decode", language.recurrence(names).normal_form, K, V, 2, io="bfloat16", buffer=3)
    fields = [f.name for f in spec.record_layout.fields]
    assert len(set(fields)) == len(fields) == 6
    holds(names)


def test_functions_of_python_numbers() -> None:
    def numbers(S: State, q: Key, v: Value) -> Any:
        S = language.exp(-0.25) * S + outer(language.maximum(0.1, v) * language.sigmoid(0.0), q * 0.2)
        return S, language.minimum(S @ q, language.sqrt(4.0)) * language.maximum(1, 2)

    holds(numbers)


# --- compiled


@st.composite
def specs(draw: Any) -> tuple[Recurrence, KernelSpec]:
    """A recurrence and a small kernel of it. State in float32: what is held here is the code, not a format."""
    recurrence = recurrence_of(draw(written()))
    form = draw(st.sampled_from(["decode", "step", "flush", "verify"]))
    sizes = {
        "K": draw(st.sampled_from([16, 20, 33])),
        "V": draw(st.sampled_from([6, 16])),
        "ratio": draw(st.integers(1, 3)),
        "io": draw(st.sampled_from(["float32", "bfloat16"])),
        "layout": draw(st.sampled_from(["VK", "KV"])),
        "buffer": draw(st.integers(1, 6)),
        "kv_only": draw(st.sampled_from([0, 5])),
        "window": draw(st.integers(1, 3)) if form == "verify" else 0,
    }
    return recurrence, KernelSpec(form, recurrence.normal_form, **sizes)


def check_compiled(recurrence: Recurrence, spec: KernelSpec, seeds: int = 2) -> None:
    with tempfile.TemporaryDirectory() as folder:
        build(spec, space.default(spec, CPU), CPU, Path(folder) / "kernel")
        kernel = load_artifact(Path(folder) / "kernel", "cpu")
        for seed in range(seeds):
            case = Case(spec, recurrence, seed)
            after = case.tensors()
            kernel(*arguments_of(spec, after))
            result = judge(case, after)
            assert result.ok, result.reason


@settings(RELAXED, derandomize=True, max_examples=5)
@given(drawn=specs())
def test_compiled_kernels_equal_the_oracle(drawn: tuple[Recurrence, KernelSpec]) -> None:
    check_compiled(*drawn)


@pytest.mark.slow
@settings(RELAXED, max_examples=100)
@given(drawn=specs())
def test_many_compiled_kernels_equal_the_oracle(drawn: tuple[Recurrence, KernelSpec]) -> None:
    check_compiled(*drawn)


@pytest.mark.slow
@settings(RELAXED, derandomize=True, max_examples=25)
@given(drawn=specs())
def test_cuda_kernels_equal_the_oracle(drawn: tuple[Recurrence, KernelSpec]) -> None:
    """The same for what is emitted for a GPU, in the emulator."""
    recurrence, spec = drawn
    schedule = space.default(spec, SM90)
    with tempfile.TemporaryDirectory() as folder:
        kernel = Emulated(spec, schedule, SM90, emit(spec, schedule, SM90), Path(folder))
        case = Case(spec, recurrence, 1)
        after = case.tensors()
        kernel(*arguments_of(spec, after))
    result = judge(case, after)
    assert result.ok, result.reason
