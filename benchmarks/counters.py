"""Hardware counters of chosen kernels on the GPU that is here, by Nsight Compute. Needs torch, numpy and ncu.

    python benchmarks/counters.py --out DIR [--artifacts generated/sm_90a] [--kernels decode:float32,verify:float32:T8]
        [--batches 8,128] [--launches 2] [--source] [--seconds 240]
    python benchmarks/counters.py --show DIR/counters.json ... [--into docs/performance.md]
    python benchmarks/counters.py --reparse DIR/raw          # after a change of what is read from Nsight's tables

A kernel is ``form[:state][:word]...``: words are T8 (window), L16 (buffer), kv64 (kv_only capacity, else none), tree,
KV or VK, a recurrence, ``exact`` or another mode of records, or a part of its folder's name. The calls are those that
h200.py times, launched one by one; ncu repeats each with flushed caches, so that it is cold, at the clocks of the day.

Leaves DIR/counters.json (after each kernel), DIR/counters.txt (the table), with ``--source`` DIR/hot.txt (the
instructions at which warps wait), and DIR/raw.tar.gz: Nsight's own tables and every instruction with its samples.
Exit code 1 where a kernel has no counters.
"""

from __future__ import annotations

import argparse
import bisect
import csv
import io
import itertools
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h200

FIVE = ",".join(
    f"{kernel}:L16:exact"
    for kernel in (
        "decode:float32:gated_delta_rule",
        "verify:float32:gated_delta_rule:T4",
        "verify:float32:gated_delta_rule:T8",
        "decode:float16:gated_delta_rule",
        "decode:float32:kda",
    )
)
SECTIONS = (
    "SpeedOfLight",
    "LaunchStats",
    "Occupancy",
    "SchedulerStats",
    "WarpStateStats",
    "InstructionStats",
    "ComputeWorkloadAnalysis",
    "MemoryWorkloadAnalysis",
    "SourceCounters",
)
EXTRA = "dram__bytes_read.sum,dram__bytes_write.sum,dram__throughput.avg.pct_of_peak_sustained_elapsed"
#: What is kept of a launch: name, then the metrics that mean it, the first that is there, and a factor.
WANTED: dict[str, tuple[tuple[str, ...], float]] = {
    "us": (("gpu__time_duration.sum",), 1e-3),
    "sm_mhz": (("smsp__cycles_elapsed.avg.per_second", "gpc__cycles_elapsed.avg.per_second"), 1e-6),
    "dram_mhz": (("dram__cycles_elapsed.avg.per_second",), 1e-6),
    "dram_read_mb": (("dram__bytes_read.sum",), 1e-6),
    "dram_write_mb": (("dram__bytes_write.sum",), 1e-6),
    "dram_percent": (
        (
            "dram__throughput.avg.pct_of_peak_sustained_elapsed",
            "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
        ),
        1,
    ),
    "l2_percent": (("lts__throughput.avg.pct_of_peak_sustained_elapsed",), 1),
    "l1_percent": (("l1tex__throughput.avg.pct_of_peak_sustained_active",), 1),
    "sm_percent": (("sm__throughput.avg.pct_of_peak_sustained_elapsed",), 1),
    "occupancy_percent": (("sm__warps_active.avg.pct_of_peak_sustained_active",), 1),
    "most_occupancy_percent": (("sm__maximum_warps_per_active_cycle_pct",), 1),
    "registers": (("launch__registers_per_thread",), 1),
    "shared_bytes": (("launch__shared_mem_per_block", "launch__shared_mem_per_block_dynamic"), 1),
    "grid": (("launch__grid_size",), 1),
    "threads": (("launch__block_size",), 1),
    "waves": (("launch__waves_per_multiprocessor",), 1),
    "ipc": (("sm__inst_executed.avg.per_cycle_active", "sm__inst_executed.avg.per_cycle_elapsed"), 1),
    "issue_percent": (("smsp__issue_active.avg.pct_of_peak_sustained_active",), 1),
    "warp_instructions": (("smsp__inst_executed.sum", "sm__inst_executed.sum"), 1),
    "l1_hit_percent": (("l1tex__t_sector_hit_rate.pct",), 1),
    "l2_hit_percent": (("lts__t_sector_hit_rate.pct",), 1),
    "excessive_sectors": (
        (
            "derived__memory_l2_theoretical_sectors_global_excessive",
            "memory_l2_theoretical_sectors_global_excessive",
        ),
        1,
    ),
    "sectors": (("derived__memory_l2_theoretical_sectors_global", "memory_l2_theoretical_sectors_global"), 1),
    "excessive_shared_wavefronts": (
        ("derived__memory_l1_wavefronts_shared_excessive", "memory_l1_wavefronts_shared_excessive"),
        1,
    ),
    "shared_wavefronts": (("derived__memory_l1_wavefronts_shared", "memory_l1_wavefronts_shared"), 1),
    "warps_eligible": (("smsp__warps_eligible.avg.per_cycle_active",), 1),
}
STALL = re.compile(r"smsp__average_warps_issue_stalled_(\w+?)_per_issue_active\.ratio")
SAMPLES = "Warp Stall Sampling (All Samples)"
HOT_LINES = 40
HOT_BYTES = 60_000


# --- the child, under ncu: the launches of some artifacts


def launch(
    tasks: Sequence[tuple[Path, Path]],
    batches: Sequence[int],
    launches: int,
    deadline: float,
    device_name: str = "cuda",
) -> None:
    """Of each artifact ``launches`` calls per batch size, of phases and groups of the timed workload that lie apart,
    and none besides; what they move goes to the file beside it. No artifact is begun after ``deadline``."""
    h200.importable()
    import torch

    from kvbuffer_codegen.autotune.workload import make_workload

    device = torch.device(device_name)
    for folder, log in tasks:
        if time.time() > deadline:
            break
        kernel, spec, recurrence = h200.loaded(folder, device)
        H, rows = h200.key_heads(spec), []
        for batch in batches:
            workload = make_workload(spec, recurrence, batch, H, device)
            h200.synchronize(device)
            for i in range(launches):
                phase = workload.calls[i * workload.phases // launches]
                kernel(*phase[i % len(phase)])
                h200.synchronize(device)
            rows.append({"batch": batch, "bytes": workload.bytes})
            log.write_text(json.dumps({"key_heads": H, "launches": launches, "rows": rows}))
            del workload
            torch.cuda.empty_cache()


# --- Nsight's tables


def number(cell: str | None) -> float | None:
    try:
        return float((cell or "").replace(",", ""))
    except ValueError:
        return None


def raw_launches(text: str) -> list[dict[str, float]]:
    """Per launch the metrics of ``--page raw --csv``: a line of names, one of units, then one per launch."""
    rows = [row for row in csv.reader(io.StringIO(text)) if row]
    start = next((i for i, row in enumerate(rows) if row[0] == "ID" and "Kernel Name" in row), None)
    if start is None:
        return []
    names, found = rows[start], []
    for row in rows[start + 1 :]:
        if len(row) == len(names) and row[0].isdigit():
            values = {name: number(cell) for name, cell in zip(names, row, strict=True)}
            found.append({name: x for name, x in values.items() if x is not None})
    return found


def summary(launches: list[dict[str, float]]) -> dict[str, Any]:
    """What is kept of the launches of one batch size: medians, and warps per issue that wait, most first."""

    def median(names: Iterable[str]) -> float | None:
        for name in names:
            values = [one[name] for one in launches if name in one]
            if values:
                return statistics.median(values)
        return None

    kept: dict[str, Any] = {}
    for name, (metrics, factor) in WANTED.items():
        value = median(metrics)
        if value is not None:
            kept[name] = float(f"{value * factor:.5g}")
    reasons = {m[1]: metric for one in launches for metric in one if (m := STALL.fullmatch(metric))}
    stalls = {reason: median([metric]) or 0.0 for reason, metric in reasons.items()}
    kept["stalls"] = {r: round(x, 3) for r, x in sorted(stalls.items(), key=lambda item: -item[1]) if x >= 0.005}
    kept["launch_us"] = [one["gpu__time_duration.sum"] / 1e3 for one in launches if "gpu__time_duration.sum" in one]
    return kept


@dataclass
class Line:
    """One instruction: samples and waits summed over launches."""

    sass: str
    samples: float = 0
    executed: float = 0
    stalls: Counter[str] = field(default_factory=Counter)


def source_tables(text: str) -> list[list[dict[str, str]]]:
    """The tables of ``--page source --csv``, one a launch: a line with the kernel's name, one of columns, then one per
    instruction."""
    tables: list[list[dict[str, str]]] = []
    names: list[str] = []
    for row in csv.reader(io.StringIO(text)):
        if "Address" in row and "Source" in row:
            names = row
            tables.append([])
        elif row and row[0] == "Kernel Name":
            names = []
        elif names and len(row) >= len(names) - 1 and number_of_address(row[names.index("Address")]) is not None:
            tables[-1].append(dict(zip(names, row, strict=False)))
    return [table for table in tables if table]


def number_of_address(cell: str) -> int | None:
    try:
        return int(cell, 16 if not cell.isdigit() or len(cell) > 6 else 10)
    except ValueError:
        return None


def listing(tables: list[list[dict[str, str]]]) -> list[Line]:
    """The instructions of one kernel in their order, over the launches of ``tables``."""
    lines: list[Line] = []
    for table in tables:
        for i, row in enumerate(table):
            if i == len(lines):
                lines.append(Line(" ".join(row["Source"].split())))
            lines[i].samples += number(row.get(SAMPLES)) or 0
            lines[i].executed += number(row.get("Instructions Executed")) or 0
            for name, cell in row.items():
                if name and re.fullmatch(r"stall_\w+", name) and not name.endswith("_not_issued"):
                    lines[i].stalls[name.removeprefix("stall_")] += int(number(cell) or 0)
    return lines


def line_text(i: int, line: Line, total: float) -> str:
    waits = [f"{name} {n / total:.1%}" for name, n in line.stalls.most_common(3) if n / total >= 0.0005]
    return f"{i:5d} {line.samples / total:6.1%} {line.executed:10,.0f}  {line.sass:<72s} {', '.join(waits)}"


def hot_text(title: str, lines: list[Line], most: int = HOT_LINES) -> str:
    """Where the warps of a kernel were, most samples first."""
    total = sum(line.samples for line in lines) or 1.0
    waits: Counter[str] = Counter()
    operations: Counter[str] = Counter()
    for line in lines:
        waits.update(line.stalls)
        words = [w for w in line.sass.split() if not w.startswith("@")]
        operations[words[0].rstrip(";") if words else "?"] += int(line.samples)
    parts = [f"== {title}: {len(lines)} instructions, {total:,.0f} samples"]
    parts.append("waits:  " + ", ".join(f"{name} {n / total:.1%}" for name, n in waits.most_common(8) if n))
    parts.append("at:     " + ", ".join(f"{name} {n / total:.1%}" for name, n in operations.most_common(12) if n))
    reached = list(itertools.accumulate(line.samples for line in lines))
    until = [f"{q:.0%} by {bisect.bisect_left(reached, q * total)}" for q in (0.1, 0.25, 0.5, 0.75, 0.9)]
    parts.append(f"order:  of the samples {', '.join(until)}")
    parts.append("      n  share   executed  instruction                                     top waits")
    order = sorted(range(len(lines)), key=lambda i: -lines[i].samples)[:most]
    parts += [line_text(i, lines[i], total) for i in order if lines[i].samples]
    return "\n".join(parts) + "\n"


# --- the parent


def chosen(folders: Sequence[Path], choices: Sequence[str]) -> list[tuple[str, Path]]:
    """(choice, folder) of every kernel that a choice means, in the order of the choices; of a kernel with several
    schedules the artifact that was timed with the most rows. Raises ValueError where one means none."""
    manifests = {folder: json.loads((folder / "manifest.json").read_text()) for folder in folders}
    found: list[tuple[str, Path]] = []
    for choice in choices:
        matching = [folder for folder, manifest in manifests.items() if means(choice, manifest, folder.name)]
        if not any(choice in folder.name for folder in matching):
            by_size = sorted(matching, key=lambda folder: most_rows(manifests[folder]))
            matching = sorted({manifests[folder]["name"]: folder for folder in by_size}.values())
        if not matching:
            raise ValueError(f"{choice}: no artifact is that")
        taken = [folder for _, folder in found]
        for folder in matching:
            if folder not in taken:
                found.append((choice if len(matching) == 1 else f"{choice} {folder.name[-8:]}", folder))
    return found


def most_rows(manifest: dict[str, Any]) -> int:
    return max((e["result"].get("rows", 0) for e in manifest["evidence"] if e["kind"] == "timing"), default=0)


def means(choice: str, manifest: dict[str, Any], name: str) -> bool:
    words = choice.split(":")
    if choice in name:
        return True
    if words[0] != manifest["form"]:
        return False
    if not any(re.fullmatch(r"kv\d+", w) for w in words) and manifest["kv_only"]:
        return False
    if "tree" not in words and manifest.get("tree"):
        return False
    recurrence = (manifest["recurrence"] or {}).get("name", "")
    facts = {manifest["state"], manifest["layout"], manifest["records_mode"], recurrence}
    facts |= {f"T{manifest['window']}", f"L{manifest['buffer']}", f"kv{manifest['kv_only']}"}
    facts |= {"tree"} if manifest.get("tree") else set()
    return all(word in facts or word in name for word in words[1:])


def find_ncu() -> str:
    found = shutil.which("ncu")
    places = [*Path("/opt/nvidia/nsight-compute").glob("*/ncu"), Path("/usr/local/cuda/bin/ncu")]
    return found or next((str(p) for p in sorted(places, reverse=True) if p.exists()), "ncu")


def ncu_command(ncu: str, kernel: str, count: int, report: Path, sampling: str, extra: bool) -> list[str]:
    command = [ncu, "--target-processes", "all", "--kernel-name", kernel, "--launch-skip", "0"]
    command += ["--launch-count", str(count), "--clock-control", "none", "--cache-control", "all"]
    command += ["--warp-sampling-interval", sampling, "--force-overwrite", "--export", str(report)]
    for section in SECTIONS:
        command += ["--section", section]
    return command + (["--metrics", EXTRA] if extra else [])


def run(command: list[str], seconds: float) -> tuple[int, str]:
    """Exit code (-9 where it ran out of ``seconds``, with all its processes ended) and what it printed."""
    try:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )
    except OSError as error:
        return 127, str(error)
    try:
        text = process.communicate(timeout=max(1.0, seconds))[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return -9, f"{process.communicate()[0]}\nno end after {seconds:.0f} s"
    return process.returncode, text


def profile(folders: Sequence[Path], args: argparse.Namespace, raw: Path, group: str, deadline: float) -> str:
    """Run ncu over the launches of some artifacts; its tables go to ``raw``. What went wrong, or nothing."""
    names = [json.loads((folder / "manifest.json").read_text())["launch"]["entry"] for folder in folders]
    report, count = raw / f"{group}.ncu-rep", len(folders) * len(args.batches) * args.launches
    tasks = [[str(folder), str(raw / f"{folder.name}.calls.json")] for folder in folders]
    child = [sys.executable, str(Path(__file__).resolve()), "--child", json.dumps(tasks), "--deadline", str(deadline)]
    child += ["--batches", ",".join(map(str, args.batches)), "--launches", str(args.launches)]
    seconds, said = args.kernel_seconds * len(folders), ""
    for extra in (True, False):  # a metric that this ncu does not know ends it
        kernels = f"regex:^({'|'.join(sorted(set(names)))})$"
        command = ncu_command(args.ncu, kernels, count, report, args.warp_sampling_interval, extra)
        code, text = run([*command, *child], seconds)
        said += f"$ {' '.join([*command, *child])}\n{text}\nexit code {code}\n"
        (raw / f"{group}.log").write_text(said)
        if report.exists():
            break
        if code == -9:
            return f"no report after {seconds:g} s"
    else:
        return "ncu left no report: " + " / ".join(text.strip().splitlines()[-3:])
    pages = {"raw": ["--print-units", "base"]} | ({"source": []} if args.source else {})
    for page, more in pages.items():
        code, text = run([args.ncu, "--import", str(report), "--page", page, "--csv", *more], seconds)
        (raw / f"{group}.{page}.csv").write_text(text)
        if code and page == "raw":
            return f"ncu --import ended with {code}: " + " / ".join(text.strip().splitlines()[-3:])
    return ""


def entries_of(tasks: Sequence[tuple[str, Path]], raw: Path, group: str) -> list[tuple[dict[str, Any], str]]:
    """Of each artifact of a group what is kept of the tables in ``raw``, and where its warps wait."""
    table, source = (raw / f"{group}.{page}.csv" for page in ("raw", "source"))
    launches = raw_launches(table.read_text()) if table.exists() else []
    tables = source_tables(source.read_text()) if source.exists() else []
    views = max(1, len(tables) // max(1, len(launches)))  # some versions print a launch's table more than once
    tables = tables[::views] if len(tables) == views * len(launches) else []
    found, begin = [], 0
    for choice, folder in tasks:
        log = raw / f"{folder.name}.calls.json"
        calls = json.loads(log.read_text()) if log.exists() else {"rows": [], "launches": 0}
        entry: dict[str, Any] = {"choice": choice, "folder": folder.name, "rows": [], "reason": ""}
        hot, end = "", begin + len(calls["rows"]) * calls["launches"]
        if end == begin or end > len(launches):
            entry["reason"] = (
                f"{len(calls['rows'])} batch sizes called, {len(launches) - begin} launches in ncu's table"
            )
            calls["rows"] = []
        for call in calls["rows"]:
            here = slice(begin, begin + calls["launches"])
            begin = here.stop
            entry["rows"].append({"batch": call["batch"], "needed_mb": call["bytes"] / 1e6} | summary(launches[here]))
            if tables:
                title = f"{choice} B={call['batch']} {folder.name}"
                lines = listing(tables[here])
                hot += hot_text(title, lines) + "\n"
                (raw / f"{folder.name}.B{call['batch']}.txt").write_text(hot_text(title, lines, 0) + every_line(lines))
        found.append((entry, hot))
    return found


def every_line(lines: list[Line]) -> str:
    total = sum(line.samples for line in lines) or 1.0
    return "".join(line_text(i, line, total) + "\n" for i, line in enumerate(lines))


COLUMNS: tuple[str, ...] = ("kernel", "B", "us", "DRAM", "read / write / needed MB", "L2 hit", "occupancy", "regs")
COLUMNS += ("smem KB", "IPC", "issue", "M instr", "excess", "warps that wait, per issue")


def cells(entry: dict[str, Any], row: dict[str, Any]) -> list[str]:
    def of(name: str, form: str = "{:.0f}", factor: float = 1) -> str:
        return form.format(row[name] * factor) if name in row else "?"

    moved = f"{of('dram_read_mb', '{:.1f}')} / {of('dram_write_mb', '{:.1f}')} / {of('needed_mb', '{:.1f}')}"
    excess = row.get("excessive_sectors", 0) / row["sectors"] if row.get("sectors") else None
    return [
        entry["choice"],
        str(row["batch"]),
        of("us", "{:.1f}"),
        of("dram_percent", "{:.0f} %"),
        moved,
        of("l2_hit_percent", "{:.0f} %"),
        f"{of('occupancy_percent')} of {of('most_occupancy_percent')} %",
        of("registers"),
        of("shared_bytes", "{:.1f}", 1 / 1024),
        of("ipc", "{:.2f}"),
        of("issue_percent", "{:.0f} %"),
        of("warp_instructions", "{:.2f}", 1e-6),
        "?" if excess is None else f"{100 * excess:.0f} %",
        ", ".join(f"{name} {x:.1f}" for name, x in list(row["stalls"].items())[:4] if name != "selected"),
    ]


def table(result: dict[str, Any], markdown: bool = False) -> str:
    """One line per kernel and batch size."""
    rows = [cells(entry, row) for entry in result["kernels"] for row in entry["rows"]]
    if markdown:
        lines = [list(COLUMNS), ["---"] * len(COLUMNS), *rows]
        text = "".join("| " + " | ".join(line) + " |\n" for line in lines)
    else:
        widths = [max(len(line[i]) for line in [list(COLUMNS), *rows]) for i in range(len(COLUMNS))]
        padded = ["  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) for line in [list(COLUMNS), *rows]]
        text = "".join(line.rstrip() + "\n" for line in padded)
    missing = [f"{e['choice']} ({e['folder']}): {e['reason']}\n" for e in result["kernels"] if e["reason"]]
    return text if markdown else text + "".join(missing)


def merged(results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One result of several: of each kernel's name what the last has."""
    return {"kernels": list({entry["choice"]: entry for result in results for entry in result["kernels"]}.values())}


def with_table(document: str, markdown: str) -> str:
    """``document`` with ``markdown`` for its table of counters, which its first cell tells. Raises ValueError where it
    has none."""
    found = re.search(
        rf"^\| {COLUMNS[0]} \| {COLUMNS[1]} \| {COLUMNS[2]} \| {COLUMNS[3]} .*\n(\|.*\n)+", document, re.M
    )
    if not found:
        raise ValueError("the document has no table of counters")
    return document[: found.start()] + markdown + document[found.end() :]


def finish(out: Path, result: dict[str, Any], hot: list[str]) -> None:
    (out / "counters.json").write_text(json.dumps(result, indent=1) + "\n")
    (out / "counters.txt").write_text(table(result))
    if any(hot):
        (out / "hot.txt").write_text("\n".join(hot).encode()[:HOT_BYTES].decode(errors="ignore"))


def pack(out: Path, raw: Path) -> None:
    with tarfile.open(out / "raw.tar.gz", "w:gz") as file:
        file.add(raw, "raw")


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("."))
    parser.add_argument("--artifacts", type=Path, default=h200.ROOT / "generated" / "sm_90a")
    parser.add_argument("--kernels", default=FIVE, help=f"separated by commas (default {FIVE})")
    parser.add_argument("--batches", type=numbers, default=(8, 128))
    parser.add_argument("--launches", type=int, default=2, help="profiled launches of a kernel per batch size")
    parser.add_argument("--source", action="store_true", help="also where warps wait, by instruction")
    parser.add_argument("--together", type=int, default=5, help="kernels in one run of ncu, which takes 9 s to start")
    parser.add_argument("--seconds", type=float, default=240, help="no kernel starts later than this")
    parser.add_argument("--kernel-seconds", type=float, default=60, help="ncu is ended after so long for each kernel")
    parser.add_argument("--warp-sampling-interval", default="1", help="of ncu: auto, or n for 2^(5+n) cycles")
    parser.add_argument("--ncu", default=find_ncu())
    parser.add_argument("--show", type=Path, nargs="+", help="print the table of counters.json files; later ones count")
    parser.add_argument("--into", type=Path, metavar="FILE.md", help="with --show: replace the table in a document")
    parser.add_argument("--reparse", type=Path, metavar="RAW", help="read the unpacked raw/ of a run again")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--deadline", type=float, default=float("inf"), help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.show:
        shown = merged([json.loads(path.read_text()) for path in args.show])
        print(table(shown), end="")
        if args.into:
            args.into.write_text(with_table(args.into.read_text(), table(shown, markdown=True)))
        return 0
    if args.child:
        named = [(Path(folder), Path(log)) for folder, log in json.loads(args.child)]
        launch(named, args.batches, args.launches, args.deadline)
        return 0
    begin = time.time()
    folders = sorted(path.parent.resolve() for path in args.artifacts.rglob("manifest.json"))
    try:
        tasks = chosen(folders, args.kernels.split(","))
    except ValueError as error:
        parser.error(f"--kernels {error} in {args.artifacts}")
    args.out.mkdir(parents=True, exist_ok=True)
    raw = args.reparse or args.out / "raw"
    raw.mkdir(exist_ok=True)
    result: dict[str, Any] = {"date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "kernels": []}
    groups = [tasks[i : i + args.together] for i in range(0, len(tasks), args.together)]
    if not args.reparse:
        result["ncu"] = " ".join(run([args.ncu, "--version"], 30)[1].split()[-4:])
    hot: list[str] = []
    for n, group in enumerate(groups):  # grows
        since, reason, name = time.time(), "", f"group{n}"
        if not args.reparse and since - begin > args.seconds:
            reason = "no time was left"
        elif not args.reparse:
            reason = profile([folder for _, folder in group], args, raw, name, begin + args.seconds)
        found = entries_of(group, raw, name)
        if len(group) > 1 and not reason and not args.reparse:
            groups += [[task] for task, (entry, _) in zip(group, found, strict=True) if entry["reason"]]
            found = [(entry, text) for entry, text in found if not entry["reason"]]
        for entry, text in found:
            manifest = json.loads((dict(tasks)[entry["choice"]] / "manifest.json").read_text())
            kept = {key: manifest[key] for key in ("form", "state", "window", "schedule")}
            result["kernels"].append(entry | kept | {"reason": reason or entry["reason"]})
            hot.append(text)
            print(f"{entry['choice']}: {result['kernels'][-1]['reason'] or 'profiled'}", flush=True)
        finish(args.out, result, hot)
        print(f"{name}: {time.time() - since:.1f} s", flush=True)
    if not args.reparse:
        pack(args.out, raw)
        shutil.rmtree(raw)
    print(table(result), end="")
    return 1 if any(entry["reason"] for entry in result["kernels"]) else 0


if __name__ == "__main__":
    sys.exit(main())
