"""The tuner: what a bad candidate costs, what a log says, what a second run does. Candidates are fakes
(fake_jobs.py).
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from inventions import EVERY

from kvbuffer_codegen.artifact import read_artifact
from kvbuffer_codegen.autotune import logs, search, sources, tune
from kvbuffer_codegen.autotune.candidates import candidates, schedule_text
from kvbuffer_codegen.autotune.cases import Case
from kvbuffer_codegen.autotune.estimate import microseconds
from kvbuffer_codegen.autotune.farm import Farm
from kvbuffer_codegen.autotune.install import bucket
from kvbuffer_codegen.autotune.jobs import spec_from_json, spec_to_json
from kvbuffer_codegen.autotune.worker import Worker
from kvbuffer_codegen.autotune.workload import cycle, make_workload, timer
from kvbuffer_codegen.checking import arguments_of, check_kernel, judge
from kvbuffer_codegen.compiler.build import build
from kvbuffer_codegen.index import read_index
from kvbuffer_codegen.ir.forms import FORMS, KernelSpec, cursor_spec
from kvbuffer_codegen.ir.recurrences import gated_delta_rule
from kvbuffer_codegen.ir.signature import signature
from kvbuffer_codegen.recurrences import of_normal_form
from kvbuffer_codegen.runtime.reference import ReferenceKernel
from kvbuffer_codegen.schedules import space
from kvbuffer_codegen.schedules.space_gpu import GpuSchedule
from kvbuffer_codegen.schedules.targets import target

CPU = target("cpu")
SIZE: dict[str, Any] = {"heads": (1, 2), "dims": (16, 16), "forms": ("decode",), "buffers": (4,)}
SPEC = KernelSpec("decode", gated_delta_rule.normal_form, 16, 16, 2, buffer=4)
TRIED = candidates(SPEC, CPU, 8, 2, 8).schedules
DEFAULT, *OTHERS = TRIED
NAMES = [a.name for a in signature(SPEC)]
LIMITS = tune.Limits(build=20, check=20, time=20)


# --- the judge


def spec_for(form: str, recurrence: Any = gated_delta_rule, **more: Any) -> KernelSpec:
    if FORMS[form].cursors_only:
        return cursor_spec(form)
    values = {"K": 16, "V": 8, "ratio": 2, "buffer": 4, "window": 3 if form == "verify" else 0, **more}
    return KernelSpec(form, recurrence.normal_form, **values)


@pytest.mark.parametrize("io", ["float32", "bfloat16"])
@pytest.mark.parametrize("form", FORMS)
def test_the_reference_passes(form: str, io: str) -> None:
    for recurrence in EVERY:
        for more in ({"buffer": 1}, {"buffer": 5, "kv_only": 8, "layout": "KV", "state": "float16"}):
            spec = spec_for(form, recurrence, io=io, **more)
            result = check_kernel(ReferenceKernel(spec, "cpu"), spec)
            assert result.ok, (recurrence.name, result.reason)


def scaled(name: str, factor: float) -> Callable[[dict[str, torch.Tensor]], None]:
    return lambda after: after[name].mul_(factor)


FAULTS: dict[str, Callable[[dict[str, torch.Tensor]], Any]] = {
    "an output that is 0.1 % too large": scaled("out", 1.001),
    "a folded state that is 0.1 % too large": lambda after: after["state"].mul_(torch.tensor([1.001])),
    "a padding row that is not zero": lambda after: after["out"][0].fill_(1e-6),
    "an output that was not written": lambda after: after["out"][1].fill_(torch.nan),
    "an idle slot that was written": lambda after: after["state"].nan_to_num_(0.0),
    "a ring row that was cleared": lambda after: after["record_left0"].nan_to_num_(0.0),
    "cursors that moved": lambda after: after["cursors"][1, 0].add_(1),
    "an input that was changed": lambda after: after["q"][0, 0, 0].add_(1.0),
    "a record that is 0.1 % too large": lambda after: after["record_left0"].mul_(1.001),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_judge_sees(fault: str) -> None:
    spec = spec_for("decode")
    case = Case(spec, gated_delta_rule)
    after = case.tensors()
    ReferenceKernel(spec, "cpu")(*arguments_of(spec, after))
    assert judge(case, after).ok
    FAULTS[fault](after)
    assert not judge(case, after).ok


def test_the_evaluator_of_a_normal_form_is_the_recurrence() -> None:
    for recurrence in EVERY:
        again = of_normal_form(recurrence.normal_form)
        assert again.normal_form.to_dict()["arguments"] == recurrence.normal_form.to_dict()["arguments"]
        spec = spec_for("step", recurrence)
        kernel = ReferenceKernel(spec, "cpu")
        case = Case(spec, again)
        after = case.tensors()
        kernel(*arguments_of(spec, after))
        assert judge(case, after).ok


# --- candidates and workloads


@pytest.mark.parametrize("form", [f for f in FORMS if f != "compact"])  # which copies a few rows, one way
def test_every_form_has_a_dozen_candidates(form: str) -> None:
    spec = spec_for(form, K=128, V=128, buffer=16)
    found = candidates(spec, CPU, 128, 2)
    assert len(found.schedules) >= 12
    assert found.schedules[0] == space.default(spec, CPU)
    few = candidates(spec, CPU, 128, 2, 5)
    assert few.schedules == found.schedules[:5]
    assert few.legal == len(space.legal(spec, CPU))


def test_candidates_that_leave_cores_idle_are_pruned_with_the_reason() -> None:
    found = candidates(SPEC, CPU, 2, 4)  # two value-head rows on four cores
    assert found.pruned
    assert all("busy" in reason for _, reason in found.pruned)
    assert all(s.to_dict()["splits"] == 1 for s, _ in found.pruned)
    assert found.legal == len(found.schedules) + len(found.pruned)


GPU = target("sm_90a")
ROWS = (32, 256, 1024, 4096)


@pytest.mark.parametrize(("form", "window"), [("decode", 0), ("step", 0), ("verify", 4), ("verify", 8)])
def test_a_short_list_covers_small_and_large_launches(form: str, window: int) -> None:
    """Eight of a GPU's candidates have several tiles, and for every size one that is expected to be near the best."""
    spec = spec_for(form, K=128, V=128, buffer=16, window=window, io="bfloat16")
    every = space.legal(spec, GPU)
    few = candidates(spec, GPU, ROWS, 132, 8).schedules
    assert few[0] == space.default(spec, GPU)
    assert len({schedule_text(s) for s in few}) == 8
    assert len({s.to_dict()["block_v"] for s in few}) >= 3
    for rows in ROWS:
        best, of_few = (min(microseconds(s, spec, rows, 132, few[0]) for s in of) for of in (every, few))
        assert of_few <= 1.15 * best, rows
    assert few == candidates(spec, GPU, ROWS, 132, 20).schedules[:8]


def test_what_is_expected_of_a_schedule_moves_the_right_way() -> None:
    spec = spec_for("decode", K=128, V=128, buffer=16, io="bfloat16")
    one = GpuSchedule(block_v=32, lanes=16, threads=128, ctas_per_sm=4)

    def us(rows: int = 4096, **fields: int) -> float:
        return microseconds(dataclasses.replace(one, **fields), spec, rows, 132)

    assert us() < us(ctas_per_sm=1)  # too little in flight
    assert us() < us(ctas_per_sm=8)  # 64 registers of a thread are too few
    assert us(rows=32) < us(rows=32, block_v=128, threads=256, ctas_per_sm=2)  # 32 blocks for 132 multiprocessors
    assert us(rows=256) < us(rows=1024) < us()
    assert microseconds(DEFAULT, SPEC, 8, 2) == 1.0  # of a CPU's nothing is expected


def test_cycles_fold_as_often_as_serving_does() -> None:
    assert cycle(spec_for("decode", buffer=3)) == [1, 2, 3]
    assert cycle(spec_for("verify", buffer=16, window=4)) == [3, 6, 9, 12, 15]
    assert cycle(spec_for("step")) == [0]


def test_a_workload_is_colder_than_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvbuffer_codegen.autotune.workload.last_level_cache", lambda device: 20000)
    work = make_workload(SPEC, gated_delta_rule, 3, 1, torch.device("cpu"))
    state, slots = work.calls[0][0][0], [call[NAMES.index("slots")] for call in work.calls[0]]
    assert state.nbytes >= 40000
    assert len(work.calls) == 4
    assert sum(s.unique().numel() for s in slots) == len(state)
    ReferenceKernel(SPEC, "cpu")(*work.calls[0][0])
    assert work.calls[0][0][-1].isfinite().all()


def test_specs_survive_the_pipe() -> None:
    for form in FORMS:
        spec = spec_for(form)
        assert spec_from_json(json.loads(json.dumps(spec_to_json(spec)))) == spec


@pytest.mark.parametrize(("rows", "expected"), [(1, (0, 15)), (16, (16, 63)), (128, (64, 255)), (10**6, (4096, None))])
def test_buckets(rows: int, expected: tuple[int, int | None]) -> None:
    assert bucket(rows) == expected


# --- choices


def trial(
    number: int,
    us: list[float],
    *,
    stage: str = "final",
    default: bool = False,
    attempt: int = 1,
    incumbent: bool = False,
) -> logs.Line:
    line = {"kind": "trial", "stage": stage, "status": "ok", "us": us, "default": default, "attempt": attempt}
    line["incumbent"] = incumbent
    return {**line, "schedule": {"kind": "cpu", "rows": number}, "bytes": 1.0, "read": []}


def test_a_choice_is_a_function_of_the_lines() -> None:
    rng = random.Random(0)
    lines = [trial(i, [rng.gauss(100 - 5 * i, 1.0) for _ in range(9)], default=i == 0) for i in range(5)]
    lines += [trial(i, [100.0 + i], stage="rung 0") for i in range(9)]
    first = logs.choose(lines)
    assert first is not None
    assert first.schedule["rows"] == 4
    assert first.spread == (100.0, 104.0)
    for seed in range(20):
        assert logs.choose(random.Random(seed).sample(lines, len(lines))) == first


def test_the_default_stays_unless_it_is_beaten_by_more_than_the_noise() -> None:
    default = trial(1, [100, 108, 93, 104, 98], default=True)
    close = logs.choose([default, trial(2, [98, 99, 97, 106, 92])])
    clear = logs.choose([default, trial(2, [70, 75, 66, 73, 68])])
    assert close is not None
    assert clear is not None
    assert close.default
    assert close.schedule["rows"] == 1
    assert not clear.default
    assert clear.noise < 1 - clear.ratio


def test_what_the_machine_does_meanwhile_cancels() -> None:
    drift = [100, 140, 200, 160, 120]
    found = logs.choose([trial(1, [float(d) for d in drift], default=True), trial(2, [0.9 * d for d in drift])])
    assert found is not None
    assert found.schedule["rows"] == 2


def test_equal_candidates_are_told_apart_by_what_they_change_not_by_luck() -> None:
    a, b = [80.0, 81.0, 79.5], [80.5, 80.0, 80.2]
    for us_2, us_3 in ((a, b), (b, a)):
        found = logs.choose([trial(1, [100.0] * 3, default=True), trial(3, us_3), trial(2, us_2)])
        assert found is not None
        assert found.schedule["rows"] == 2


def test_what_an_earlier_run_chose_stays_until_it_is_beaten() -> None:
    default, chosen = trial(1, [100.0] * 3, default=True), trial(2, [90.0] * 3, incumbent=True)
    for us, winner in ((88.0, 2), (80.0, 3)):
        found = logs.choose([default, chosen, trial(3, [us] * 3)])
        assert found is not None
        assert found.schedule["rows"] == winner


def test_only_the_last_attempt_counts_and_no_default_means_no_choice() -> None:
    old = [trial(1, [100.0], default=True), trial(2, [10.0])]
    new = [trial(1, [100.0], default=True, attempt=2), trial(3, [50.0], attempt=2)]
    found = logs.choose(old + new)
    assert found is not None
    assert found.schedule["rows"] == 3
    assert logs.choose([trial(2, [10.0])]) is None


# --- logs


def test_a_log_holds_no_path_and_no_nan(tmp_path: Path) -> None:
    log = logs.Log(tmp_path / "new", "AMD EPYC 7B13 x2")
    log.append(
        "decode",
        {"kind": "trial", "reason": "in /home/me/x/kernel.cpp:3 and /tmp/y", "error": float("nan"), "us": [1 / 3]},
    )
    (line,) = log.read("decode")
    assert line == {"kind": "trial", "reason": "in kernel.cpp:3 and y", "error": None, "us": [0.333333]}
    assert log.path("decode").name == "amd-epyc-7b13-x2_decode.jsonl"


def test_an_unfinished_last_line_is_dropped_and_any_other_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"kind": "choice"}\n{"kind": "tri')
    assert logs.read_log(path) == [{"kind": "choice"}]
    path.write_text('{"kind": "tri\n{"kind": "choice"}\n')
    with pytest.raises(logs.LogError, match=r"log\.jsonl, line 1"):
        logs.read_log(path)


def test_lines_of_another_generator_are_left_alone(tmp_path: Path) -> None:
    machine = SimpleNamespace(capability="x86_64", name="a CPU")
    tools: Any = SimpleNamespace(machine=machine, log=logs.Log(tmp_path, machine.name))
    spec = cursor_spec("advance")
    same = {"key": spec.key(), "capability": "x86_64", "device": "a CPU", "space": space.space_hash()}
    tools.log.append("advance", {"kind": "trial", **same})  # before lines had the field
    tools.log.append("advance", {"kind": "trial", **same, "generator": "0" * 12})
    assert search.earlier(tools, spec) == []
    ours = tools.log.append("advance", {"kind": "trial", **same, "generator": search.generator_hash()})
    assert search.earlier(tools, spec) == [ours]


def test_a_comment_voids_no_log() -> None:
    """And no version of Python does: the text is the program's own lines."""
    program = '"""Doc."""\n\nclass A:\n    """Doc."""\n\ndef f(x):\n    """Doc."""\n    # why\n    return x + 1\n'
    other = "class A:\n    'Said\\notherwise.'\n# more\ndef f(x):\n\n    return x + 1\n"
    assert sources.program_text(program) == sources.program_text(other)
    assert sources.program_text(program) == "class A:\ndef f(x):\n    return x + 1"
    assert sources.program_text(program) != sources.program_text(program.replace("+ 1", "+ 2"))
    assert sources.program_text("x = '# no comment'") != sources.program_text("x = '# another text'")


LOGS = sorted((Path(__file__).parent.parent / "tuning_logs").glob("*.jsonl"))


@pytest.mark.parametrize("path", LOGS, ids=lambda p: p.stem)
def test_the_logs_of_the_repository_give_the_choices_that_they_hold(path: Path) -> None:
    lines = [t for t in logs.read_log(path) if t["rows"] is not None]  # else of no size: what did not build or spills
    least = 1 if "nvidia" in path.stem else 12  # a GPU's candidates are a short list, of which some spill
    searches = {(t["run"], json.dumps(t["key"]), t["rows"], t["H"]) for t in lines if t["kind"] == "choice"}
    tried: dict[Any, set[str]] = {}
    for t in lines:
        tried.setdefault((t["run"], json.dumps(t["key"]), t["rows"], t["H"]), set()).add(json.dumps(t["schedule"]))
    assert all(len(schedules) == 1 for key, schedules in tried.items() if key not in searches)  # nothing to choose
    for key in searches:
        of_search = [t for t in lines if (t["run"], json.dumps(t["key"]), t["rows"], t["H"]) == key]
        choice = logs.choose(of_search)
        assert choice is not None
        assert of_search[-1]["schedule"] == choice.schedule
        assert len({json.dumps(t["schedule"]) for t in of_search if t.get("stage") == "rung 0"}) >= least
    assert not re.search(r'[ "](/\w+){2,}', path.read_text())


# --- whole runs


def test_a_farm_keeps_its_children_and_gives_up_whole(template: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    monkeypatch.setenv("FAKE_TEMPLATE", str(template))
    monkeypatch.setenv("FAKE_PLAN", "{}")
    folder = template.parent
    jobs = [{"job": "build", "schedule": s.to_dict(), "folder": str(folder / f"{i}")} for i, s in enumerate(TRIED[:4])]
    with Farm(2, "fake_jobs") as farm:
        for _ in range(2):
            assert farm.run(jobs, math.inf, lambda job, answer: None) == 4
        assert [w.restarts for w in farm.workers] == [0, 0]

        def interrupt(job: Any, answer: Any) -> None:
            raise KeyboardInterrupt

        def ensure_late(worker: Worker) -> None:  # a lane that the kill overtakes between two jobs
            if threading.current_thread() is not threading.main_thread():
                time.sleep(0.2)
            ensure(worker)

        ensure = Worker.ensure
        monkeypatch.setattr(Worker, "ensure", ensure_late)
        for _ in range(2):  # and may be used again
            with pytest.raises(KeyboardInterrupt):
                farm.run(jobs, math.inf, interrupt)
            time.sleep(0.4)
            assert all(w.child is None for w in farm.workers)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_cases_and_graphs_on_a_gpu() -> None:
    device = torch.device("cuda")
    for form in ("decode", "verify", "commit"):
        spec = spec_for(form)
        kernel = ReferenceKernel(spec, device)
        assert check_kernel(kernel, spec, device).ok
        work = make_workload(spec, None if form == "commit" else gated_delta_rule, 2, 1, device)
        small = dataclasses.replace(work, calls=[work.calls[0][:2]])
        assert timer(kernel, small, 1, device).once() > 0


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real artifact of SPEC, for its manifest."""
    return build(SPEC, DEFAULT, CPU, tmp_path_factory.mktemp("template") / "artifact")


Runner = Callable[..., tune.Report]


@pytest.fixture
def run(tmp_path: Path, template: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    """Tunes SPEC with fake candidates: ``plan`` says what is wrong with them, by number."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    monkeypatch.setenv("FAKE_TEMPLATE", str(template))

    def go(plan: dict[int, Any], **more: Any) -> tune.Report:
        text = json.dumps({schedule_text(TRIED[i]): what for i, what in plan.items()})
        monkeypatch.setenv("FAKE_PLAN", text)
        folders: dict[str, Any] = {"out": tmp_path / "out", "logs": tmp_path / "logs", "hooks": "fake_jobs"}
        options = {
            "batches": (4,),
            "budget_s": 60,
            "candidate_limit": 6,
            "workers": 1,
            "limits": LIMITS,
            **folders,
            **more,
        }
        return tune.tune("gated_delta_rule", **SIZE, **options)

    return go


def lines_of(tmp_path: Path) -> list[logs.Line]:
    (path,) = (tmp_path / "logs").glob("*_decode.jsonl")
    return logs.read_log(path)


def test_bad_candidates_cost_themselves_only(run: Runner, tmp_path: Path) -> None:
    plan = {1: "no compile", 2: "crash", 3: "wrong", 4: "hang", 5: 0.001, 6: "hang while building", 7: "spill"}
    seen: list[tuple[float, float]] = []
    limits = tune.Limits(build=4, check=4, time=4)
    report = run(plan, candidate_limit=8, limits=limits, progress=lambda done, total, text: seen.append((done, total)))
    assert seen == sorted(seen)
    assert seen[-1] == (1, 1)
    assert not report.failures
    (outcome,) = report.outcomes
    assert outcome["schedule"] == TRIED[5].to_dict()
    assert outcome["us"] < outcome["default_us"] / 2
    assert {s: outcome["statuses"][s] for s in ("compile", "crash", "wrong", "timeout")} == {
        "compile": 1, "crash": 1, "wrong": 1, "timeout": 2,
    }  # fmt: skip
    trials = {schedule_text(s): [] for s in TRIED}
    for line in lines_of(tmp_path):
        if line["kind"] == "trial":
            trials.setdefault(json.dumps(line["schedule"], sort_keys=True), []).append(line)
    reasons = {i: trials[schedule_text(TRIED[i])][-1]["reason"] for i in (1, 2, 3, 4, 6, 7)}
    assert reasons[1] == "RuntimeError: error in kernel.cpp: expected ';'"
    assert "SIGSEGV" in reasons[2]
    assert "out is off by 0.001" in reasons[3]
    assert reasons[4] == "check took longer than 4 s"
    assert reasons[6] == "build took longer than 4 s"
    assert reasons[7] == "spills 8 bytes of registers"
    index = read_index(tmp_path / "out")
    (choice,) = index.choices
    assert choice.rows == (0, 15)
    assert not choice.default
    artifact = read_artifact(tmp_path / "out" / choice.artifact, index.artifacts[choice.artifact])
    assert artifact.manifest["schedule"] == TRIED[5].to_dict()
    assert [e["kind"] for e in artifact.manifest["evidence"]] == ["check", "timing"]
    assert artifact.manifest["evidence"][1]["result"]["rows"] == 8


COMMAND = """
import functools, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs start with it ignored
from kvbuffer_codegen.autotune import tune
from kvbuffer_codegen.cli.main import main
tune.tune_all = functools.partial(tune.tune_all, hooks="fake_jobs")
sys.exit(main("tune --heads 1,2 --dims 16,16 --io float32 --buffer 4 --form decode --target cpu --workers 1".split()))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_tune_that_is_stopped_leaves_no_temporary_folder(
    number: signal.Signals, template: Path, tmp_path: Path
) -> None:
    """Its own goes, and those of the children that it kills; the cache holds no half-written file."""
    temporary, cache = tmp_path / "tmp", tmp_path / "cache"
    temporary.mkdir()
    environment = {
        **os.environ,
        "TMPDIR": str(temporary),
        "KVBUFFER_CODEGEN_CACHE": str(cache),
        "PYTHONPATH": str(Path(__file__).parent),
        "FAKE_TEMPLATE": str(template),
        "FAKE_PLAN": json.dumps({schedule_text(s): "hang while building" for s in space.legal(SPEC, CPU)}),
    }
    with subprocess.Popen([sys.executable, "-c", COMMAND], env=environment, stderr=subprocess.PIPE) as child:
        deadline = time.monotonic() + 120
        while not list(temporary.rglob("kvb-fake-*")) and child.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        assert list(temporary.glob("kvb-tune-*/kvb-fake-*")), "a child has a folder of its own"
        child.send_signal(number)
        _, said = child.communicate(timeout=60)
    assert child.returncode == (130 if number == signal.SIGINT else 143)
    assert b"Traceback" not in said
    assert list(temporary.iterdir()) == []
    assert [p for p in cache.rglob("*") if p.name.startswith((".writing-", "load-", "build-"))] == []


def test_a_second_run_takes_the_choice_from_the_log_and_a_broken_one_is_taken_up(run: Runner, tmp_path: Path) -> None:
    first = run({2: 0.001, 3: "hang while timed"}, limits=tune.Limits(build=20, check=20, time=4))
    before = lines_of(tmp_path)
    assert any(t["status"] == "timeout" and t["stage"] == "rung 0" for t in before)
    second = run({2: 0.001})
    assert lines_of(tmp_path) == before
    assert second.outcomes == first.outcomes

    (path,) = (tmp_path / "logs").glob("*_decode.jsonl")
    kept = [t for t in before if t["kind"] == "trial" and t["stage"] in ("prune", "check", "rung 0")][:-1]
    path.write_text("".join(json.dumps(t) + "\n" for t in kept) + '{"kind": "tr')
    third = run({2: 0.001})
    assert third.outcomes[0]["schedule"] == first.outcomes[0]["schedule"]
    after = lines_of(tmp_path)
    again = [
        schedule_text(space.schedule_from_dict(t["schedule"])) for t in after if t.get("stage") == "rung 0" and t["us"]
    ]
    assert len(again) == len(set(again))  # nothing was timed twice
    assert after[: len(kept)] == kept


def test_a_default_that_fails_is_reported_and_nothing_is_written(run: Runner, tmp_path: Path) -> None:
    report = run({0: "wrong"}, candidate_limit=2)
    assert not report.outcomes
    assert "the default schedule fails at check" in report.failures[0]
    assert not (tmp_path / "out" / "index.json").exists()


def test_a_real_search_on_this_cpu(tmp_path: Path) -> None:
    """Two real candidates, built and timed; the artifact is what the dispatcher then loads."""
    report = tune.tune(
        "gated_delta_rule",
        **SIZE,
        batches=(2,),
        budget_s=300,
        candidate_limit=2,
        out=tmp_path / "out",
        logs=tmp_path / "logs",
    )
    assert not report.failures
    (outcome,) = report.outcomes
    assert outcome["candidates"] >= 2
    assert outcome["roofline"] > 0
    artifact = read_artifact(tmp_path / "out" / outcome["artifact"])
    assert artifact.manifest["evidence"][0]["result"]["errors"]["out"] < 1e-5
