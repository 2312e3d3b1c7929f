"""Tuning on a Ray cluster: two nodes on this machine, with candidates that misbehave (fake_jobs.py)."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvbuffer_codegen.artifact import read_artifact
from kvbuffer_codegen.autotune import logs, tune
from kvbuffer_codegen.autotune.candidates import candidates, schedule_text
from kvbuffer_codegen.cli.main import main
from kvbuffer_codegen.compiler.build import build
from kvbuffer_codegen.index import read_index
from kvbuffer_codegen.ir.forms import KernelSpec
from kvbuffer_codegen.ir.recurrences import gated_delta_rule
from kvbuffer_codegen.schedules.targets import target

CPU = target("cpu")
BUFFERS = (4, 8)
SPECS = [KernelSpec("decode", gated_delta_rule.normal_form, 16, 16, 2, buffer=buffer) for buffer in BUFFERS]
TRIED = candidates(SPECS[0], CPU, 8, 2, 4).schedules


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of two nodes; what their processes need is in the environment when they start."""
    pytest.importorskip("ray", reason="the extra [ray] is not installed")
    from ray.cluster_utils import Cluster

    plan = {schedule_text(TRIED[i]): what for i, what in {1: "no compile", 2: "wrong", 3: 0.001}.items()}
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    monkeypatch.setenv("FAKE_TEMPLATE", str(build(SPECS[0], TRIED[0], CPU, tmp_path / "template")))
    monkeypatch.setenv("FAKE_PLAN", json.dumps(plan))
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        nodes.add_node(num_cpus=1)
        yield nodes.address
    finally:
        nodes.shutdown()


def test_two_nodes_share_the_searches(cluster: str, tmp_path: Path) -> None:
    """Both measure, bad candidates cost themselves only, and artifacts and log are those of local tuning."""
    limits = tune.Limits(build=120, check=120, time=120)
    report = tune.tune(
        "gated_delta_rule",
        heads=(1, 2),
        dims=(16, 16),
        forms=("decode",),
        buffers=BUFFERS,
        batches=(4,),
        budget_s=3600,
        candidate_limit=len(TRIED),
        out=tmp_path / "out",
        logs=tmp_path / "logs",
        limits=limits,
        hooks="fake_jobs",
        ray=cluster,
    )
    assert not report.failures
    assert sorted(o["buffer"] for o in report.outcomes) == sorted(BUFFERS)
    for outcome in report.outcomes:
        assert outcome["schedule"] == TRIED[3].to_dict()
        counts = {"compile": 1, "wrong": 1}
        assert {name: outcome["statuses"][name] for name in counts} == counts
        evidence = read_artifact(tmp_path / "out" / outcome["artifact"]).manifest["evidence"]
        assert [e["kind"] for e in evidence] == ["check", "timing"]
    assert len(read_index(tmp_path / "out").choices) == len(BUFFERS)
    (path,) = (tmp_path / "logs").iterdir()
    lines = logs.read_log(path, whole=True)
    assert {t["key"]["buffer"] for t in lines if t["kind"] == "choice"} == set(BUFFERS)
    # A search alone has no line of another between its first and its last.
    order = [t["key"]["buffer"] for t in lines]
    first, last = order.index(order[-1]), len(order) - 1 - order[::-1].index(order[0])
    assert first < last, "one after the other: the second node did not work"


def test_ray_that_is_not_there_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KVBUFFER_CODEGEN_CACHE", str(tmp_path))
    monkeypatch.setitem(sys.modules, "ray", None)
    asked: list[Any] = ["tune", "--form", "commit", "--target", "cpu"]
    assert main([*asked, "--executor", "ray"]) == 1
    said = capsys.readouterr().err
    assert "ray is not installed; `pip install 'kvbuffer-codegen[ray]'` here and on every node" in said
    assert main([*asked, "--address", "10.0.0.1:6379"]) == 2
    assert "--address 10.0.0.1:6379 is a Ray cluster's; accepted: with --executor ray" in capsys.readouterr().err
