"""Tuning in two halves: what one machine builds, another checks and times, without a compiler."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kvbuffer_codegen.artifact import read_artifact
from kvbuffer_codegen.autotune import derive, logs, tune
from kvbuffer_codegen.autotune.bundle import PLAN, Bundle, BundleBuilder, BundleError
from kvbuffer_codegen.autotune.candidates import candidates, schedule_text
from kvbuffer_codegen.autotune.farm import Farm
from kvbuffer_codegen.autotune.measure import Machine
from kvbuffer_codegen.autotune.requests import Point, Request, joined
from kvbuffer_codegen.cli.main import main
from kvbuffer_codegen.compiler.build import build
from kvbuffer_codegen.index import read_index
from kvbuffer_codegen.ir.forms import KernelSpec
from kvbuffer_codegen.ir.recurrences import RECURRENCES, gated_delta_rule
from kvbuffer_codegen.schedules.targets import target

CPU = target("cpu")
SPEC = KernelSpec("decode", gated_delta_rule.normal_form, 16, 16, 2, buffer=4)
TRIED = candidates(SPEC, CPU, 8, 2, 6).schedules
POINTS = [Point(1, 1), Point(4, 1)]
LIMITS = tune.Limits(build=20, check=20, time=20)
#: What the half that measures must live without, in the process and in its children.
BLOCKER = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("tilelang", "tvm", "triton", "transformers", "rich", "ray"):
            raise ImportError(f"{name} is blocked")
        if name.startswith("kvbuffer_codegen.compiler."):  # whose sources are hashed
            raise ImportError(f"{name} is blocked")
sys.meta_path.insert(0, Blocked())
"""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real artifact of SPEC, for its manifest."""
    return build(SPEC, TRIED[0], CPU, tmp_path_factory.mktemp("template") / "artifact")


Plan = Callable[[dict[int, Any]], None]


@pytest.fixture
def plan(template: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """Says what is wrong with the fake candidates of SPEC, by number."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    monkeypatch.setenv("FAKE_TEMPLATE", str(template))

    def set_plan(plan: dict[int, Any]) -> None:
        text = json.dumps({schedule_text(TRIED[i]): what for i, what in plan.items()})
        monkeypatch.setenv("FAKE_PLAN", text)

    return set_plan


def bundle_of(folder: Path, deadline: float = math.inf, limit_s: float = 20) -> list[dict[str, Any]]:
    requests = [Request(SPEC, tuple(POINTS), len(TRIED))]
    with Farm(1, "fake_jobs", limit_s) as farm:
        return BundleBuilder(folder, CPU, 2).run(requests, farm, deadline, lambda *_: None)


def kernels_of(folder: Path) -> dict[str, float]:
    return {path.name: path.stat().st_mtime_ns for path in (folder / "kernels").iterdir()}


def test_a_bundle_is_searched_as_the_machine_that_built_it_would(plan: Plan, tmp_path: Path) -> None:
    """A candidate that does not compile, one that spills and a wrong one cost themselves only; the logs then give the
    same artifacts, byte for byte."""
    plan({1: "no compile", 2: "spill", 3: "wrong", 4: 0.001})
    folder, out, log = tmp_path / "bundle", tmp_path / "out", tmp_path / "logs"
    bundle_of(folder)
    assert len(kernels_of(folder)) == len(TRIED) - 2
    report = tune.measure(folder, out=out, logs=log, limits=LIMITS, hooks="fake_jobs", budget_s=60)
    assert not report.failures
    assert [(o["rows"], o["schedule"]) for o in report.outcomes] == [(p.rows, TRIED[4].to_dict()) for p in POINTS]
    counts = {"compile": 1, "wrong": 1}
    assert {name: report.outcomes[0]["statuses"][name] for name in counts} == counts
    (path,) = log.iterdir()
    lines = logs.read_log(path, whole=True)
    reasons = {schedule_text(TRIED[i]): "" for i in (1, 2, 3)}
    reasons |= {logs.trial_text(t): t["reason"] for t in lines if t["kind"] == "trial" and t["reason"]}
    assert reasons[schedule_text(TRIED[1])] == "RuntimeError: error in kernel.cpp: expected ';'"
    assert reasons[schedule_text(TRIED[2])] == "spills 8 bytes of registers"
    evidence = read_artifact(out / report.outcomes[0]["artifact"]).manifest["evidence"]
    assert [e["kind"] for e in evidence] == ["check", "timing", "timing"]
    assert [e["result"].get("rows") for e in evidence] == [None, 2, 8]

    with Farm(1, "fake_jobs", 20) as farm:
        derive.derive(*derive.winners(lines, RECURRENCES), tmp_path / "again", farm, tmp_path / "work")
    files = {p.relative_to(out): p.read_bytes() for p in out.rglob("*") if p.is_file()}
    again = tmp_path / "again"
    assert {p.relative_to(again): p.read_bytes() for p in again.rglob("*") if p.is_file()} == files

    again_report = tune.measure(folder, out=out, logs=log, limits=LIMITS, hooks="fake_jobs", budget_s=60)
    assert again_report.outcomes == report.outcomes
    assert logs.read_log(path) == lines  # nothing was timed again


def test_building_resumes_and_stops_in_time(plan: Plan, tmp_path: Path) -> None:
    plan({2: "spill"})
    (entry,) = bundle_of(tmp_path, deadline=-math.inf)
    assert [schedule for schedule, _ in entry["candidates"]] == [TRIED[0].to_dict()]  # the default in any case
    first = kernels_of(tmp_path)
    plan({1: "hang while building", 2: "spill"})
    (entry,) = bundle_of(tmp_path, limit_s=4)
    assert [answer["status"] for _, answer in entry["candidates"]] == ["ok", "timeout", *["ok"] * (len(TRIED) - 2)]
    plan({2: "spill"})
    (entry,) = bundle_of(tmp_path)  # what took too long is tried again
    assert [answer["status"] for _, answer in entry["candidates"]] == ["ok"] * len(TRIED)
    second = kernels_of(tmp_path)
    assert len(second) == len(TRIED) - 1
    assert first.items() <= second.items()  # what was there was not built again
    (tmp_path / "kernels" / "of-another-run").mkdir()
    bundle_of(tmp_path)
    assert kernels_of(tmp_path) == second


def test_a_bundle_grows(plan: Plan, tmp_path: Path) -> None:
    """Kernels, candidates and sizes of an earlier run stay; what was measured of them is a search of its own."""
    plan({})
    folder, again = tmp_path / "bundle", replace(SPEC, buffer=8)

    def add(*requests: Request) -> list[dict[str, Any]]:
        with Farm(1, "fake_jobs", 20) as farm:
            return BundleBuilder(folder, CPU, 2).run(requests, farm, math.inf, lambda *_: None)

    add(Request(SPEC, (Point(4, 1),), 3))
    first = kernels_of(folder)
    (entry,) = add(Request(again, (Point(1, 1), Point(2, 1)), 2))
    assert len(entry["candidates"]) == 2
    assert first.items() <= kernels_of(folder).items()
    (entry,) = add(Request(SPEC, (Point(1, 1),), 2))  # fewer candidates: those that are there stay
    assert len(entry["candidates"]) == 3
    bundle = Bundle.read(folder)
    sizes = {r.spec: set(r.points) for r in bundle.requests}
    assert sizes == {SPEC: {Point(1, 1), Point(4, 1)}, again: {Point(1, 1), Point(2, 1)}}
    assert len(kernels_of(folder)) == 5
    out, log = tmp_path / "out", tmp_path / "logs"
    report = tune.measure(folder, out=out, logs=log, limits=LIMITS, hooks="fake_jobs", budget_s=120)
    assert not report.failures
    assert sorted((o["buffer"], o["rows"]) for o in report.outcomes) == [(4, 1), (4, 4), (8, 1), (8, 2)]

    lines = [t for path in log.iterdir() for t in logs.read_log(path, whole=True)]
    taken = tmp_path / "taken"
    with Farm(1, "fake_jobs", 20) as farm:
        plan(dict.fromkeys(range(len(TRIED)), "no compile"))  # nothing is built: the bundle has it
        made = derive.derive(
            *derive.winners(lines, RECURRENCES), taken, farm, tmp_path / "work", bundle=Bundle.read(folder)
        )
    assert not made.failures
    assert all(row["measured"] for row in made.kernels)
    files = {p.relative_to(out): p.read_bytes() for p in out.rglob("*") if p.is_file()}
    assert {p.relative_to(taken): p.read_bytes() for p in taken.rglob("*") if p.is_file()} == files


def test_requests_for_one_kernel_are_one() -> None:
    again = replace(SPEC, buffer=8)
    asked = [Request(SPEC, (Point(4, 1),), 3), Request(again, (Point(1, 1),)), Request(SPEC, (Point(1, 1),), 5)]
    assert joined(asked) == [Request(SPEC, (Point(4, 1), Point(1, 1)), 5), Request(again, (Point(1, 1),))]
    assert joined([*asked, Request(SPEC, (Point(1, 1),))])[0].limit is None
    assert joined(asked)[0].work == 2 * replace(asked[0], limit=5).work  # time is shared out by it


def test_a_bundle_that_cannot_be_measured_is_refused(plan: Plan, tmp_path: Path) -> None:
    plan({})
    with pytest.raises(BundleError, match=r"has no plan\.json; accepted: a folder that `tune --build-only` wrote"):
        Bundle.read(tmp_path)
    bundle_of(tmp_path)
    good = json.loads((tmp_path / PLAN).read_text())
    for field, value in (("generator", "0" * 12), ("space", "1" * 12), ("schema", 9)):
        (tmp_path / PLAN).write_text(json.dumps({**good, field: value}))
        with pytest.raises(BundleError, match=rf"{field} is {value}, .*install the same version"):
            Bundle.read(tmp_path)
    (tmp_path / PLAN).write_text(json.dumps({**good, "searches": [{}]}))
    with pytest.raises(BundleError, match="cannot be used: 'spec'; build it again"):
        Bundle.read(tmp_path)
    (tmp_path / PLAN).write_text(json.dumps({**good, "target": "sm_80"}))
    with pytest.raises(BundleError, match=r"is for sm_80, compute capability .*; a GPU has 9\.0"):
        Bundle.read(tmp_path).check_machine(Machine("a GPU", "a GPU", "9.0", "", 132, 1.0))


def test_two_halves_on_this_cpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the commands, with a real kernel; no compiler can be imported where it is measured."""
    bundle, out = tmp_path / "bundle", tmp_path / "out"
    asked = ["--form", "commit", "--target", "cpu", "--candidates", "2", "--batch", "2", "--workers", "1"]
    assert main(["tune", "--build-only", *asked, "--out", str(bundle), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["statuses"] == {"ok": 2}
    (tmp_path / "sitecustomize.py").write_text(BLOCKER)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "KVBUFFER_CODEGEN_CACHE": str(tmp_path / "cache")}
    blocked = subprocess.run([sys.executable, "-c", "import tilelang"], env=environment, capture_output=True, text=True)
    assert "tilelang is blocked" in blocked.stderr
    command = [sys.executable, "-m", "kvbuffer_codegen.cli.main", "tune", "--measure", str(bundle), "--out", str(out)]
    done = subprocess.run(
        [*command, "--logs", str(tmp_path / "logs"), "--budget", "60s", "--json"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    (outcome,) = json.loads(done.stdout)["outcomes"]
    assert outcome["candidates"] == 2
    index = read_index(out)
    assert read_artifact(out / outcome["artifact"], index.artifacts[outcome["artifact"]]).manifest["evidence"]
    assert main(["tune", "--build-only", *asked]) == 2
    assert main(["tune", "--measure", str(tmp_path)]) == 2
    assert main(["tune", "--measure", str(bundle), "--buffer", "8"]) == 2
    said = capsys.readouterr().err
    for part in ("say where: --out DIR", "has no plan.json", "--buffer means nothing with --measure"):
        assert part in said
