"""The roofline model: counted by hand, and the shape of its answers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvbuffer_codegen.ir import cost
from kvbuffer_codegen.ir.explain import explain, render
from kvbuffer_codegen.ir.forms import KernelSpec, ring_rows
from kvbuffer_codegen.ir.models import MODELS
from kvbuffer_codegen.ir.recurrences import gated_delta_rule

SPEC = KernelSpec("decode", gated_delta_rule.normal_form, 128, 128, 2, io="bfloat16", buffer=16)
HV = 32


def test_bytes_of_a_row_counted_by_hand():
    state = 32 * 128 * 128 * 4
    record = 32 * 128 * 4 + 16 * 128 * 2 + 16 * 4 + 32 * 4  # left, key, 1 / norm, log-decay
    io = (2 * 16 * 128 + 32 * 128 + 2 * 32 + 32 * 128) * 2  # q, k, v, a, b, out
    assert cost.state_bytes(SPEC, HV) == state
    assert cost.record_bytes(SPEC, HV) == record
    plain = cost.row_cost(SPEC, HV, 5, False)
    assert (plain.read, plain.written) == (state + 5 * record + io, record)
    assert cost.row_cost(SPEC, HV, 16, True).written == state + record
    step = cost.row_cost(replace(SPEC, form="step"), HV, 0, False)
    assert (step.read, step.written) == (state + io, state)


def test_a_cycle_folds_once_in_L_steps():
    state, record = cost.state_bytes(SPEC, HV), cost.record_bytes(SPEC, HV)
    cycle = cost.cycle_cost(SPEC, HV)  # occupancies 1 to 16, the last of which folds
    assert cycle.written == pytest.approx(record + state / 16)
    assert cycle.read == pytest.approx(state + 8.5 * record + cost.io_bytes(SPEC, HV))
    every = cost.cycle_cost(replace(SPEC, buffer=1), HV)
    assert every.written == state + record


def test_a_buffer_moves_fewer_bytes_than_steps_and_has_a_best_length():
    step = cost.cycle_cost(replace(SPEC, form="step"), HV).bytes
    assert 1.6 < step / cost.cycle_cost(SPEC, HV).bytes < 2.0
    assert 8 <= cost.best_buffer(SPEC, HV) <= 24
    assert cost.best_buffer(replace(SPEC, state="bfloat16"), HV) < cost.best_buffer(SPEC, HV)


def test_memory_of_a_request():
    memory = cost.request_bytes(SPEC, HV, 36, 4)
    assert memory["state"] == 36 * cost.state_bytes(SPEC, HV)
    assert memory["ring"] == 36 * cost.record_bytes(SPEC, HV) * ring_rows(16, 0, 4)
    assert memory["snapshots"] == 4 * memory["state"]


def test_explain_names_everything():
    text = render(explain(gated_delta_rule, SPEC, 16, 32, 36, 4))
    for part in (
        "S = S + outer(u, k)",
        "record_log_decay",
        "requests per GB",
        "best buffer length",
        "e^{s_0} S0",
        "verify",
    ):
        assert part in text


def test_shards():
    shard = MODELS["qwen3-next"].shard(4)
    assert (shard.H, shard.HV, shard.ratio) == (4, 8, 2)
    with pytest.raises(ValueError, match="tp=3"):
        MODELS["qwen3-next"].shard(3)


@pytest.mark.parametrize(
    "change",
    [
        {"form": "prefill"},
        {"K": 0},
        {"V": 512},
        {"io": "int8"},
        {"state": "fp8"},
        {"buffer": 0},
        {"window": 4},
        {"layout": "KK"},
        {"kv_only": 65},
    ],
)
def test_a_spec_names_what_it_refuses(change):
    with pytest.raises(ValueError, match=f"{next(iter(change))}=.*accepted"):
        replace(SPEC, **change)
