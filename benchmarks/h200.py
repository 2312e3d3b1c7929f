"""Checks and times every artifact of a folder on the GPU that is here. Needs torch and numpy; no compiler, no install.

    python benchmarks/h200.py --out DIR [--artifacts generated/sm_90a] [--seconds 340] [--jobs 8] [--checks-only]
        [--batches 1,8,32,128]

Child processes do the work, kernel by kernel; one that crashes or hangs costs its kernel only. All checks come before
the first timing; ``--jobs`` children share them (most of a check is the oracle, on the CPU), one takes the times.
Leaves DIR/results.json (README.md says what is in it); exit code 1 where a kernel failed.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BATCHES = (1, 8, 32, 128)
KEY_HEADS = 16  #: of a Qwen3-Next layer, and of a kernel that is no published model's (see key_heads)
CONTEXTS = (1, 8, 16, 24, 32, 40, 48, 56, 64)  #: tokens that kv_only rows are timed with
SILENCE_S = 100.0  #: a child that says nothing for so long hangs
FIRST = ("decode", "verify", "step", "flush", "advance", "commit")


def importable() -> None:
    """Make the checkout importable as the package it becomes when installed."""
    os.environ.setdefault("KVBUFFER_CODEGEN_CACHE", tempfile.mkdtemp())  # and no platformdirs to find one
    if importlib.util.find_spec("kvbuffer_codegen") and importlib.util.find_spec("kvbuffer_codegen.ir"):
        return
    for name in [m for m in sys.modules if m.startswith("kvbuffer_codegen")]:
        del sys.modules[name]
    package = Path(tempfile.mkdtemp()) / "kvbuffer_codegen"
    package.mkdir()
    for path in [*(ROOT / "kvbuffer_codegen").iterdir(), *(ROOT / name for name in ("ir", "schedules", "generated"))]:
        (package / path.name).symlink_to(path)
    sys.path.insert(0, str(package.parent))
    importlib.invalidate_caches()


# --- the child: one kernel after another


def work(tasks: list[tuple[str, Path]], device_name: str, log: Path, deadline: float, batches: Sequence[int]) -> None:
    """Do ``tasks`` (stage, artifact folder) and append an answer for each to ``log``. A device error ends it."""
    importable()
    import torch

    from kvbuffer_codegen.autotune.workload import read_bandwidth

    device = torch.device(device_name)
    read = 0.0
    for stage, folder in tasks:
        answer: dict[str, Any] = {"stage": stage, "folder": str(folder)}
        broken = False
        if stage == "time" and time.time() > deadline:
            answer["reason"] = "no time was left"
        else:
            try:
                if stage == "time":
                    read = read or read_bandwidth(device)
                    answer |= times(folder, device, read, batches)
                else:
                    answer |= check(folder, device)
                synchronize(device)
            except Exception as error:
                answer["reason"] = f"{type(error).__name__}: {error}"
                broken = not healthy(device)
        with log.open("a") as file:
            file.write(json.dumps(answer) + "\n")
        if broken:
            sys.exit("the device reported an error")


def synchronize(device: Any) -> None:
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize()


def healthy(device: Any) -> bool:
    import torch

    try:
        torch.ones(1, device=device).item()
    except RuntimeError:
        return False
    return True


def loaded(folder: Path, device: Any) -> tuple[Any, Any, Any]:
    """(kernel, its spec, its recurrence or None)."""
    from kvbuffer_codegen.checking import spec_of
    from kvbuffer_codegen.recurrences import of_normal_form
    from kvbuffer_codegen.runtime.loader import load_artifact

    kernel = load_artifact(folder, device)
    spec = spec_of(kernel.manifest)
    return kernel, spec, of_normal_form(spec.recurrence) if spec.recurrence else None


def check(folder: Path, device: Any) -> dict[str, Any]:
    """Against the oracle, twice with the same bits, in a graph, and in a batch of many blocks."""
    from kvbuffer_codegen.checking import check_kernel

    kernel, spec, recurrence = loaded(folder, device)
    result = check_kernel(kernel, spec, device, seeds=2)
    answer: dict[str, Any] = {"errors": result.errors, "reason": result.reason}
    if not result.ok:
        return answer
    parts = {"repeatable": repeatable, "large_batch": large_batch, "graph": replayed}  # in the order of their cases
    if not spec.tokens:
        del parts["large_batch"]
    for name, part in parts.items():
        if name != "graph" or device.type == "cuda":
            reason = part(kernel, spec, recurrence, device)
            answer[name] = reason or "ok"
            answer["reason"] = answer["reason"] or (f"{name}: {reason}" if reason else "")
    return answer


def example(spec: Any, recurrence: Any, seed: int) -> tuple[dict[str, Any], Callable[[dict[str, Any]], str]]:
    """Arguments of a call by name, on the CPU, and what says why the tensors that a call left are wrong."""
    import torch

    from kvbuffer_codegen.autotune.cases import cursor_case
    from kvbuffer_codegen.checking import case_of, judge

    if recurrence is None:
        given, wanted = cursor_case(spec, 3 * seed)  # every third has the same scalars, which a graph bakes in
        return given, lambda after: "" if torch.equal(after["cursors"], wanted) else "cursors break the rules"
    case = case_of(spec, recurrence, seed)
    return case.before, lambda after: judge(case, after).reason


def moved(given: dict[str, Any], device: Any) -> dict[str, Any]:
    """Copies of the tensors on ``device``."""
    return {name: x.to(device, copy=True) if hasattr(x, "to") else x for name, x in given.items()}


def repeatable(kernel: Any, spec: Any, recurrence: Any, device: Any) -> str:
    from kvbuffer_codegen.checking import arguments_of, same_bits

    given, _ = example(spec, recurrence, 1)
    first, second = moved(given, device), moved(given, device)
    for arguments in (first, second):
        kernel(*arguments_of(spec, arguments))
    tensors = [name for name, x in given.items() if hasattr(x, "to")]
    changed = [name for name in tensors if not same_bits(first[name].cpu(), second[name].cpu())]
    return f"{', '.join(changed)} differ between two calls" if changed else ""


def replayed(kernel: Any, spec: Any, recurrence: Any, device: Any) -> str:
    """Captured on a side stream with one batch, replayed with another of the same shape."""
    import torch

    from kvbuffer_codegen.checking import arguments_of

    given = moved(example(spec, recurrence, 1)[0], device)
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.graph(graph, stream=stream):
        kernel(*arguments_of(spec, given))
    others, verdict = example(spec, recurrence, 2)
    for name, x in others.items():
        if hasattr(x, "to"):
            given[name].copy_(x)
    graph.replay()
    return verdict(moved(given, "cpu"))


def large_batch(kernel: Any, spec: Any, recurrence: Any, device: Any) -> str:
    """The case's rows behind so much padding that B x HV passes 65,536: the same bits."""
    import torch

    from kvbuffer_codegen.checking import arguments_of, case_of, same_bits

    case = case_of(spec, recurrence, 1)
    small, large = case.tensors(device), case.tensors(device)
    B, HV = small["out"].shape[0], small["out"].shape[-2]
    padding = 65536 // HV + 1
    for a in recurrence.arguments:
        if not a.parameter:
            large[a.name] = torch.cat([large[a.name][:1].expand(padding, *large[a.name].shape[1:]), large[a.name]])
    for name in {"slots", "rings", "lengths", "parents"} & large.keys():
        none = torch.full((padding, *large[name].shape[1:]), -1, dtype=large[name].dtype, device=device)
        large[name] = torch.cat([none, large[name]])
    large["out"] = torch.full(
        (padding + B, *small["out"].shape[1:]), torch.nan, dtype=small["out"].dtype, device=device
    )
    for given in (small, large):
        kernel(*arguments_of(spec, given))
    if bool(large["out"][:padding].any()):
        return "padding rows are not zero"
    large["out"] = large["out"][padding:]
    names = ["out", "state", *(f.name for f in spec.record_layout.fields)]
    changed = [name for name in names if not same_bits(large[name].cpu(), small[name].cpu())]
    return f"{', '.join(changed)} differ from a small batch" if changed else ""


def times(folder: Path, device: Any, read: float, batches: Sequence[int] = BATCHES) -> dict[str, Any]:
    """Microseconds of a call per batch size, cold caches, whole buffer cycles with staggered folds; of a decode with
    kv_only capacity also per context."""
    from kvbuffer_codegen.autotune.workload import make_workload, timer

    kernel, spec, recurrence = loaded(folder, device)
    H, rows, contexts = key_heads(spec), [], []
    for batch in batches:
        workload = make_workload(spec, recurrence, batch, H, device)
        rows.append({"batch": batch} | measured(timer(kernel, workload, workload.phases, device), workload.bytes, read))
        if spec.form == "decode" and spec.kv_only:
            contexts += kv_only_times(kernel, spec, workload, H, device, read)
    answer = {"read_bytes_per_s": read, "key_heads": H, "host_us": host_time(kernel, workload, device), "times": rows}
    return answer | {"kv_only": contexts, "reason": ""}


def key_heads(spec: Any) -> int:
    """Of the first published model whose layers run this kernel on one GPU."""
    from kvbuffer_codegen.ir.models import MODELS

    name = spec.recurrence and spec.recurrence.name
    layers = [m for m in MODELS.values() if m.recurrence == name]
    fitting = [m.H for m in layers if (m.K, m.V, m.ratio) == (spec.K, spec.V, spec.ratio)]
    return fitting[0] if fitting else KEY_HEADS


def measured(clock: Any, moved: float, read: float) -> dict[str, Any]:
    """Nine passes of a timer; ``moved``: bytes that a call must move."""
    samples = [clock.once() for _ in range(9)]
    us, floor = statistics.median(samples), moved / read * 1e6
    return {
        "us": us,
        "fastest_us": min(samples),
        "slowest_us": max(samples),
        "samples_us": samples,
        "bytes": moved,
        "floor_us": floor,
        "share_of_floor": floor / us,
    }


def kv_only_times(kernel: Any, spec: Any, workload: Any, H: int, device: Any, read: float) -> list[dict[str, Any]]:
    """The same calls with every row kv_only, per tokens of its context, this call's among them. No kernel of a form
    changes cursors, so one graph serves every context."""
    from dataclasses import replace

    from kvbuffer_codegen.autotune.workload import timer
    from kvbuffer_codegen.ir import cost
    from kvbuffer_codegen.ir.signature import COUNT, KV_ONLY, signature

    calls = workload.calls[:1]
    cursors = calls[0][0][[a.name for a in signature(spec)].index("cursors")]
    cursors[KV_ONLY], cursors[COUNT] = 1, 0
    clock = timer(kernel, replace(workload, calls=calls), 1, device)
    HV, rows = H * spec.ratio, []
    for context in (n for n in CONTEXTS if n <= spec.kv_only):
        cursors[COUNT] = context - 1
        moved = cost.row_cost(spec, HV, context - 1, False).bytes - cost.state_bytes(spec, HV)
        rows.append({"batch": workload.rows, "context": context} | measured(clock, workload.rows * moved, read))
    return rows


def host_time(kernel: Any, workload: Any, device: Any) -> float:
    """Microseconds that the host spends in one eager call."""
    call = workload.calls[0][0]
    for _ in range(10):
        kernel(*call)
    synchronize(device)
    begin = time.perf_counter()
    for _ in range(100):
        kernel(*call)
    took = time.perf_counter() - begin
    synchronize(device)
    return took * 1e4


# --- the parent: starts children until every task has an answer


def supervise(
    tasks: list[tuple[str, Path]], device: str, log: Path, deadline: float, batches: Sequence[int] = BATCHES
) -> list[dict[str, Any]]:
    """Answers to all tasks, in their order; a task that ends or silences its child is answered for it."""
    log.write_text("")
    while rest := remaining(tasks, answers(log)):
        listed = json.dumps([[stage, str(folder)] for stage, folder in rest])
        command = [sys.executable, __file__, "--child", listed, "--device", device, "--log", str(log)]
        command += ["--deadline", str(deadline), "--batches", ",".join(map(str, batches))]
        child = subprocess.Popen(command)
        reason = watch(child, log)
        after = remaining(tasks, answers(log))
        if after and reason and len(after) == len(rest):
            stage, folder = after[0]
            with log.open("a") as file:
                file.write(json.dumps({"stage": stage, "folder": str(folder), "reason": reason}) + "\n")
    return answers(log)


def share(
    tasks: list[tuple[str, Path]],
    device: str,
    out: Path,
    deadline: float,
    jobs: int,
    batches: Sequence[int] = BATCHES,
) -> list[dict[str, Any]]:
    """:func:`supervise` with ``jobs`` children side by side, each with every ``jobs``-th task and a log of its own."""
    os.environ["OMP_NUM_THREADS"] = str(max(1, (os.cpu_count() or 1) // jobs))
    logs = [out / f"progress-{tasks[0][0]}-{i}.jsonl" for i in range(jobs)]
    with ThreadPoolExecutor(jobs) as pool:
        parts = pool.map(lambda i: supervise(tasks[i::jobs], device, logs[i], deadline, batches), range(jobs))
        return [answer for part in parts for answer in part]


def watch(child: subprocess.Popen[bytes], log: Path) -> str:
    """Wait for the child's end; kill it where it hangs. What went wrong, or nothing."""
    size, since = log.stat().st_size, time.monotonic()
    while child.poll() is None:
        time.sleep(0.05)
        if log.stat().st_size != size:
            size, since = log.stat().st_size, time.monotonic()
        elif time.monotonic() - since > SILENCE_S:
            child.kill()
            child.wait()
            return f"hung for {SILENCE_S:g} s"
    return f"the process ended with exit code {child.returncode}" if child.returncode else ""


def answers(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def remaining(tasks: list[tuple[str, Path]], answered: list[dict[str, Any]]) -> list[tuple[str, Path]]:
    done = {(a["stage"], a["folder"]) for a in answered}
    return [(stage, folder) for stage, folder in tasks if (stage, str(folder)) not in done]


def machine(device_name: str) -> dict[str, Any]:
    import torch

    from kvbuffer_codegen.runtime.loader import describe

    found = describe(torch.device(device_name))
    return {
        "device": found.name,
        "capability": found.capability,
        "driver": str(found.driver),
        "torch": torch.__version__,
    }


def report(folders: list[Path], answered: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One entry a kernel: what it is, the binary's digest, and the answers of both stages."""
    from kvbuffer_codegen.artifact import ArtifactError, read_artifact

    by_task = {
        (a["stage"], a["folder"]): {k: v for k, v in a.items() if k not in ("stage", "folder")} for a in answered
    }
    kernels = []
    for folder in folders:
        entry: dict[str, Any] = {"folder": folder.name}
        try:
            manifest = read_artifact(folder).manifest
            names = ("name", "form", "io", "state", "records_mode", "layout", "dims", "ratio", "buffer", "window")
            names += ("kv_only", "schedule", "resources")
            entry["recurrence"] = manifest["recurrence"] and manifest["recurrence"]["name"]
            digests = [sha for file, sha in manifest["files"].items() if file.endswith((".cubin", ".so"))]
            entry |= {name: manifest[name] for name in names} | {"binary_sha256": digests[0]}
        except ArtifactError as error:
            entry["artifact"] = str(error)
        stages = {stage: by_task.get((stage, str(folder)), {"reason": "not run"}) for stage in ("check", "time")}
        kernels.append(entry | stages)
    return kernels


def print_report(kernels: list[dict[str, Any]]) -> None:
    for k in kernels:
        label = f"{k.get('form', '?'):8s} {k.get('state', ''):9s} T={k.get('window', 0):<2d} {k['folder']}"
        errors = max(k["check"].get("errors", {}).values(), default=float("nan"))
        print(f"{label}: {k['check']['reason'] or f'ok {errors:.1e}'}")
        for t in k["time"].get("times", ()):
            print(
                f"    B={t['batch']:<4d} {t['us']:8.2f} us   floor {t['floor_us']:8.2f} us   {t['share_of_floor']:.0%}"
            )
        if k["time"]["reason"]:
            print(f"    not timed: {k['time']['reason']}")


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("."), help="folder for results.json")
    parser.add_argument("--artifacts", type=Path, default=ROOT / "generated" / "sm_90a", help="folder with artifacts")
    parser.add_argument("--seconds", type=float, default=340, help="no timing starts later than this")
    parser.add_argument("--jobs", type=int, default=1, help="processes that check side by side")
    parser.add_argument("--checks-only", action="store_true", help="no timings")
    parser.add_argument("--batches", type=numbers, default=BATCHES, help="batch sizes that are timed, as 1,8,32")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--log", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--deadline", type=float, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        tasks = [(stage, Path(folder)) for stage, folder in json.loads(args.child)]
        work(tasks, args.device, args.log, args.deadline, args.batches)
        return 0
    begin = time.time()
    importable()
    folders = sorted(path.parent.resolve() for path in args.artifacts.rglob("manifest.json"))
    if not folders:
        parser.error(f"--artifacts {args.artifacts}: no manifest.json below it; build them with kvbuffer-codegen build")
    forms = {folder: json.loads((folder / "manifest.json").read_text()).get("form", "") for folder in folders}
    folders.sort(key=lambda f: FIRST.index(forms[f]) if forms[f] in FIRST else len(FIRST))
    args.out.mkdir(parents=True, exist_ok=True)
    deadline = begin + args.seconds
    answered = share([("check", folder) for folder in folders], args.device, args.out, deadline, max(1, args.jobs))
    if not args.checks_only:
        answered += share([("time", folder) for folder in folders], args.device, args.out, deadline, 1, args.batches)
    kernels = report(folders, answered)
    date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    result = machine(args.device) | {"date": date, "seconds": round(time.time() - begin, 1), "kernels": kernels}
    (args.out / "results.json").write_text(json.dumps(result, indent=1) + "\n")
    print_report(kernels)
    failed = [k["folder"] for k in kernels if k["check"]["reason"]]
    print(
        f"{len(kernels) - len(failed)} of {len(kernels)} kernels are right on {result['device']}, {result['seconds']} s"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
