"""The schedule space, and what holds of every program made from it."""

from __future__ import annotations

import dataclasses
import re

import pytest
from cpu_harness import CPU, emit

from kvbuffer_codegen import index
from kvbuffer_codegen.ir.forms import FORMS, KernelSpec, cursor_spec
from kvbuffer_codegen.ir.recurrences import gated_delta_rule
from kvbuffer_codegen.schedules import program, space
from kvbuffer_codegen.schedules.space import CpuSchedule
from kvbuffer_codegen.schedules.targets import TARGETS

ENOUGH = 12  #: candidates a form has at least, at the head shape of Qwen3-Next


def spec(form: str, **more: object) -> KernelSpec:
    if FORMS[form].cursors_only:
        return cursor_spec(form)
    values = {"K": 128, "V": 128, "ratio": 2, "buffer": 16, "window": 4 if form == "verify" else 0, **more}
    return KernelSpec(form, gated_delta_rule.normal_form, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize("target", ["cpu", "sm_90a"])
@pytest.mark.parametrize("layout", ["VK", "KV"])
@pytest.mark.parametrize("form", FORMS)
def test_legal_candidates(form: str, layout: str, target: str) -> None:
    made = space.legal(spec(form, layout=layout), TARGETS[target])
    assert len(made) >= (1 if form == "compact" else ENOUGH)  # which moves records as they lie
    assert len(set(made)) == len(made)
    assert space.default(spec(form, layout=layout), TARGETS[target]) in made


@pytest.mark.parametrize("dims", [(100, 100), (33, 7), (1, 1), (256, 256)])
def test_odd_sizes_have_a_schedule(dims: tuple[int, int]) -> None:
    for layout in ("VK", "KV"):
        odd = spec("decode", K=dims[0], V=dims[1], layout=layout)
        assert space.default(odd, CPU) in space.legal(odd, CPU)


def test_dictionaries() -> None:
    for target in ("cpu", "sm_90a"):
        for schedule in space.legal(spec("decode"), TARGETS[target]):
            assert space.schedule_from_dict(schedule.to_dict()) == schedule


@pytest.mark.parametrize(
    ("change", "said"),
    [({"rows": True}, "rows = True"), ({"lanes": "16"}, "lanes"), ({"more": 1}, "more"), ({"kind": "tpu"}, "tpu")],
)
def test_bad_dictionaries(change: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        space.schedule_from_dict({**CpuSchedule().to_dict(), **change})
    with pytest.raises(ValueError, match="lanes"):
        space.schedule_from_dict({"kind": "cpu", "rows": 1})


def test_space_hash_follows_the_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    before = space.space_hash()
    assert re.fullmatch("[0-9a-f]{12}", before)
    assert space.space_hash() == before
    monkeypatch.setitem(CpuSchedule.choices, "splits", (1,))
    assert space.space_hash() != before


def test_the_runtime_knows_the_space() -> None:
    """Where this fails, candidates were added or taken away: write the new hash, and tune what ships again."""
    assert space.space_hash() == index.SPACE


def test_illegal_schedule_is_refused() -> None:
    with pytest.raises(ValueError, match="not legal for decode on cpu"):
        program(spec("decode"), dataclasses.replace(space.default(spec("decode"), CPU), lanes=3), CPU)


def test_slots_are_64_bit_before_strides() -> None:
    """A pool may hold more elements than an int32 counts."""
    source = emit(spec("decode"), space.default(spec("decode"), CPU), CPU).source
    assert "int64_t slot[1]" in source
    assert "int64_t ring[1]" in source
    assert re.search(r"slot\[0\] \* state_s0", source)
    assert not re.search(r"\(int32_t\)[^;]*state_s0", source)


def test_programs_repeat_byte_for_byte() -> None:
    default = space.default(spec("verify"), CPU)
    assert emit(spec("verify"), default, CPU).source == emit(spec("verify"), default, CPU).source
