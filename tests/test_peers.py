"""One table beside other projects' kernels: what is measured where, and what a peer that fails costs (itself)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import peer_kit
import pytest
import torch

from kvbuffer_codegen.artifact import read_artifact
from kvbuffer_codegen.autotune.evidence import evidence_of
from kvbuffer_codegen.autotune.workload import make_workload
from kvbuffer_codegen.ir.forms import KernelSpec
from kvbuffer_codegen.ir.recurrences import gated_delta_rule, kda
from kvbuffer_codegen.ir.signature import COUNT, KV_ONLY, signature
from kvbuffer_codegen.report import peers

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
import h200  # noqa: E402
import keep  # noqa: E402
import peers as bench  # noqa: E402

#: A folder of peers as benchmarks/peer_child.py needs it: some time well, one raises, one hangs, two end the process.
FAKE = """
import os, sys, time
ROWS = []
arguments = sys.argv[1:]

def bench_one(name, make, B, tag, T, case, note=""):
    try:
        us = make(case)
        ROWS.append(dict(name=name, B=B, state=tag, T=T, us=us, us_min=us, us_max=us, gbs=1.0, layers=4, note=note))
    except Exception as e:
        print(f"{name} B={B} ERROR {type(e).__name__}: {e}")

def good(us): return us
def wrong(us): raise ValueError("no kernel for this shape")
def hangs(us): time.sleep(60)
def dies(us):
    print("Segmentation fault (core dumped)", file=sys.stderr, flush=True)
    os._exit(139)

def main():
    peers = [("fla fused_recurrent", good), ("vllm packed decode", dies), ("sglang packed decode", good)]
    peers += [("flashinfer decode", wrong), ("fla + gather/scatter", hangs), ("sglang ReplaySSM decode L=16", good)]
    for name, make in peers:
        bench_one(name, make, 8, "fp32", 1, 10.0, "staggered")
"""


# --- the table


def row(rows: list[dict[str, Any]], case: str, batch: int) -> dict[str, Any]:
    (found,) = [r for r in rows if (r["case"], r["batch"]) == (case, batch)]
    return found


def test_a_row_holds_ours_the_peers_and_the_ratio_to_the_best() -> None:
    rows = peers.table(peer_kit.run())
    decode = row(rows, "decode fp32", 128)
    assert decode["ours"]["us"] == pytest.approx(87.0 + 1.6 / 4)  # the cursor launch, shared by four layers
    assert decode["ours"]["share"] == pytest.approx(2.449e6 * 128 / peer_kit.READ * 1e6 / 87.4)
    assert decode["ours"]["spread"] == pytest.approx(0.01)
    assert decode["best"] == "ReplaySSM"
    assert decode["ratio"] == pytest.approx(87.4 / 100.8)
    assert decode["noise"] == pytest.approx(0.01 + 0.02)
    assert {c["column"]: c["us"] for c in decode["peers"]} == {
        "FLA": 132.8,
        "FLA slots": 473.7,
        "SGLang": 141.1,
        "vLLM": 141.0,
        "FlashInfer": 136.3,
        "ReplaySSM": 100.8,
        "ReplaySSM sync": 99.2,  # faster, and not counted
    }


def test_the_best_of_several_buffer_lengths_counts() -> None:
    rows = peers.table(peer_kit.run())
    for batch, name, us in ((8, "L=32", 18.3), (32, "L=16", 52.4)):
        (cell,) = [c for c in row(rows, "verify T=4 fp32", batch)["peers"] if c["column"] == "ReplaySSM"]
        assert (cell["name"], cell["us"]) == (f"sglang ReplaySSM circular {name}", us)


def test_a_state_meets_peers_of_its_own_width_and_form() -> None:
    rows = peers.table(peer_kit.run())
    assert {c["column"]: c["us"] for c in row(rows, "decode fp16", 32)["peers"]} == {"SGLang": 22.8, "FlashInfer": 22.0}
    assert "ReplaySSM" not in {c["column"] for c in row(rows, "step fp32", 32)["peers"]}
    assert "ratio" not in row(rows, "decode fp16", 8)  # no peer ran there


def test_a_peer_that_crashed_says_so_in_its_cell_and_does_not_count() -> None:
    run = peer_kit.run()
    decode = row(peers.table(run), "decode fp32", 8)
    (cell,) = [c for c in decode["peers"] if c["column"] == "FlashInfer"]
    assert "illegal memory access" in cell["reason"]
    assert decode["best"] == "FLA"
    text = peers.text(run)
    assert "crashed [1]" in text
    assert "[1] flashinfer decode: AcceleratorError: CUDA error: an illegal memory access was encountered" in text
    assert "FlashInfer: the family's time is over" in text


def test_a_peer_without_time_has_not_crashed() -> None:
    run = peer_kit.run()
    run["failures"] = [{**run["failures"][0], "reason": "no time was left"}]
    text = peers.text(run)
    assert "no time [1]" in text
    assert "crashed" not in text


def test_a_peer_that_failed_once_and_ran_at_another_length_is_its_time() -> None:
    run = peer_kit.run()
    run["failures"].append({"name": "sglang ReplaySSM circular L=32", "B": 32, "state": "fp32", "T": 4, "reason": "x"})
    (cell,) = [c for c in row(peers.table(run), "verify T=4 fp32", 32)["peers"] if c["column"] == "ReplaySSM"]
    assert cell["us"] == 52.4


def test_what_does_not_ship_is_named_and_what_failed_keeps_its_row() -> None:
    run = peer_kit.run()
    failed = {
        "case": "decode bf16",
        "batch": 32,
        "form": "decode",
        "buffer": 16,
        "kernel": "k",
        "reason": "out differs",
    }
    run["ours"].append(failed)
    missing = peers.unserved(run)
    assert "decode int8" in missing
    assert "decode bf16" not in missing
    assert row(peers.table(run), "decode bf16", 32)["ours"]["reason"] == "out differs"
    text = peers.text(run)
    assert "ours: out differs" in text
    assert "Nothing of ours ships for: dispatched fp32; verify T=2 fp32" in text


def test_slower_than_the_best_beyond_the_spread_is_marked() -> None:
    shown = [line for line in peers.text(peer_kit.run()).splitlines() if "%)" in line]
    lines = {tuple(re.split(r"\s{2,}", line.strip())[:2]): line for line in shown}
    assert "1.340 (3.0%) !" in lines["decode fp32", "1"]  # 5.4 over 4.03
    assert "!" not in lines["step fp32", "128"]  # 136.6 over 132.8: 2.9 %, within the spread
    assert "!" not in lines["decode fp32", "128"]


def test_cells_stand_below_their_header() -> None:
    header, cells, _ = peers.cells_of_table(peers.table(peer_kit.run()))
    (decode,) = [dict(zip(header, line, strict=True)) for line in cells if line[:2] == ["decode fp32", "128"]]
    assert (decode["ours us"], decode["floor"], decode["best"]) == ("87.40 (1.0%)", "83%", "ReplaySSM")
    assert (decode["ours/best"], decode["ReplaySSM"], decode["FLA"]) == (
        "0.867 (3.0%)",
        "100.80 (2.0%)",
        "132.80 (2.0%)",
    )
    assert decode["raw fold"] == "-"


def test_pictures_relate_every_peer_to_ours() -> None:
    taken, over = peers.figures(peer_kit.run())
    assert [p.title for p in over.panels] == ["decode fp32", "step fp32", "verify T=4 fp32", "decode fp16"]
    ours = next(c for c in over.panels[0].curves if c.label == "ours")
    assert {y for _, y in ours.points} == {1.0}
    floor = next(c for c in over.panels[0].curves if c.label == "byte floor of ours")
    share = row(peers.table(peer_kit.run()), "decode fp32", 128)["ours"]["share"]
    assert dict(floor.points)[128] == pytest.approx(share)
    snapshots = next(c for c in taken.panels[2].curves if c.label == "SGLang")
    assert dict(snapshots.points)[128] == 518.0
    empty = peer_kit.run() | {"ours": []}
    assert all(figure.empty for figure in peers.figures(empty))
    assert "Nothing of ours was timed in this run." in peers.figures(empty)[0].notes


# --- ours


def test_layers_share_what_is_launched_once_a_step() -> None:
    state = 32 * 128 * 128 * 4
    assert [peers.layers_of(B, state) for B in (1, 8, 32, 128, 512)] == [36, 32, 8, 4, 4]


def test_each_case_asks_the_dispatcher_for_its_kernel() -> None:
    calls = []

    def find(**call: Any) -> Path:
        calls.append(call)
        if call["state"] == "int8":
            raise LookupError("No decode kernel\nmore")
        return Path(f"kvb_{call['form']}_{call['buffer']}")

    def pick(batch: int, **key: Any) -> str:
        return "step" if batch == 1 else "decode"

    asked = bench.asked(peers.CASES, (1, 8), find, pick)
    got = {(a.case.name, a.batch, a.buffer): a for a in asked}
    assert got["dispatched fp32", 1, 16].folder == Path("kvb_step_16")
    assert got["dispatched fp32", 8, 16].form == "decode"
    assert got["decode int8", 8, 16].reason == "not shipped: No decode kernel"
    assert got["verify T=8 fp32", 1, 32].folder == Path("kvb_verify_32")
    kda_call = next(c for c in calls if c["recurrence"] == "kda")
    assert (kda_call["heads"], kda_call["dims"], kda_call["io"]) == ((32, 32), (128, 128), "bfloat16")


def kernel(folder: str, form: str, us: float, reason: str = "") -> dict[str, Any]:
    """As an entry of h200.py's results."""
    timed = {"batch": 8, "us": us, "fastest_us": us - 1, "slowest_us": us + 1, "bytes": 1e6, "floor_us": us / 2}
    return {"folder": folder, "form": form, "check": {"reason": reason}, "time": {"times": [timed], "reason": ""}}


def test_times_of_ours_come_from_the_kernel_and_its_cursor_launch() -> None:
    case = next(c for c in peers.CASES if c.name == "verify T=4 fp32")
    wrong = next(c for c in peers.CASES if c.name == "decode fp32")
    wanted = [
        bench.Asked(case, 8, "verify", 16, Path("x/v")),
        bench.Asked(case, 32, "verify", 16, Path("x/v")),
        bench.Asked(wrong, 8, "decode", 16, Path("x/d")),
        bench.Asked(wrong, 8, "decode", 16, None, "not shipped: none"),
    ]
    kernels = [kernel("v", "verify", 20.0), kernel("d", "decode", 9.0, "out differs"), kernel("c", "commit", 1.5)]
    entries = bench.ours(wanted, kernels)
    assert entries[0]["us"] == 20.0
    assert (entries[0]["cursors_us"], entries[0]["layers"], entries[0]["kernel"]) == (1.5, 32, "v")
    assert entries[1]["reason"] == "the cursor kernel was not timed"
    assert entries[2]["reason"] == "out differs"
    assert (entries[3]["kernel"], entries[3]["reason"]) == (None, "not shipped: none")
    table = peers.table({**peer_kit.run(), "ours": entries})
    assert row(table, "verify T=4 fp32", 8)["ours"]["us"] == pytest.approx(20.0 + 1.5 / 32)


def test_layers_that_h200_times_have_their_models_heads() -> None:
    def heads(recurrence: Any, **size: Any) -> int:
        return h200.key_heads(KernelSpec("decode", recurrence.normal_form, buffer=16, **size))

    assert heads(gated_delta_rule, K=128, V=128, ratio=2) == 16
    assert heads(kda, K=128, V=128) == 32
    assert heads(kda, K=64, V=64) == h200.KEY_HEADS
    assert h200.key_heads(SimpleNamespace(recurrence=None)) == h200.KEY_HEADS


def test_kv_only_calls_meet_rows_of_one_context_and_no_state() -> None:
    spec = KernelSpec("decode", gated_delta_rule.normal_form, 16, 16, 2, buffer=4, kv_only=8)
    workload = make_workload(spec, gated_delta_rule, 3, 2, torch.device("cpu"))
    at = [a.name for a in signature(spec)].index("cursors")
    met: list[int] = []

    def called(*call: Any) -> None:
        cursors = call[at][:, :-1]
        assert bool((cursors[KV_ONLY] == 1).all())
        met.extend(set(cursors[COUNT].tolist()))

    rows = h200.kv_only_times(called, spec, workload, 2, torch.device("cpu"), 1e9)
    assert [(r["batch"], r["context"]) for r in rows] == [(3, 1), (3, 8)]
    assert set(met) == {0, 7}
    record, io = 4 * 16 * 4 + 2 * 16 * 4 + 4 * 4, (2 * 2 * 16 + 2 * 4 * 16 + 2 * 4) * 4
    assert [r["bytes"] for r in rows] == [3 * (io + record), 3 * (io + 8 * record)]


def test_lines_kept_have_every_sample_and_contexts_apart() -> None:
    """The tuner's choice and the dispatcher's evidence must not take a kv_only time for a cycle's."""
    shipped = sorted((BENCHMARKS.parent / "generated" / "sm_90a").glob("kvb_decode_*"))[0]
    artifact = read_artifact(shipped)
    run = {"date": "2026-11-30", "device": "G", "driver": "580", "capability": "9.0"}
    about = {
        "schedule": artifact.manifest["schedule"],
        "check": {"errors": {}},
        "resources": {},
        "binary_sha256": "0" * 64,
    }
    timed = {"batch": 8, "us": 2.0, "samples_us": [3.0, 2.0, 1.0], "bytes": 5.0}
    result = {"read_bytes_per_s": 4e12, "key_heads": 32, "times": [timed], "kv_only": [{**timed, "context": 8}]}
    cycle, context = keep.trials(artifact, {**about, "time": result}, run)
    assert (cycle["us"], cycle["H"], cycle["stage"], "context" in cycle) == ([3.0, 2.0, 1.0], 32, "final", False)
    assert (context["stage"], context["context"]) == ("kv_only", 8)
    assert [e["kind"] for e in evidence_of(context)] == ["check"]
    old = {"read_bytes_per_s": 4e12, "times": [{"batch": 8, "us": 2.0, "bytes": 5.0}]}
    (line,) = keep.trials(artifact, {**about, "time": old}, run)
    assert (line["us"], line["H"]) == ([2.0], keep.KEY_HEADS)


# --- peers' processes


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "bench_peers.py").write_text(FAKE)
    return tmp_path


def family(folder: Path, *arguments: str) -> bench.Family:
    script = str(folder / "bench_peers.py")
    return bench.Family("Fake", [sys.executable, str(bench.CHILD), script, "LOG", *arguments])


def test_a_peer_that_dies_raises_or_hangs_costs_itself_only(folder: Path) -> None:
    run = bench.measure_peers([family(folder)], folder, seconds=60, silence=2)
    assert [p["name"] for p in run["peers"]] == [
        "fla fused_recurrent",
        "sglang packed decode",
        "sglang ReplaySSM decode L=16",
    ]
    assert run["peers"][0]["us"] == 10.0
    assert run["families"][0]["reason"] == ""
    assert {f["name"]: f["reason"] for f in run["failures"]} == {
        "vllm packed decode": "the process ended with exit code 139: Segmentation fault (core dumped)",
        "flashinfer decode": "ValueError: no kernel for this shape",
        "fla + gather/scatter": "hung for 2 s",
    }
    table = peers.table({**peer_kit.run(), **run, "ours": [bench_row() for _ in range(1)]})
    assert row(table, "decode fp32", 8)["ratio"] == pytest.approx(1.1)


def bench_row() -> dict[str, Any]:
    (found,) = [o for o in peer_kit.run()["ours"] if (o["case"], o["batch"]) == ("decode fp32", 8)]
    return {**found, "us": 11.0, "cursors_us": 0.0}


def test_a_family_ends_with_its_time(folder: Path) -> None:
    begin = time.monotonic()
    run = bench.measure_peers([family(folder)], folder, seconds=2, silence=30)
    assert time.monotonic() - begin < 20
    assert run["families"][0]["reason"] == "the family's time is over"
    hung = {f["reason"] for f in run["failures"] if f["name"] == "fla + gather/scatter"}
    assert hung <= set(peers.OUT_OF_TIME)
    assert {p["name"] for p in run["peers"]} <= {"fla fused_recurrent", "sglang packed decode"}


def test_what_was_measured_is_kept_and_families_without_time_are_left_out(folder: Path) -> None:
    kept: list[int] = []
    late = bench.measure_peers(
        [family(folder)], folder, 30, deadline=time.monotonic() - 1, keep=lambda run: kept.append(len(run["families"]))
    )
    assert (late["peers"], late["families"][0]["reason"], kept) == ([], "no time was left", [0, 1])


#: A bench whose torch writes down when it is waited for.
WAITS = """
import sys, types
ROWS, events = [], []
cuda = types.SimpleNamespace(is_available=lambda: True, synchronize=lambda: events.append("wait"))
sys.modules["torch"] = types.SimpleNamespace(cuda=cuda)

def bench_one(name, make, B, tag, T, case, note=""):
    make(case)
    events.append("time")
    ROWS.append(dict(name=name, B=B, state=tag, T=T, us=1.0, us_min=1.0, us_max=1.0, layers=4, note=" ".join(events)))

def main():
    events.append("case")
    bench_one("fla fused_recurrent", lambda case: events.append("make"), 8, "fp32", 1, None)
"""


def test_a_peer_is_timed_when_its_inputs_are_there(tmp_path: Path) -> None:
    """bench_peers.py runs it on a stream that does not wait for the one that writes them."""
    (tmp_path / "bench_peers.py").write_text(WAITS)
    run = bench.measure_peers([family(tmp_path)], tmp_path, seconds=30)
    assert run["peers"][0]["note"] == "case wait make wait time"


def test_a_run_without_checks_says_so() -> None:
    sentence = "Ours were not checked against the oracle in this run."
    assert sentence in peers.text(peer_kit.run() | {"checked": False})
    assert sentence not in peers.text(peer_kit.run() | {"checked": True})


def test_a_family_that_cannot_start_says_why_and_the_next_one_runs(folder: Path) -> None:
    (folder / "bench_flashinfer.py").write_text("import library_that_is_not_there")
    command = [sys.executable, str(bench.CHILD), str(folder / "bench_flashinfer.py"), "LOG"]
    broken = bench.Family("FlashInfer", command)
    (folder / "bench_peers.py").write_text(FAKE.replace("time.sleep(60)", "return 1.0"))
    run = bench.measure_peers([broken, family(folder)], folder, seconds=30)
    assert "exit code 1" in run["families"][0]["reason"]
    assert "No module named 'library_that_is_not_there'" in run["families"][0]["reason"]
    assert len(run["peers"]) == 4


# --- the command


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(BENCHMARKS / "peers.py"), *arguments], capture_output=True, text=True)


def test_show_prints_the_table_of_an_earlier_run_and_draws_it(tmp_path: Path) -> None:
    (tmp_path / "peers.json").write_text(json.dumps(peer_kit.run()))
    done = command("--show", str(tmp_path / "peers.json"), "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert peers.text(peer_kit.run()) in done.stdout
    assert (tmp_path / "out" / "peers.txt").read_text() == peers.text(peer_kit.run()) + "\n"
    pictures = {"peers.png", "peers-over-ours.png"}
    assert pictures <= {f.name for f in (tmp_path / "out").iterdir()} or "pip install" in done.stdout


def test_a_dry_run_says_what_would_run_and_starts_nothing(folder: Path) -> None:
    (folder / "bench_flashinfer.py").write_text("")
    done = command("--peers", str(folder), "--flashinfer", str(folder), "--out", str(folder / "out"), "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "peers Triton verify fp32:" in done.stdout
    assert f"PEERS={folder}" in done.stdout
    assert "ours  decode fp32, B = 128: decode L=16" in done.stdout
    assert list((folder / "out").iterdir()) == []


def test_cases_and_peers_can_be_chosen(folder: Path) -> None:
    (folder / "bench_flashinfer.py").write_text("")
    places = ("--peers", str(folder), "--flashinfer", str(folder), "--out", str(folder / "out"), "--dry-run")
    done = command(*places, "--cases", "decode bf16,verify T=4*", "--families", "FlashInfer*")
    assert done.returncode == 0, done.stderr
    ours = [line.split(",")[0] for line in done.stdout.splitlines() if line.startswith("ours")]
    assert {"ours  decode bf16", "ours  verify T=4 fp32", "ours  verify T=4 int8"} < set(ours)
    assert not {"ours  decode fp32", "ours  verify T=8 fp32"} & set(ours)
    families = [line for line in done.stdout.splitlines() if line.startswith("peers")]
    assert len(families) == 4
    assert all(line.startswith("peers FlashInfer") for line in families)


def test_cases_that_were_not_asked_for_are_not_missing() -> None:
    missing = peers.unserved({**peer_kit.run(), "cases": ["decode fp32", "decode int8"]})
    assert missing == ["decode int8"]


def test_a_folder_without_a_bench_is_refused(tmp_path: Path) -> None:
    done = command("--peers", str(tmp_path))
    assert done.returncode == 2
    assert f"--peers {tmp_path}: no bench_peers.py is there" in done.stderr
