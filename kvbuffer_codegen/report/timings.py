"""Timings out of tuning logs: for each kernel, size and device the one that counts, the latest run's winner."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvbuffer_codegen.autotune.jobs import OK
from kvbuffer_codegen.autotune.logs import Line, read_log, trial_text
from kvbuffer_codegen.ir.forms import FORMS, KernelSpec
from kvbuffer_codegen.ir.normal_form import NormalForm
from kvbuffer_codegen.ir.recurrences import RECURRENCES

#: Stage of a trial whose rows are all kv_only and hold ``context`` records; every other stage times buffer cycles.
KV_ONLY = "kv_only"


@dataclass(frozen=True)
class Layer:
    """What the kernels of one section share."""

    device: str
    recurrence: str
    recurrence_hash: str
    H: int
    ratio: int
    K: int
    V: int
    io: str
    layout: str

    @property
    def HV(self) -> int:
        return self.H * self.ratio

    @property
    def title(self) -> str:
        shape = f"{self.H} key and {self.HV} value heads, K = {self.K}, V = {self.V}"
        return f"{self.recurrence} on {self.device}: {shape}, {self.io} inputs, {self.layout} states"

    @property
    def normal_form(self) -> NormalForm | None:
        """Of the shipped recurrence, where it is still the one that was timed: what the cost model needs."""
        known = RECURRENCES.get(self.recurrence)
        return known.normal_form if known and known.normal_form.hash == self.recurrence_hash else None


@dataclass(frozen=True)
class Timing:
    """Microseconds of one call of ``rows`` batch rows: ``us`` the median of ``repeats``, between ``least`` and
    ``most``. ``bytes``: that the call must move (``ir/cost.py``). ``read``: bytes a second of a plain read in the same
    run, 0 where it was not measured. ``context``: records that every row, kv_only, holds; None: whole buffer cycles.
    """

    layer: Layer
    key: Mapping[str, Any]
    rows: int
    run: str
    us: float
    least: float
    most: float
    repeats: int
    bytes: float
    read: float
    context: int | None = None

    @property
    def form(self) -> str:
        return str(self.key["form"])

    @property
    def buffer(self) -> int:
        return int(self.key["buffer"])

    @property
    def window(self) -> int:
        return int(self.key["window"])

    @property
    def kv_only(self) -> int:
        return int(self.key["kv_only"])

    @property
    def share(self) -> float | None:
        """Of the byte floor: what a plain read of the same bytes takes, over what the call takes."""
        return self.bytes / self.read * 1e6 / self.us if self.read else None

    @property
    def numbers(self) -> str:
        """How state and records are held, in words that fit a legend."""
        parts = [
            str(self.key["state"]),
            *([f"{self.key['records']} records"] if self.key["records"] != "exact" else []),
        ]
        parts += ["stochastic"] if self.key.get("rounding", "nearest") != "nearest" else []
        return ", ".join(parts)

    def spec(self, **changes: Any) -> KernelSpec | None:
        """Of the kernel, with ``changes``; None where its recurrence is not known."""
        if self.layer.normal_form is None:
            return None
        values = {name: value for name, value in self.key.items() if not name.startswith("recurrence")}
        return KernelSpec(recurrence=self.layer.normal_form, **{**values, **changes})


def log_files(paths: Iterable[Path]) -> list[Path]:
    """The ``.jsonl`` files that ``paths`` are or hold. Raises ``ValueError`` for a path where there is none."""
    found: list[Path] = []
    for path in paths:
        files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path] if path.is_file() else []
        if not files:
            raise ValueError(f"LOG {path}: no log is there; accepted: .jsonl files that `tune` wrote, or their folder")
        found += files
    return list(dict.fromkeys(found))


def read_timings(files: Iterable[Path]) -> list[Timing]:
    """Raises ``autotune.logs.LogError`` where a file is no log."""
    return timings(line for file in files for line in read_log(file))


def timings(lines: Iterable[Line]) -> list[Timing]:
    """One timing for each device, key, size and context: of its last run the schedule that was chosen, or where the
    run came to no choice the fastest that was timed to the end."""
    grouped: dict[tuple[Any, ...], dict[str, list[Line]]] = {}
    reads: dict[tuple[str, str], float] = {}  # of a run, the fastest: a small one waits more than it reads
    for line in lines:
        if line["kind"] == "trial" and line.get("read"):
            run = line["device"], line["run"]
            reads[run] = max(reads.get(run, 0.0), statistics.median(line["read"]))
        if line["rows"] is None or (line["kind"] == "trial" and not _counts(line)):
            continue
        key = tuple(sorted(line["key"].items()))
        size = (line["device"], key, line["H"], line["rows"], line.get("context"))
        grouped.setdefault(size, {}).setdefault(line["run"], []).append(line)
    found = [_timing(lines_of[run], reads) for lines_of in grouped.values() for run in [_last_timed(lines_of)] if run]
    return sorted(found, key=lambda t: (t.layer.title, list(FORMS).index(t.form), str(t.key), t.rows, t.context or 0))


def _counts(trial: Line) -> bool:
    return trial["stage"] in ("final", KV_ONLY) and trial["status"] == OK and bool(trial["us"])


def _last_timed(runs: Mapping[str, Sequence[Line]]) -> str:
    return max((run for run, lines in runs.items() if any(x["kind"] == "trial" for x in lines)), default="")


def _timing(lines: Sequence[Line], reads: Mapping[tuple[str, str], float]) -> Timing:
    trials = [x for x in lines if x["kind"] == "trial"]
    last = max(t["attempt"] for t in trials)
    chosen = {trial_text(x) for x in lines if x["kind"] == "choice"}
    final = [t for t in trials if t["attempt"] == last]
    final = [t for t in final if trial_text(t) in chosen] or final
    best = min(final, key=lambda t: statistics.median(t["us"]))
    key, us = best["key"], best["us"]
    layer = Layer(
        best["device"],
        key["recurrence"],
        key["recurrence_hash"],
        best["H"],
        key["ratio"],
        key["K"],
        key["V"],
        key["io"],
        key["layout"],
    )
    read = reads.get((best["device"], best["run"]), 0.0) if best["read"] else 0.0
    context = best.get("context")
    return Timing(
        layer,
        key,
        best["rows"],
        best["run"],
        statistics.median(us),
        min(us),
        max(us),
        len(us),
        best["bytes"],
        read,
        context,
    )
