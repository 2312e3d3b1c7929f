"""Tuning logs as the source of what ships: joined, chosen from, built from, and kept by the benchmarks."""

from __future__ import annotations

import importlib.util
import itertools
import json
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvbuffer_codegen.artifact import read_artifact
from kvbuffer_codegen.autotune import derive, evidence, logs
from kvbuffer_codegen.autotune.farm import Farm
from kvbuffer_codegen.caches import shipped_folder
from kvbuffer_codegen.cli.main import main
from kvbuffer_codegen.compiler.toolchain import MissingCompiler, find_compiler
from kvbuffer_codegen.index import read_index
from kvbuffer_codegen.ir.forms import cursor_spec
from kvbuffer_codegen.schedules import space
from kvbuffer_codegen.schedules.targets import target

ROOT = Path(__file__).parent.parent
LOGS = ROOT / "tuning_logs"
SPEC = cursor_spec("commit")
DEFAULTS = space.default(SPEC, target("sm_90a")).to_dict()
DEFAULT, OTHER = (s.to_dict() for s in space.legal(SPEC, target("sm_90a"))[:2])


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVBUFFER_CODEGEN_CACHE", str(tmp_path / "cache"))


def line(us: float, *, rows: int = 8, run: str = "2026-01-01T00:00:00Z", **more: Any) -> logs.Line:
    """A final trial of ``commit`` on an H200."""
    made: logs.Line = {"kind": "trial", "run": run, "date": run, "device": "NVIDIA H200", "capability": "9.0"}
    made |= {"key": SPEC.key(), "space": space.space_hash(), "generator": "", "rows": rows, "H": 16}
    made |= {"schedule": DEFAULT, "default": True, "incumbent": False, "stage": "final", "attempt": 1, "status": "ok"}
    made |= {"reason": "", "us": [us] * 3, "bytes": 100.0, "read": [4e12], "error": {"cursors": 0.0}}
    return {**made, "resources": {}, "versions": {}, **more}


def other(us: float, **more: Any) -> logs.Line:
    return line(us, **{"schedule": OTHER, "default": False, **more})


def write(path: Path, *lines: Any) -> Path:
    path.write_text("".join((text if isinstance(text, str) else json.dumps(text)) + "\n" for text in lines))
    return path


def refused(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 2) -> str:
    assert main(list(arguments)) == code
    (said,) = capsys.readouterr().err.splitlines()
    return said


# --- merge


def test_merge_keeps_every_line_once_and_every_choice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    h200, cpu = sorted(LOGS.glob("nvidia*")), sorted(LOGS.glob("amd*"))
    first, second, whole = (tmp_path / name for name in ("a.jsonl", "b.jsonl", "whole.jsonl"))
    assert main(["merge", *map(str, h200), str(cpu[0]), "--out", str(first)]) == 0
    assert main(["merge", *map(str, cpu), "--out", str(second)]) == 0
    capsys.readouterr()
    assert main(["merge", str(first), str(second), "--out", str(whole), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    parts = [logs.read_log(path) for path in (*h200, *cpu)]
    assert told["lines"] == len({json.dumps(t, sort_keys=True) for part in parts for t in part})
    assert told["duplicates"] == len(logs.read_log(cpu[0]))
    joined = logs.read_log(whole, whole=True)
    assert {json.dumps(t, sort_keys=True) for t in joined} == {json.dumps(t, sort_keys=True) for p in parts for t in p}
    for here in {t["space"] for t in joined}:
        apart = [choice for part in parts for choice in logs.choices(part, here)]
        assert apart
        assert sorted(map(repr, logs.choices(joined, here))) == sorted(map(repr, apart))


def test_a_choice_is_the_newest_that_was_made(tmp_path: Path) -> None:
    old = [line(10.0), other(5.0)]
    new = [line(10.0, run="2026-01-02T00:00:00Z"), other(20.0, run="2026-01-02T00:00:00Z")]
    broken = [other(1.0, run="2026-01-03T00:00:00Z")]  # its default was never timed: no choice
    for lines in itertools.permutations([*old, *new, *broken]):
        ((choice, trial),) = logs.choices(lines, space.space_hash())
        assert choice.default
        assert trial["run"] == "2026-01-02T00:00:00Z"
    ((choice, trial),) = logs.choices(old, space.space_hash())
    assert trial["schedule"] == choice.schedule == OTHER
    assert logs.choices(old, "another space") == []


def test_a_benchmark_of_what_ships_takes_no_choice_back() -> None:
    """It times one schedule, the default where that ships for some other size."""
    search = [line(10.0), other(5.0)]
    benchmark = [line(9.0, run="2026-01-02T00:00:00Z"), line(9.0, rows=32, run="2026-01-02T00:00:00Z")]
    found = {trial["rows"]: choice for choice, trial in logs.choices([*search, *benchmark], space.space_hash())}
    assert found[8].schedule == OTHER
    assert found[32].default  # where nothing else was timed


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"kind": "tr', "Unterminated string"),
        ("[1]", "not a trial or a choice"),
        (json.dumps({k: v for k, v in line(1.0).items() if k != "capability"}), "without capability"),
        (json.dumps(line(1.0, rows="8")), "rows is '8'"),
    ],
)
def test_merge_refuses_a_line_by_file_and_number(
    text: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad, out = write(tmp_path / "good", line(1.0)), write(tmp_path / "bad", line(1.0), text), tmp_path / "out"
    said = refused(capsys, "merge", str(good), str(bad), "--out", str(out))
    assert f"{bad}, line 2: " in said
    assert reason in said
    assert not out.exists()
    bad.write_text(bad.read_text()[:-1])  # as a run that was killed leaves it
    refused(capsys, "merge", str(bad), "--out", str(out))


def test_merge_overwrites_no_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = write(tmp_path / "a", line(1.0)), write(tmp_path / "b", line(2.0))
    assert "name another file" in refused(capsys, "merge", str(a), "--out", str(b))
    assert main(["merge", str(a), str(b), "--out", str(b)]) == 0
    assert [t["us"][0] for t in logs.read_log(b)] == [1.0, 2.0]
    assert "no log is there" in refused(capsys, "merge", str(tmp_path / "none"), "--out", str(tmp_path / "c"))


# --- kernels from logs


@pytest.fixture(scope="module")
def farm() -> Iterator[Farm]:
    """One child that builds for all tests here: most of a small build is importing a compiler."""
    try:
        find_compiler(target("sm_90a"))
    except MissingCompiler as error:
        pytest.skip(str(error))
    with Farm(1) as made:
        yield made


def test_a_shipped_kernel_comes_again_from_its_log(
    farm: Farm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same schedule and the same source as what ships; built twice, the same bytes; no GPU."""
    log = LOGS / "nvidia-h200_commit.jsonl"
    if space.space_hash() not in {t["space"] for t in logs.read_log(log)}:
        pytest.skip("the shipped logs are of another version's schedules: `check --stale` fails, too")
    folders = [tmp_path / "a", tmp_path / "b"]
    assert main(["tune", "--from-logs", str(log), "--out", str(folders[0]), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {row["device"] for row in found["kernels"]} == {"NVIDIA H200"}
    again = derive.derive(*derive.winners(logs.read_log(log), {}), folders[1], farm, tmp_path / "work")
    assert json.loads(json.dumps(again.kernels)) == found["kernels"]
    a, b = ({p.relative_to(f): p.read_bytes() for p in f.rglob("*") if p.is_file()} for f in folders)
    assert a == b
    (relative,) = read_index(folders[0]).artifacts
    made = read_artifact(folders[0] / relative).manifest
    shipped = read_artifact(shipped_folder() / relative).manifest
    assert made["schedule"] == shipped["schedule"]
    source = f"{made['name']}.cu"
    assert made["files"][source] == shipped["files"][source]
    if made["files"] == shipped["files"]:  # by the same nvcc
        assert made["evidence"] == shipped["evidence"]
    assert {c.device for c in read_index(folders[0]).choices} == {"NVIDIA H200"}


def test_evidence_of_a_log_is_kept_where_the_binary_is_the_one_that_ran(farm: Farm, tmp_path: Path) -> None:
    lines = [line(10.0, rows=rows) for rows in (1, 8)] + [other(5.0, rows=rows) for rows in (1, 8)]
    first, second = tmp_path / "first", tmp_path / "second"
    derive.derive(*derive.winners(lines, {}), first, farm, tmp_path / "work1")
    (relative,) = read_index(first).artifacts
    made = read_artifact(first / relative)
    assert made.manifest["schedule"] == OTHER
    assert made.manifest["evidence"] == []  # the lines do not say what ran
    ran = {"binary": evidence.binary_digest(made), "driver": "13000", "checks": {"graph": "ok"}}
    lines = [{**t, **ran} for t in lines[:3]] + [{**lines[3], **ran, "binary": "0" * 64}]
    derive.derive(*derive.winners(lines, {}), second, farm, tmp_path / "work2")
    check, timing = read_artifact(second / relative).manifest["evidence"]
    assert check["result"] == {"errors": {"cursors": 0.0}, "graph": "ok"}
    assert (timing["result"]["us"], timing["result"]["rows"]) == (5.0, 16)
    assert {(e["binary"], e["driver"], e["date"]) for e in (check, timing)} == {
        (ran["binary"], "13000", "2026-01-01T00:00:00Z")
    }
    assert sorted(c.rows for c in read_index(second).choices) == [(16, 63), (64, 255)]
    before = {p: p.read_bytes() for p in second.rglob("*") if p.is_file()}
    derive.derive(*derive.winners(lines, {}), second, farm, tmp_path / "work3")
    assert {p: p.read_bytes() for p in second.rglob("*") if p.is_file()} == before


def test_what_cannot_be_derived_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    void = write(tmp_path / "void", line(1.0, space="0" * 12))
    said = refused(capsys, "tune", "--from-logs", str(void), code=1)
    assert "1 of another version's schedules" in said
    key = {**SPEC.key(), "form": "decode", "recurrence": "nobodys", "recurrence_hash": "1"}
    said = refused(capsys, "tune", "--from-logs", str(write(tmp_path / "own", line(1.0, key=key))), code=1)
    assert "a recurrence nobodys that is not what this tree has" in said
    log = write(tmp_path / "log", line(1.0))
    assert "1 of another target" in refused(capsys, "tune", "--from-logs", str(log), "--target", "cpu", code=1)
    assert "--batch means nothing with --from-logs" in refused(capsys, "tune", "--from-logs", str(log), "--batch", "8")
    bad = write(tmp_path / "bad", line(1.0, schedule={"kind": "cuda", "speed": 9}))
    assert "schedule: fields" in refused(capsys, "tune", "--from-logs", str(bad))


def test_lines_of_the_old_space_count_as_left_out_only_where_nothing_newer_is(tmp_path: Path) -> None:
    old = [line(1.0, rows=rows, space="0" * 12) for rows in (1, 8)]
    found, left_out = derive.winners([*old, line(1.0, run="2026-01-02T00:00:00Z")], {})
    assert [w.trial["rows"] for w in found] == [8]
    assert left_out == {derive.OTHER_SPACE: 1}


# --- what the benchmarks keep


def test_keep_writes_the_evidence_that_its_log_gives_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without times the check alone."""
    spec = importlib.util.spec_from_file_location("keep", ROOT / "benchmarks" / "keep.py")
    assert spec is not None
    assert spec.loader is not None
    keep: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(keep)
    relative = next(name for name in read_index(shipped_folder()).artifacts if "kvb_commit_cursors" in name)
    shutil.copytree(shipped_folder() / relative, tmp_path / "generated" / relative)
    artifact = read_artifact(tmp_path / "generated" / relative)
    artifact.manifest["schedule"] = DEFAULTS  # whatever the version that ships was built with
    kernel = {"schedule": artifact.manifest["schedule"], "resources": {}, "form": "commit"}
    kernel |= {"binary_sha256": evidence.binary_digest(artifact), "check": {"errors": {"cursors": 0.0}, "graph": "ok"}}
    run = {"date": "2026-11-30T12:00:00Z", "device": "NVIDIA H200", "capability": "9.0", "driver": "13000"}
    times = [{"batch": batch, "us": math.pi, "bytes": 1e6} for batch in (1, 8)]
    for time in ({}, {"times": times, "read_bytes_per_s": 4e12}):
        log = logs.Log(tmp_path / f"logs{len(time)}", run["device"])
        lines = [log.append("commit", t) for t in keep.trials(artifact, {**kernel, "time": time}, run)]
        keep.keep_evidence(artifact, lines)
        kept = read_artifact(artifact.folder).manifest["evidence"]
        today = [e for e in kept if e["date"] == run["date"]]
        assert today == evidence.joined(artifact, *(evidence.evidence_of(t) for t in lines))
        assert [e["kind"] for e in today] == ["check"] + ["timing"] * len(time.get("times", ()))
        assert len(logs.choices(lines, artifact.manifest["schedule_space"])) == len(time.get("times", ()))
        assert logs.read_log(log.path("commit"), whole=True) == lines
