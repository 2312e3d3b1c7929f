"""What a call costs the host, and whether it allocates or waits: raw, and through the operator. Needs torch and numpy.

    python benchmarks/host.py [--artifacts generated/sm_90a] [--batch 8] [--device cuda] [--json FILE]

Every artifact of a folder is called in a loop, eagerly, its launches queued: microseconds of the host for one call,
fastest and median of the rounds. On a GPU also: blocks that the caching allocator handed out meanwhile, whether a call
waited (torch's sync debug mode, and a call behind a long kernel), and nodes of a captured call that are no kernel. Exit
code 1 where a call allocates or waits, a graph holds more than kernels, or a median is above its bar.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h200

BARS = {"raw": 8.0, "op": 12.0}  #: microseconds
ROUNDS, CALLS = 40, 50
LONG = 400_000_000  #: cycles: some 0.2 s


def measure(folder: Path, batch: int, device: Any) -> dict[str, Any]:
    """One row: what it is, and per way of calling it ``us``, ``fastest_us`` and on a GPU what else it did."""
    from kvbuffer_codegen.autotune.workload import make_workload
    from kvbuffer_codegen.runtime import ops

    kernel, spec, recurrence = h200.loaded(folder, device)
    call = make_workload(spec, recurrence, batch, h200.key_heads(spec), device).calls[0][0]
    name = ops.register(f"host:{folder.name}", kernel)
    grouped = arguments_of_operator(spec, call)
    operator = getattr(ops, "flush" if spec.form == "publish" else spec.form)
    ways = {"raw": lambda: kernel(*call), "op": lambda: operator(name, *grouped)}
    row: dict[str, Any] = {"form": spec.form, "state": spec.state, "window": spec.window, "folder": folder.name}
    row |= {"arguments": len(call), "launcher": type(kernel.launcher).__name__}
    for way, function in ways.items():
        row[way] = host_time(function, device)
        if device.type == "cuda":
            row[way] |= {"allocations": allocations(function), "waits": waits(function), "others": others(function)}
    return row


def arguments_of_operator(spec: Any, call: list[Any]) -> list[Any]:
    """A raw call's arguments as the operator of its form takes them, behind the name."""
    from kvbuffer_codegen.ir.signature import signature

    if spec.recurrence is None:
        return call
    named = dict(zip([a.name for a in signature(spec)], call, strict=True))
    records = [named.pop(f.name) for f in spec.record_layout.fields]
    if spec.form == "compact":
        return [records, *named.values()]
    fixed = [named.pop("state"), records, named.pop("cursors"), named.pop("slots"), named.pop("rings")]
    lengths = [named.pop("lengths")] if "lengths" in named else []
    behind = [named.pop(n) for n in ("out", "dst") if n in named]
    behind += [named.pop("parents")] if "parents" in named else []
    return [*fixed, *lengths, list(named.values()), *behind]


def host_time(function: Callable[[], None], device: Any) -> dict[str, float]:
    took = []
    for _ in range(ROUNDS):
        h200.synchronize(device)
        begin = time.perf_counter()
        for _ in range(CALLS):
            function()
        took.append((time.perf_counter() - begin) / CALLS * 1e6)
    h200.synchronize(device)
    return {"us": statistics.median(took), "fastest_us": min(took)}


def allocations(function: Callable[[], None]) -> int:
    """Blocks of the caching allocator that a hundred calls took."""
    import torch

    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    for _ in range(100):
        function()
    return int(torch.cuda.memory_stats()["allocation.all.allocated"] - before)


def waits(function: Callable[[], None]) -> str:
    """Why a call waits for the device, or nothing."""
    import torch

    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        torch.cuda._sleep(LONG)
        function()
        return "" if not torch.cuda.current_stream().query() else "it came back after what was queued before it"
    except RuntimeError as error:
        return str(error)
    finally:
        torch.cuda.set_sync_debug_mode("default")
        torch.cuda.synchronize()


def others(function: Callable[[], None]) -> int | str:
    """Nodes of a captured call that are no kernel; more kernels than one count, too."""
    import torch

    try:
        graph = torch.cuda.CUDAGraph(keep_graph=True)
    except TypeError:
        return "not seen: this torch keeps no graph"
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.graph(graph, stream=stream):
        function()
    driver, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_size_t()
    handle = ctypes.c_void_p(graph.raw_cuda_graph())
    driver.cuGraphGetNodes(handle, None, ctypes.byref(count))
    nodes = (ctypes.c_void_p * count.value)()
    driver.cuGraphGetNodes(handle, nodes, ctypes.byref(count))
    kinds = []
    for node in nodes:
        kind = ctypes.c_int(-1)
        driver.cuGraphNodeGetType(ctypes.c_void_p(node), ctypes.byref(kind))
        kinds.append(kind.value)
    return len(kinds) - min(1, kinds.count(0))  # CU_GRAPH_NODE_TYPE_KERNEL


def faults(row: dict[str, Any]) -> list[str]:
    """What of a row is against the rules."""
    found = []
    for way, bar in BARS.items():
        one = row[way]
        found += [f"{way} takes {one['us']:.1f} us; accepted: {bar:g}"] if one["us"] > bar else []
        found += [f"{way} allocates {one['allocations']} blocks"] if one.get("allocations") else []
        found += [f"{way} waits: {one['waits']}"] if one.get("waits") else []
        more = one.get("others", 0)
        found += [f"{way}: {more} nodes more than a kernel"] if isinstance(more, int) and more else []
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--artifacts", type=Path, default=h200.ROOT / "generated" / "sm_90a")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every row here")
    args = parser.parse_args()
    h200.importable()
    import torch

    rows = []
    for manifest in sorted(args.artifacts.rglob("manifest.json")):
        row = measure(manifest.parent, args.batch, torch.device(args.device))
        rows.append(row)
        times = ", ".join(f"{way} {row[way]['us']:5.2f} us (fastest {row[way]['fastest_us']:.2f})" for way in BARS)
        what = f"{row['form']:11s} {row['state']:9s} T={row['window']:<2d} {row['arguments']:2d} arguments"
        print(f"{what}: {times}; {'; '.join(faults(row)) or 'ok'}", flush=True)
    launcher = rows[0]["launcher"] if rows else "no artifact"
    print(f"{launcher}, batch {args.batch}, {h200.machine(args.device)['device']}")
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 1 if not rows or any(faults(row) for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
