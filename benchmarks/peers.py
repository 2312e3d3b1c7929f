"""Our shipped kernels beside other projects' (FLA, SGLang, vLLM, FlashInfer), in one run on one GPU: one table.

    python benchmarks/peers.py --peers DIR [--flashinfer DIR] --out results [--batches 1,8,32,128] [--dry-run]
        [--cases 'decode*,verify T=4*'] [--families 'FlashInfer*']
    python benchmarks/peers.py --show results/peers.json --out results      # the table and the picture again

``--peers``: a folder with bench_peers.py and the kernels it times, ``--flashinfer``: one with bench_flashinfer.py, its
unpack.py and its libraries; neither is part of this repository (README.md says what they must offer). Ours are the
kernels that the dispatcher chooses, checked before they are timed (h200.py). Peers run family by family in processes of
their own; one that crashes or hangs costs itself only, and its cell says so. Leaves peers.json, peers.txt and, where
matplotlib is installed, peers.png and peers-over-ours.png. Exit code 1 where a kernel of ours failed its check.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import fnmatch
import json
import math
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h200

SILENCE_S = 150.0  #: a peer that takes so long hangs; the first of a family compiles
CHILD = Path(__file__).resolve().parent / "peer_child.py"


@dataclass(frozen=True)
class Family:
    """Peers that share processes."""

    name: str
    command: list[str]
    environment: Mapping[str, str] = field(default_factory=dict)


# --- ours


@dataclass(frozen=True)
class Asked:
    """One kernel of a case at one batch: its artifact's folder, or why there is none."""

    case: Any
    batch: int
    form: str
    buffer: int
    folder: Path | None
    reason: str = ""


def asked(
    cases: Sequence[Any], batches: Sequence[int], find: Callable[..., Path], pick: Callable[..., str]
) -> list[Asked]:
    """What serves each case: ``find(form=, batch=, ...)`` gives a folder or raises LookupError, ``pick`` says whether
    "decode" or "step" serves a token."""
    from kvbuffer_codegen.ir.models import MODELS

    found = []
    for case in cases:
        model = MODELS[case.model]
        size = {"recurrence": model.recurrence, "heads": (model.H, model.HV), "dims": (model.K, model.V)}
        size |= {"io": model.io, "state": case.state, "records": case.records}
        for batch in batches:
            for buffer in case.buffers:
                key = {**size, "buffer": buffer, "window": case.window}
                form = case.form
                try:
                    form = pick(batch=batch, **key) if form == "token" else form
                    found.append(Asked(case, batch, form, buffer, find(form=form, batch=batch, **key)))
                except LookupError as error:
                    found.append(Asked(case, batch, form, buffer, None, f"not shipped: {str(error).splitlines()[0]}"))
    return found


def shipped(device: str, strict: bool) -> tuple[Callable[..., Path], Callable[..., str]]:
    """``find`` and ``pick`` of the dispatcher. ``strict``: only what ships."""
    import torch

    from kvbuffer_codegen.runtime import dispatcher
    from kvbuffer_codegen.runtime.arguments import kernel_spec

    def find(**call: Any) -> Path:
        return dispatcher.find(device=device, strict=strict, **call).folder

    def pick(batch: int, **key: Any) -> str:
        decode, step = (kernel_spec(form=form, **key) for form in ("decode", "step"))
        return dispatcher.token_form(decode, step, torch.device(device), batch, key["heads"])

    return find, pick


def indexed(folder: Path) -> tuple[Callable[..., Path], Callable[..., str]]:
    """The same for a plan on a machine without the GPU: some artifact of the key, whatever the batch."""
    from kvbuffer_codegen.index import read_index
    from kvbuffer_codegen.runtime.arguments import kernel_spec

    choices = [({k: v for k, v in c.key.items() if k != "space"}, c.artifact) for c in read_index(folder).choices]

    def find(batch: int, **key: Any) -> Path:
        spec = kernel_spec(**key)
        served = [folder / artifact for found, artifact in choices if found == spec.key()]
        if not served:
            raise LookupError(f"{spec.name} is not in {folder}")
        return served[0]

    return find, lambda batch, **key: "decode"


def ours(wanted: Sequence[Asked], kernels: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Entries of a run (``kvbuffer_codegen.report.peers``) out of h200.py's results of the folders that serve."""
    from kvbuffer_codegen.ir.forms import STATES
    from kvbuffer_codegen.ir.models import MODELS
    from kvbuffer_codegen.report.peers import layers_of

    results = {k["folder"]: k for k in kernels}
    cursors = {form: _timed(k) for k in kernels if (form := k.get("form")) in ("advance", "commit")}
    entries = []
    for a in wanted:
        entry: dict[str, Any] = {"case": a.case.name, "batch": a.batch, "form": a.form, "buffer": a.buffer}
        entry["kernel"] = a.folder and a.folder.name
        kernel = results.get(a.folder.name) if a.folder else None
        time_of = _timed(kernel).get(a.batch) if kernel else None
        cursor = cursors.get("commit" if a.form == "verify" else "advance", {}).get(a.batch)
        if kernel is None or time_of is None or cursor is None:
            entries.append(entry | {"reason": a.reason or _reason(kernel, cursor)})
            continue
        model = MODELS[a.case.model]
        state = model.HV * model.K * model.V * STATES[a.case.state]
        names = ("us", "fastest_us", "slowest_us", "bytes", "floor_us")
        entry |= {name: time_of[name] for name in names}
        entries.append(entry | {"cursors_us": cursor["us"], "layers": layers_of(a.batch, state)})
    return entries


def _timed(kernel: Mapping[str, Any]) -> dict[int, Any]:
    """Times by batch; none of a kernel that is wrong."""
    return {} if kernel["check"]["reason"] else {t["batch"]: t for t in kernel["time"].get("times", ())}


def _reason(kernel: Mapping[str, Any] | None, cursor: Any) -> str:
    if kernel is None:
        return "not run"
    why = kernel["check"]["reason"] or kernel["time"]["reason"]
    return why or ("the cursor kernel was not timed" if cursor is None else "not timed at this batch")


def measure_ours(wanted: Sequence[Asked], cursor_folders: Sequence[Path], args: argparse.Namespace) -> dict[str, Any]:
    """Check, then time: h200.py's results of every folder that serves."""
    folders = list(dict.fromkeys([*(a.folder for a in wanted if a.folder), *cursor_folders]))
    deadline = time.time() + args.seconds
    tasks = [[(stage, folder) for folder in folders] for stage in ("check", "time")]
    answered = [{"stage": "check", "folder": str(folder), "reason": ""} for folder in folders]
    if folders and not args.unchecked:
        answered = h200.share(tasks[0], args.device, args.out, deadline, args.jobs, args.batches)
    answered += h200.share(tasks[1], args.device, args.out, deadline, 1, args.batches) if folders else []
    kernels = h200.report(folders, answered)
    reads = [k["time"]["read_bytes_per_s"] for k in kernels if "read_bytes_per_s" in k["time"]]
    return {"ours": ours(wanted, kernels), "kernels": kernels, "read_bytes_per_s": reads[0] if reads else 0.0}


# --- peers


def families(args: argparse.Namespace) -> list[Family]:
    """The processes that peers run in: what the cases ask for, what matters most first, as far as ``--families`` names
    them. The word LOG stands for a file (:func:`supervise`)."""
    common = ["--batches", ",".join(map(str, args.batches)), "--budget-s", str(args.family_seconds)]
    found = []
    if args.peers:
        command = [args.peers_python, str(CHILD), str(args.peers / "bench_peers.py"), "LOG", *common]
        for what, state, drafts in (
            ("decode", "fp32", "4"),
            ("replay", "fp32", "4"),
            ("verify", "fp32", "4,8,2"),
            ("kda", "fp32", "4"),
            ("mamba2", "fp32", "4"),
            ("decode", "bf16", "4"),
            ("verify", "bf16", "4"),
            ("replay", "bf16", "4"),
        ):
            flags = ["--what", what, "--state", state, "--draft", drafts]
            found.append(Family(f"Triton {what} {state}", [*command, *flags]))
    if args.flashinfer:
        places = [
            args.libraries,
            args.libraries / "nvidia_cutlass_dsl" / "dsl_packages",
            args.flashinfer / "fi",
            args.peers,
        ]
        environment = {"PYTHONPATH": os.pathsep.join(map(str, places)), "PEERS": str(args.peers)}
        command = [args.flashinfer_python, str(CHILD), str(args.flashinfer / "bench_flashinfer.py"), "LOG", *common]
        cases = (("decode", "bf16", "4"), ("verify", "bf16", "4"), ("decode", "fp32", "4"), ("verify", "fp32", "4,8,2"))
        for what, state, drafts in cases:
            flags = ["--what", what, "--state", state, "--draft", drafts]
            found.append(Family(f"FlashInfer {what} {state}", [*command, *flags], environment))
    return [family for family in found if named(family.name, args.families)]


def named(name: str, patterns: str) -> bool:
    """Whether one of the patterns, separated by commas, fits."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns.split(","))


def measure_peers(
    found: Sequence[Family],
    out: Path,
    seconds: float,
    silence: float = SILENCE_S,
    deadline: float = math.inf,
    keep: Callable[[Mapping[str, Any]], None] = lambda run: None,
) -> dict[str, Any]:
    """Every family's rows and failures; what goes wrong in one stays there. ``seconds``: for each; ``deadline``
    (``time.monotonic``): for all. ``keep`` is called with what there is before the first and after each."""
    run: dict[str, Any] = {"peers": [], "failures": [], "families": []}
    keep(run)  # ours are there
    for family in found:
        begin = time.monotonic()
        log = out / f"progress-{re.sub('[^a-z0-9]+', '-', family.name.lower())}.jsonl"
        reason = "no time was left"
        if begin < deadline:
            reason = supervise(family, log, min(begin + seconds, deadline), silence)
            rows, failures = read_progress(h200.answers(log))
            run["peers"] += rows
            run["failures"] += failures
        run["families"].append({"name": family.name, "seconds": round(time.monotonic() - begin, 1), "reason": reason})
        keep(run)
    return run


def supervise(family: Family, log: Path, deadline: float, silence: float) -> str:
    """Start processes until one ends by itself with nothing left; returns why the family ended early, or nothing."""
    log.write_text("")
    command = [str(log) if word == "LOG" else word for word in family.command]
    environment = {**os.environ, **family.environment}
    while True:
        begun = len(h200.answers(log))
        with tempfile.TemporaryFile("w+") as errors:
            child = subprocess.Popen(command, env=environment, stderr=errors)
            reason = watch(child, log, deadline, silence)
            errors.seek(0)
            said = (errors.read().strip().splitlines() or [""])[-1]
        if not reason:
            return ""
        reason = f"{reason}{f': {said}' if said else ''}"
        lines = h200.answers(log)
        if lines and "begin" in lines[-1]:  # it is what the process died of
            with log.open("a") as file:
                file.write(json.dumps({"failed": {**lines[-1]["begin"], "reason": reason}}) + "\n")
        if time.monotonic() >= deadline or len(lines) == begun:
            return reason


def watch(child: subprocess.Popen[bytes], log: Path, deadline: float, silence: float) -> str:
    """Wait for the child's end; kill it where it hangs, or its family's time is over. What went wrong, or nothing."""
    size, since = log.stat().st_size, time.monotonic()
    while child.poll() is None:
        time.sleep(0.05)
        now = time.monotonic()
        if log.stat().st_size != size:
            size, since = log.stat().st_size, now
        elif now - since > silence or now > deadline:
            child.kill()
            child.wait()
            return "the family's time is over" if now > deadline else f"hung for {silence:g} s"
    return f"the process ended with exit code {child.returncode}" if child.returncode else ""


def read_progress(lines: Sequence[Mapping[str, Any]]) -> tuple[list[Any], list[Any]]:
    """(rows, failures) of a family's log."""
    return [x["row"] for x in lines if "row" in x], [x["failed"] for x in lines if "failed" in x]


# --- the command


def show(run: Mapping[str, Any], out: Path) -> None:
    """Print the table; write it and its picture to ``out``."""
    from kvbuffer_codegen.report import peers, plots

    text = peers.text(run)
    print(text)
    (out / "peers.txt").write_text(text + "\n")
    try:
        for figure in peers.figures(run):
            if not figure.empty:
                (out / f"{figure.name}.png").write_bytes(plots.png(figure, f"{run['device']}, {run['date']}"))
    except plots.MatplotlibError as error:
        print(f"no pictures: {error}; then --show {out / 'peers.json'} draws them")


def plan(wanted: Sequence[Asked], found: Sequence[Family]) -> None:
    """Print what would run."""
    for a in wanted:
        print(f"ours  {a.case.name}, B = {a.batch}: {a.form} L={a.buffer} {a.folder.name if a.folder else a.reason}")
    for family in found:
        variables = [f"{name}={value}" for name, value in family.environment.items()]
        print(f"peers {family.name}: {shlex.join([*variables, *family.command])}")
    if not found:
        print("peers none: give --peers DIR, --flashinfer DIR")


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path, metavar="DIR", help="folder with bench_peers.py")
    parser.add_argument("--flashinfer", type=Path, metavar="DIR", help="folder with bench_flashinfer.py and unpack.py")
    parser.add_argument("--peers-python", default=sys.executable, help="interpreter of the peers' libraries")
    parser.add_argument("--flashinfer-python", default=sys.executable, help="interpreter of FlashInfer's libraries")
    parser.add_argument("--out", type=Path, default=Path("."), help="folder of what it leaves")
    parser.add_argument("--artifacts", type=Path, help="folder with index.json (default: what ships)")
    parser.add_argument("--batches", type=h200.numbers, default=h200.BATCHES, help="batch sizes, as 1,8,32,128")
    parser.add_argument("--cases", default="*", metavar="PATTERNS", help="which rows, as 'decode*,verify T=4*'")
    parser.add_argument("--families", default="*", metavar="PATTERNS", help="which peers, as 'FlashInfer*,* kda *'")
    parser.add_argument("--seconds", type=float, default=400, help="no timing of ours starts later than this")
    parser.add_argument("--family-seconds", type=float, default=240, help="time of each family of peers")
    parser.add_argument("--silence", type=float, default=SILENCE_S, help="seconds after which a silent peer hangs")
    parser.add_argument("--budget", type=float, default=3600, help="seconds of all; families without time are left out")
    parser.add_argument("--unchecked", action="store_true", help="time ours without the check; the table says so")
    parser.add_argument("--jobs", type=int, default=8, help="processes that check ours side by side")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dry-run", action="store_true", help="only say what would run")
    parser.add_argument("--show", type=Path, metavar="FILE", help="measure nothing: the table of an earlier peers.json")
    return parser


def main() -> int:
    parser = arguments()
    args = parser.parse_args()
    for name in ("peers", "flashinfer"):
        folder = getattr(args, name)
        if folder and not (folder / f"bench_{name}.py").is_file():
            parser.error(f"--{name} {folder}: no bench_{name}.py is there")
        setattr(args, name, folder and folder.resolve())
    if args.flashinfer and not args.peers:
        parser.error("--flashinfer needs --peers DIR: the cases are bench_peers.py's")
    h200.importable()
    args.out = args.out.resolve()
    args.libraries = Path(tempfile.gettempdir()) / f"flashinfer-libraries-{os.getpid()}"
    args.out.mkdir(parents=True, exist_ok=True)
    if args.show:
        show(json.loads(args.show.read_text()), args.out)
        return 0
    from kvbuffer_codegen.report.peers import CASES, SCHEMA

    if args.artifacts:
        os.environ["KVBUFFER_CODEGEN_PATH"] = str(args.artifacts.resolve())
    found, cases = families(args), [case for case in CASES if named(case.name, args.cases)]
    if args.dry_run:
        plan(asked(cases, args.batches, *indexed(args.artifacts or h200.ROOT / "generated")), found)
        return 0
    find, pick = shipped(args.device, strict=not args.artifacts)
    wanted = asked(cases, args.batches, find, pick)
    begin, date = time.time(), datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    cursor_folders = []
    for form in ("advance", "commit"):
        with contextlib.suppress(LookupError):  # then the kernels that need it say so
            cursor_folders.append(find(form=form, batch=1))
    run = {"schema": SCHEMA, **h200.machine(args.device), "date": date, "checked": not args.unchecked}
    run["cases"] = [case.name for case in cases]
    run |= measure_ours(wanted, cursor_folders, args)

    def keep(measured: Mapping[str, Any]) -> None:
        kept = {**run, **measured, "seconds": round(time.time() - begin, 1)}
        (args.out / "peers.json").write_text(json.dumps(kept, indent=1) + "\n")

    if args.flashinfer:
        unpack = [args.flashinfer_python, str(args.flashinfer / "unpack.py"), str(args.libraries)]
        subprocess.run(unpack, check=False)  # without them the family says what is missing
    deadline = time.monotonic() + args.budget - (time.time() - begin)
    run |= measure_peers(found, args.out, args.family_seconds, args.silence, deadline, keep)
    keep(run)
    show(run, args.out)
    return 1 if any(k["check"]["reason"] for k in run["kernels"]) else 0


if __name__ == "__main__":
    sys.exit(main())
