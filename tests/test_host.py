"""What a call costs the host (benchmarks/host.py): raw and through the operator."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import runtime_kit
import torch
from runtime_kit import needs_gpu

from kvbuffer_codegen.caches import shipped_folder
from kvbuffer_codegen.index import read_index
from kvbuffer_codegen.ir.forms import FORMS, KernelSpec, cursor_spec
from kvbuffer_codegen.ir.recurrences import gated_delta_rule
from kvbuffer_codegen.runtime import ops
from kvbuffer_codegen.runtime.loader import load_artifact

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
import h200
import host


def spec_of(form: str) -> KernelSpec:
    if FORMS[form].cursors_only:
        return cursor_spec(form)
    return KernelSpec(form, gated_delta_rule.normal_form, 16, 16, 2, buffer=4, window=3 if form == "verify" else 0)


@pytest.mark.parametrize("form", FORMS)
def test_a_call_through_the_operator_is_the_raw_call(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arguments are grouped as the operator has them: the same bits are left."""
    monkeypatch.setattr(host, "ROUNDS", 2)
    monkeypatch.setattr(host, "CALLS", 2)
    folder, cpu = runtime_kit.build(spec_of(form)), torch.device("cpu")
    row = host.measure(folder, 2, cpu)
    assert (row["form"], set(row["raw"])) == (form, {"us", "fastest_us"})
    kernel, spec, recurrence = h200.loaded(folder, cpu)
    given = h200.example(spec, recurrence, 1)[0]
    first, second = h200.moved(given, cpu), h200.moved(given, cpu)
    order = [argument["name"] for argument in kernel.manifest["arguments"]]
    kernel(*(first[name] for name in order))
    name = ops.register(f"test-host:{form}", load_artifact(folder))
    operator: Any = getattr(ops, "flush" if form == "publish" else form)
    operator(name, *host.arguments_of_operator(spec, [second[name] for name in order]))
    assert all(torch.equal(first[n].nan_to_num(), second[n].nan_to_num()) for n in order if hasattr(first[n], "to"))


def test_what_breaks_the_rules_is_said() -> None:
    fine = {"us": 7.0, "allocations": 0, "waits": "", "others": 0}
    row = {"raw": fine, "op": {**fine, "us": 11.0}}
    assert host.faults(row) == []
    assert host.faults({**row, "op": {"us": 12.5}}) == ["op takes 12.5 us; accepted: 12"]
    said = host.faults({**row, "raw": {"us": 1.0, "allocations": 3, "waits": "it did", "others": 1}})
    assert said == ["raw allocates 3 blocks", "raw waits: it did", "raw: 1 nodes more than a kernel"]
    assert host.faults({**row, "raw": {**fine, "others": "not seen"}}) == []


@needs_gpu
@pytest.mark.parametrize("folder", sorted(read_index(shipped_folder()).artifacts))
def test_a_shipped_kernel_keeps_the_bars(folder: str) -> None:
    """At most 8 us of the host a raw call and 12 through the operator; no allocation, no wait, nothing but a kernel in
    a graph."""
    row = host.measure(shipped_folder() / folder, 8, torch.device("cuda"))
    assert row["launcher"] == "NativeLauncher", "compile it: apache-tvm-ffi and a C++ compiler"
    assert host.faults(row) == []
