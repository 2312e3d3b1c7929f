"""Our kernels beside other projects', measured in one run: cases, the table, its text and its figure.

A *run* is what ``benchmarks/peers.py`` measures, a JSON object:

    schema 1; device, driver, torch, date; read_bytes_per_s (plain read in the same run); checked (were ours, before);
              cases (names of those asked for; absent: all)
    ours      [{case, batch, form, buffer, kernel (a folder; None: nothing ships), us, fastest_us, slowest_us, bytes,
              floor_us, cursors_us, layers}]; where nothing was timed a reason in place of the times
    peers     [{name, B, state, T, us, us_min, us_max, layers, note}]: microseconds for one layer of one step
    failures  [{name, B, state, T, reason}]: peers that crashed, hung or ran out of time
    families  [{name, seconds, reason}]: the processes that peers ran in

A spread is (slowest - fastest) / median over the repeats of one process.
"""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kvbuffer_codegen.report.figures import MEASURED, MODEL, OURS, Curve, Figure, Panel, Section

SCHEMA = 1
#: Bytes that a step's layers, each with its own states, should have together (as far as 4 to 36 layers do): more than
#: any cache holds. The launches that serve all layers of a step are shared by so many.
FOOTPRINT, FEWEST_LAYERS, MOST_LAYERS = 512 * 2**20, 4, 36
#: Shown, not counted: all its rows fold in the same call, which no server's do.
ASIDE = ("ReplaySSM sync",)

#: What a run says of a peer that it had no time for.
OUT_OF_TIME = ("no time was left", "the family's time is over")

#: Names in peers' output (patterns; the first that fits counts) -> column.
RECURRENT = {
    "fla fused_recurrent": "FLA",
    "fla + gather/scatter": "FLA slots",
    "sglang packed decode": "SGLang",
    "sglang sigmoid-gating decode": "SGLang sigmoid",
    "vllm packed decode": "vLLM",
    "vllm sigmoid-gating decode": "vLLM sigmoid",
    "flashinfer decode": "FlashInfer",
}
DECODE = {**RECURRENT, "sglang ReplaySSM decode * sync": "ReplaySSM sync", "sglang ReplaySSM decode *": "ReplaySSM"}
VERIFY = {
    "sglang verify + snapshots": "SGLang",
    "sglang verify + raw-window fold": "raw fold",
    "sglang ReplaySSM circular *": "ReplaySSM",
    "vllm verify (slot a token)": "vLLM",
    "flashinfer MTP + snapshots": "FlashInfer",
    "flashinfer u-cache flush": "u-cache",
}
KDA = {
    "fla kda (slot pool)": "FLA slots",
    "sglang kda packed (triton)": "SGLang",
    "sglang ReplaySSM kda *": "ReplaySSM",
}
MAMBA2 = {"vllm selective_state_update": "vLLM", "vllm Mamba2 ReplaySSM *": "ReplaySSM"}


@dataclass(frozen=True)
class Case:
    """A row for each batch. ``form``: ours, or "token" for the one of decode and step that the dispatcher picks.
    ``model``: whose layer (``ir.models``). ``buffers``: ours that are timed, the fastest counts. ``peers``: patterns to
    columns, at states of ``peer_state``.
    """

    name: str
    form: str
    state: str
    peers: Mapping[str, str]
    peer_state: str
    model: str = "qwen3-next"
    buffers: tuple[int, ...] = (16,)
    window: int = 0
    records: str = "exact"


def _narrow(name: str, form: str, peers: Mapping[str, str], window: int = 0) -> list[Case]:
    """Narrow states beside the peers' bfloat16 ones; what a bf16 record is, is what those peers keep."""
    kinds = [("bf16", "bfloat16", "exact"), ("fp16", "float16", "exact"), ("int8", "int8", "exact")]
    kinds += [("bf16, bf16 records", "bfloat16", "bf16"), ("fp16, bf16 records", "float16", "bf16")]
    return [
        Case(f"{name} {short}", form, state, peers, "bf16", window=window, records=records)
        for short, state, records in kinds
    ]


CASES = (
    Case("decode fp32", "decode", "float32", DECODE, "fp32"),
    Case("step fp32", "step", "float32", RECURRENT, "fp32"),
    Case("dispatched fp32", "token", "float32", DECODE, "fp32"),
    *(
        Case(f"verify T={T} fp32", "verify", "float32", VERIFY, "fp32", buffers=(16, 32) if T == 8 else (16,), window=T)
        for T in (2, 4, 8)
    ),
    *_narrow("decode", "decode", DECODE),
    *_narrow("verify T=4", "verify", VERIFY, window=4),
    Case("KDA decode fp32", "decode", "float32", KDA, "fp32", model="kimi-linear-48b"),
    Case("Mamba-2 decode fp32", "decode", "float32", MAMBA2, "fp32", model="nemotron-3-nano-30b-a3b"),
)


def layers_of(batch: int, state_bytes: float) -> int:
    """Layers of a step that a launch for all of them is shared by; ``state_bytes``: of one row in one layer."""
    return max(FEWEST_LAYERS, min(MOST_LAYERS, math.ceil(FOOTPRINT / (batch * state_bytes))))


# --- the table


def table(run: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row for each case and batch that ours serve (:func:`unserved` says which they do not): ours, a cell for each
    peer, and ours over the best peer. Raises ``KeyError``, ``TypeError`` or ``ValueError`` where ``run`` is none."""
    if run["schema"] != SCHEMA:
        raise ValueError(f"schema {run['schema']}; accepted: {SCHEMA}")
    batches = sorted({int(o["batch"]) for o in run["ours"]} | {int(p["B"]) for p in run["peers"]})
    rows = [_row(case, batch, run) for case in CASES for batch in batches]
    return [row for row in rows if row["ours"]["served"]]


def unserved(run: Mapping[str, Any]) -> list[str]:
    """Cases for which no kernel of ours ships: they are not in the table, what peers took is in the run."""
    served = {o["case"] for o in run["ours"] if o["kernel"]}
    wanted = run.get("cases", [case.name for case in CASES])
    return [name for name in wanted if name not in served]


def _row(case: Case, batch: int, run: Mapping[str, Any]) -> dict[str, Any]:
    timed = [o for o in run["ours"] if (o["case"], o["batch"]) == (case.name, batch)]
    ours: dict[str, Any] = dict(min((o for o in timed if "us" in o), key=lambda o: o["us"], default={}))
    if ours:
        total = ours["us"] + ours["cursors_us"] / ours["layers"]
        ours |= {"kernel_us": ours["us"], "us": total, "share": ours["floor_us"] / total, "served": True}
        ours["spread"] = (ours["slowest_us"] - ours["fastest_us"]) / ours["kernel_us"]
    else:
        served = [o for o in timed if o["kernel"]]
        ours = {"reason": served[0]["reason"] if served else "not shipped", "served": bool(served)}
    cells = _cells(case, batch, run)
    row = {"case": case.name, "batch": batch, "peer_state": case.peer_state, "ours": ours, "peers": cells}
    counted = [c for c in cells if "us" in c and c["column"] not in ASIDE]
    if counted and "us" in ours:
        best = min(counted, key=lambda c: c["us"])
        row |= {"best": best["column"], "ratio": ours["us"] / best["us"], "noise": ours["spread"] + best["spread"]}
    return row


def _cells(case: Case, batch: int, run: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One cell for each column: its fastest peer, or why there is none."""
    cells: dict[str, dict[str, Any]] = {}
    for p in (*run["peers"], *run["failures"]):
        column = _column(case, batch, p)
        if column is None:
            continue
        cell = {"column": column, "name": p["name"]}
        if "us" in p:
            spread = (p["us_max"] - p["us_min"]) / p["us"]
            cell |= {"us": p["us"], "spread": spread, "layers": p["layers"], "note": p.get("note", "")}
        else:
            cell["reason"] = p["reason"]
        if cell.get("us", math.inf) < cells.get(column, {}).get("us", math.inf) or column not in cells:
            cells[column] = cell
    return list(cells.values())


def _column(case: Case, batch: int, peer: Mapping[str, Any]) -> str | None:
    if (peer["B"], peer["state"].strip(), peer["T"]) != (batch, case.peer_state, case.window or 1):
        return None
    return next((column for name, column in case.peers.items() if fnmatch.fnmatchcase(peer["name"], name)), None)


def columns_of(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Peers' columns that some row fills, in the order of the cases."""
    known = dict.fromkeys(c for peers in (DECODE, VERIFY, KDA, MAMBA2) for c in peers.values())
    there = {cell["column"] for row in rows for cell in row["peers"]}
    return [column for column in known if column in there]


# --- as text


def cells_of_table(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]], list[str]]:
    """(header, cells, footnotes) of the table, as text."""
    columns = columns_of(rows)
    header = ["case", "B", "ours us", "floor", "ours/best", "best", *columns]
    notes: dict[str, int] = {}

    def noted(word: str, reason: str) -> str:
        return f"{word} [{notes.setdefault(reason, len(notes) + 1)}]"

    lines = []
    for row in rows:
        ours, cells = row["ours"], {cell["column"]: cell for cell in row["peers"]}
        line = [row["case"], str(row["batch"])]
        if "us" in ours:
            line += [f"{ours['us']:.2f} ({ours['spread']:.1%})", f"{ours['share']:.0%}"]
        else:
            line += [noted("-", f"ours: {ours['reason']}"), "-"]
        ratio = f"{row['ratio']:.3f} ({row['noise']:.1%})" if "ratio" in row else "-"
        slower = " !" if row.get("ratio", 0) > 1 + row.get("noise", 0) else ""
        line += [ratio + slower, row.get("best", "-")]
        for column in columns:
            cell = cells.get(column)
            if cell is None:
                line.append("-")
            elif "us" in cell:
                line.append(f"{cell['us']:.2f} ({cell['spread']:.1%})")
            else:
                word = "no time" if cell["reason"] in OUT_OF_TIME else "crashed"
                line.append(noted(word, f"{cell['name']}: {cell['reason']}"))
        lines.append(line)
    return header, lines, [f"[{number}] {reason}" for reason, number in notes.items()]


EXPLAINED = """\
us: one layer of one step; launches that serve all layers of a step (cursors, commits) are shared out among them.
In brackets the spread, (slowest - fastest) / median over the repeats; of a ratio the sum of both.
floor: share of the byte floor, what ours must move at the plain read of this run.
ours/best: below 1 ours is faster than the best peer; !: slower, by more than the spread.
FLA has no slots: it reads a dense batch of states and writes another.
ReplaySSM sync folds all its rows in one call, and does not count as best.
Verify, commit included: SGLang and FlashInfer snapshot a state per draft, vLLM has a slot per draft.
Narrow states of ours stand beside the peers' bfloat16 ones.""".splitlines()


def text(run: Mapping[str, Any]) -> str:
    """The whole run as plain text."""
    header, cells, notes = cells_of_table(table(run))
    widths = [max(len(line[i]) for line in (header, *cells)) for i in range(len(header))]
    shown = ["  ".join(cell.rjust(w) for cell, w in zip(line, widths, strict=True)) for line in (header, *cells)]
    return "\n".join([*_facts(run), "", *shown, "", *EXPLAINED, *notes, *_ends(run)])


def _facts(run: Mapping[str, Any]) -> list[str]:
    read = run["read_bytes_per_s"]
    bandwidth = f"plain read {read / 1e9:,.0f} GB/s" if read else "plain read not measured"
    return [f"{run['device']}, driver {run['driver']}, torch {run['torch']}, {run['date']}; {bandwidth}"]


def _ends(run: Mapping[str, Any]) -> list[str]:
    """What was not measured or checked, and why."""
    ends = [] if run.get("checked", True) else ["Ours were not checked against the oracle in this run."]
    ends += [f"{family['name']}: {family['reason']}" for family in run["families"] if family["reason"]]
    missing = unserved(run)
    return ends + ([f"Nothing of ours ships for: {'; '.join(missing)}."] if missing else [])


# --- as pictures


def figures(run: Mapping[str, Any]) -> tuple[Figure, Figure]:
    """Against the batch, a panel for each case: latencies, and peers' over ours."""
    rows = [row for row in table(run) if "us" in row["ours"]]
    notes = [] if rows else ["Nothing of ours was timed in this run."]
    taken = [_panel(case.name, [row for row in rows if row["case"] == case.name], False) for case in CASES]
    over = [_panel(case.name, [row for row in rows if row["case"] == case.name], True) for case in CASES]
    texts = (
        ("Latency", "us, one layer of one step"),
        ("Times over ours: above 1 ours is faster", "time / time of ours"),
    )
    return (
        Figure("peers", *texts[0], tuple(p for p in taken if p.curves), tuple(notes), log=True),
        Figure("peers-over-ours", *texts[1], tuple(p for p in over if p.curves), log=True),
    )


def _panel(name: str, rows: Sequence[Mapping[str, Any]], relative: bool) -> Panel:
    unit = {row["batch"]: row["ours"]["us"] if relative else 1.0 for row in rows}

    def curve(label: str, kind: str, times: Iterable[tuple[int, float]], color: str) -> Curve:
        return Curve(label, kind, tuple((B, us / unit[B]) for B, us in times), color)

    if not rows:
        return Panel(name, "", ())
    curves = [
        curve(OURS, MEASURED, [(r["batch"], r["ours"]["us"]) for r in rows], OURS),
        curve("byte floor of ours", MODEL, [(r["batch"], r["ours"]["floor_us"]) for r in rows], OURS),
    ]
    for column in columns_of(rows):
        cells = [(r["batch"], c["us"]) for r in rows for c in r["peers"] if c["column"] == column and "us" in c]
        curves += [curve(column, MEASURED, cells, column)] if cells else []
    return Panel(name, "batch B (rows)", tuple(curves))


def section(run: Mapping[str, Any]) -> Section:
    """Of the report's page."""
    header, cells, notes = cells_of_table(table(run))
    facts = (*_facts(run), *EXPLAINED, *notes, *_ends(run))
    title = f"Beside other projects' kernels, in one run: {run['device']}, {run['date']}"
    return Section("peers", title, facts, figures(run), tuple(header), tuple(map(tuple, cells)))
