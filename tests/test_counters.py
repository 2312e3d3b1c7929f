"""benchmarks/counters.py without a GPU: what it asks ncu for, and what it reads from ncu's tables."""

from __future__ import annotations

import json
import stat
import sys
import time
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

import counters  # noqa: E402

SHIPPED = ROOT / "generated" / "sm_90a"
NAMES = (
    "ID",
    "Process ID",
    "Kernel Name",
    "Block Size",
    "gpu__time_duration.sum",
    "dram__bytes_read.sum",
    "launch__registers_per_thread",
    "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_sleeping_per_issue_active.ratio",
    "derived__memory_l2_theoretical_sectors_global",
    "memory_l2_theoretical_sectors_global_excessive",
)
RAW = f"""==PROF== Connected to process 7
{",".join(f'"{name}"' for name in NAMES)}
"","","","","ns","byte","register/thread","inst","inst","inst","sector","sector"
"0","7","k","(256, 1, 1)","10,000","8000000","127","6.5","1.25","0","200","20"
"1","7","k","(256, 1, 1)","12000","8200000","127","7.5","1.75","0","200","20"
"2","7","k","(256, 1, 1)","80000","128000000","127","9.5","0.5","0","3200","0"
"3","7","k","(256, 1, 1)","90000","128000000","127","9.5","0.5","0","3200","0"
"""
SOURCE_HEAD = """"Kernel Name","k"
"#","Address","Source","Warp Stall Sampling (All Samples)","Warp Stall Sampling (Not-issued Samples)",\
"Instructions Executed","stall_barrier","stall_long_sb","stall_long_sb (Not Issued)"
"""
SOURCE_TABLE = SOURCE_HEAD + (
    '"0","0x7f0a00","      LDG.E.128 R4, [R2.64]","10","8","64","0","2","2"\n'
    '"1","0x7f0a10","@!P0  FFMA R8, R4, R5, R6","{}","80","64","10","70","60"\n'
    '"2","0x7f0a20","      EXIT","","","64","","",""\n'
)
SOURCE = SOURCE_TABLE.format(90) + SOURCE_TABLE.format(40) + SOURCE_TABLE.format(50) + SOURCE_TABLE.format(50)


def test_launches_of_a_raw_table() -> None:
    launches = counters.raw_launches(RAW)
    assert [one["gpu__time_duration.sum"] for one in launches] == [10000, 12000, 80000, 90000]
    kept = counters.summary(launches[:2])
    assert kept["us"] == 11
    assert kept["dram_read_mb"] == 8.1
    assert kept["registers"] == 127
    assert list(kept["stalls"].items()) == [("long_scoreboard", 7.0), ("barrier", 1.5)]
    assert kept["excessive_sectors"] == 20
    assert kept["launch_us"] == [10, 12]
    assert "issue_percent" not in kept
    assert counters.raw_launches("==ERROR== no kernels were profiled\n") == []


def test_where_warps_wait() -> None:
    tables = counters.source_tables(SOURCE)
    assert len(tables) == 4
    lines = counters.listing(tables[:2])
    assert [(x.sass, x.samples, x.executed) for x in lines[1:]] == [
        ("@!P0 FFMA R8, R4, R5, R6", 130, 128),
        ("EXIT", 0, 128),
    ]
    text = counters.hot_text("decode B=8", lines)
    assert "3 instructions, 150 samples" in text
    assert "FFMA 86.7%" in text
    assert "10% by 0, 25% by 1" in text
    assert text.splitlines()[5].split()[:3] == ["1", "86.7%", "128"]
    assert "EXIT" not in text
    assert "EXIT" in counters.every_line(lines)
    assert "Not Issued" not in text
    assert "long_sb 93.3%" in text


def test_choices() -> None:
    folders = sorted(path.parent for path in SHIPPED.rglob("manifest.json"))
    found = counters.chosen(folders, counters.FIVE.split(","))
    assert [choice for choice, _ in found] == counters.FIVE.split(",")
    (pool,) = counters.chosen(folders, ["decode:kv64"])
    assert "569ec13f" in pool[1].name
    assert [f.name for _, f in counters.chosen(folders, ["569ec13f"])] == [pool[1].name]
    with pytest.raises(ValueError, match="verify:T99"):
        counters.chosen(folders, ["verify:T99"])


FAKE = """#!{python}
import json, pathlib, re, sys
a = sys.argv[1:]
here = pathlib.Path(__file__).parent
if "--version" in a:
    print("Version 2025.3.1.0 (build 1) (public-release)")
elif "--import" in a:
    print((here / ("source.csv" if "source" in a else "raw.csv")).read_text())
elif "--metrics" in a:
    sys.exit("==ERROR== Failed to find metric dram__bytes_read.sum")
else:
    tasks = json.loads(a[a.index("--child") + 1])
    assert all(re.match(a[a.index("--kernel-name") + 1][6:], pathlib.Path(f).name.rsplit("-", 1)[0]) for f, _ in tasks)
    assert int(a[a.index("--launch-count") + 1]) == 4 * len(tasks)
    rows = [{{"batch": int(b), "bytes": 1e6}} for b in a[a.index("--batches") + 1].split(",")]
    for _, log in tasks[:1] if (here / "crash").exists() else tasks:
        pathlib.Path(log).write_text(json.dumps({{"rows": rows, "launches": 2}}))
    pathlib.Path(a[a.index("--export") + 1]).write_text("report")
"""


@pytest.fixture
def ncu(tmp_path: Path) -> Path:
    ncu = tmp_path / "ncu"
    ncu.write_text(FAKE.format(python=sys.executable))
    ncu.chmod(ncu.stat().st_mode | stat.S_IXUSR)
    (tmp_path / "raw.csv").write_text(RAW)
    (tmp_path / "source.csv").write_text(SOURCE)
    return ncu


def rows(out: Path) -> list[list[tuple[int, float]]]:
    kernels = json.loads((out / "counters.json").read_text())["kernels"]
    return [[(row["batch"], row["us"]) for row in entry["rows"]] for entry in kernels]


def test_a_run(ncu: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    asked = ["--kernels", "decode:float32:gated_delta_rule:L16", "--ncu", str(ncu), "--source", "--out", str(out)]
    assert counters.main(asked) == 0
    assert rows(out) == [[(8, 11), (128, 85)]]
    assert {path.name for path in out.iterdir()} == {"counters.json", "counters.txt", "hot.txt", "raw.tar.gz"}
    assert "B=128" in (out / "hot.txt").read_text()
    document = tmp_path / "performance.md"
    document.write_text("# P\n\n| kernel | B | us | DRAM | old |\n| --- |\n| step | 1 |\n\nAfter.\n")
    assert counters.main(["--show", str(out / "counters.json"), "--into", str(document)]) == 0
    assert document.read_text().startswith("# P\n\n| kernel | B |")
    assert document.read_text().endswith(" |\n\nAfter.\n")
    assert "| decode:float32:gated_delta_rule:L16 | 8 | 11.0 | ? | 8.1 / ? / 1.0 |" in document.read_text()
    assert "| step |" not in document.read_text()
    with pytest.raises(ValueError, match="no table"):
        counters.with_table("nothing", "")


def test_kernels_share_a_run_and_one_that_crashed_gets_its_own(ncu: Path, tmp_path: Path) -> None:
    both = [
        "--kernels",
        "decode:float32:gated_delta_rule:L16,step:float32:gated_delta_rule:L16",
        "--ncu",
        str(ncu),
        "--source",
        "--out",
        str(tmp_path / "out"),
    ]
    doubled = RAW + "".join(line + "\n" for line in RAW.splitlines()[3:])
    (tmp_path / "raw.csv").write_text(doubled)
    (tmp_path / "source.csv").write_text(SOURCE + SOURCE)
    assert counters.main(both) == 0
    assert rows(tmp_path / "out") == [[(8, 11), (128, 85)]] * 2
    (tmp_path / "raw.csv").write_text(RAW)
    (tmp_path / "source.csv").write_text(SOURCE)
    (tmp_path / "crash").touch()
    assert counters.main(both) == 0
    assert rows(tmp_path / "out") == [[(8, 11), (128, 85)]] * 2


def test_what_goes_wrong_is_said(ncu: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--kernels", "decode:float32:gated_delta_rule:L16", "--out", str(tmp_path / "out"), "--ncu"]
    (tmp_path / "raw.csv").write_text("==ERROR== nothing")
    assert counters.main([*asked, str(ncu)]) == 1
    assert "2 batch sizes called, 0 launches" in capsys.readouterr().out
    assert counters.main([*asked, "/no/ncu"]) == 1
    assert "No such file" in capsys.readouterr().out
    assert counters.main([*asked, str(ncu), "--seconds", "-1"]) == 1
    assert "no time was left" in capsys.readouterr().out


def test_launches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The child calls what h200.py times, and nothing else."""
    from kvbuffer_codegen.ir.forms import KernelSpec
    from kvbuffer_codegen.recurrences import RECURRENCES

    recurrence = RECURRENCES["gated_delta_rule"]
    spec = KernelSpec("decode", recurrence.normal_form, K=16, V=16, buffer=4)
    called: list[tuple[object, ...]] = []
    monkeypatch.setattr(counters.h200, "loaded", lambda folder, device: (lambda *a: called.append(a), spec, recurrence))
    tasks = [(tmp_path, tmp_path / "a"), (tmp_path, tmp_path / "b")]
    counters.launch(tasks, (1, 2), 2, time.time() + 60, "cpu")
    assert len(called) == 8
    rows = json.loads((tmp_path / "b").read_text())["rows"]
    assert [row["batch"] for row in rows] == [1, 2]
    assert rows[1]["bytes"] == 2 * rows[0]["bytes"]
    assert all(isinstance(x, torch.Tensor) for x in called[0][:3])
    counters.launch(tasks, (1,), 1, time.time() - 1, "cpu")
    assert len(called) == 8
