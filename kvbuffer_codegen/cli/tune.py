"""``tune``: the fastest kernels for this machine."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

from kvbuffer_codegen.cli.common import (
    DONE,
    FAILED,
    CommandError,
    add_kernel_arguments,
    numbers,
    one_line,
    positive,
    print_json,
    print_table,
    shape_of,
    specs_of,
    target_of,
    warn,
)
from kvbuffer_codegen.cli.progress import progress
from kvbuffer_codegen.ir.forms import BUILT, USUAL

HELP = "search for the fastest kernels on this machine; writes artifacts, choices and a log"
COLUMNS = (
    "form",
    "buffer",
    "window",
    "batch",
    "heads",
    "legal",
    "tried",
    "us",
    "default us",
    "best us",
    "median us",
    "GB/s",
    "of read",
    "schedule",
)
#: What --dry-run expects: seconds a build, seconds a check or a timing takes beside the passes it makes, share of the
#: plain read that an average candidate reaches.
BUILD_S, JOB_S, SHARE = {"cpu": 1.5, "cuda": 4.0}, 0.1, 0.4
GPU_READ = 3e12  #: bytes a second, where a GPU's plan is made on a machine without one


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_kernel_arguments(parser, BUILT, USUAL, several=True)
    parser.add_argument("--batch", type=numbers, default=(4,), help="batch sizes that are timed, as 1,4,16 (default 4)")
    parser.add_argument("--budget", type=seconds, help="stop in time: 90s, 20m, 2h (default: a minute a search)")
    parser.add_argument(
        "--candidates", type=positive, metavar="N", help="try at most N schedules a search (default: all)"
    )
    parser.add_argument("--workers", type=positive, metavar="N", help="processes that compile (default: one a core)")
    parser.add_argument("--out", type=Path, help="folder of artifacts and index (default: the user's cache)")
    parser.add_argument("--logs", type=Path, help="folder of tuning logs (default: the user's cache)")
    parser.add_argument("--fresh", action="store_true", help="measure again what the logs have")
    parser.add_argument(
        "--dry-run", action="store_true", help="only say what would be built and timed, and how long it takes"
    )


def seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if not found or not float(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time as 90s, 20m or 2h")
    return float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[found[2]]


def run(args: argparse.Namespace) -> int:
    shape = shape_of(args, args.recurrence)
    specs_of(shape, args.form, args.buffer, args.window, args.kv_only)
    target = target_of(args.target)
    if args.dry_run:
        return _dry_run(args, shape, target)
    from kvbuffer_codegen.autotune.logs import LogError
    from kvbuffer_codegen.autotune.tune import fastest_forms, tune
    from kvbuffer_codegen.autotune.worker import WorkerError
    from kvbuffer_codegen.compiler.toolchain import MissingCompiler

    with progress(args.json) as report:
        try:
            found = tune(
                shape.recurrence if shape.source == shape.recurrence.name else shape.source,
                heads=shape.shards,
                dims=(shape.K, shape.V),
                io=shape.io,
                state=shape.state,
                layout=shape.layout,
                records=shape.records,
                rounding=shape.rounding,
                buffers=args.buffer,
                windows=args.window,
                forms=args.form,
                kv_only=args.kv_only,
                batches=args.batch,
                target=target.name,
                budget_s=args.budget,
                candidate_limit=args.candidates,
                out=args.out,
                logs=args.logs,
                fresh=args.fresh,
                workers=args.workers,
                progress=report,
            )
        except (LogError, MissingCompiler, WorkerError) as error:
            raise CommandError(one_line(error), FAILED) from None
    if args.json:
        print_json({**found.to_dict(), "forms": fastest_forms(found)})
    else:
        print(f"{found.device}: a plain read moves {found.read / 1e9:.1f} GB/s; {found.seconds:.0f} s")
        print_table([_row(o) for o in found.outcomes], COLUMNS)
        for f in fastest_forms(found):
            times = f"step {f['step']:.0f} us, decode {f['decode']:.0f} us"
            print(f"batch {f['rows']}, L={f['buffer']}: {f['faster']} is faster ({times})")
    for failure in found.failures:
        warn(f"tune: {failure}")
    return FAILED if found.failures else DONE


def _row(o: dict[str, Any]) -> dict[str, Any]:
    schedule = ", ".join(f"{k} {v}" for k, v in o["schedule"].items() if k != "kind")
    return {
        **{name: o[name] for name in ("form", "buffer", "window", "legal", "us")},
        "tried": o["candidates"],
        "batch": o["rows"],
        "heads": "/".join(map(str, o["heads"])),
        "default us": o["default_us"],
        "best us": o["best_us"],
        "median us": o["median_us"],
        "GB/s": o["gb_per_s"],
        "of read": f"{o['roofline']:.0%}",
        "schedule": f"{schedule}{' (default)' if o['default'] else ''}",
    }


def _dry_run(args: argparse.Namespace, shape: Any, target: Any) -> int:
    import torch

    from kvbuffer_codegen.autotune.tune import plan, points_of
    from kvbuffer_codegen.autotune.workload import read_bandwidth, units

    here = target.kind == "cpu" or torch.cuda.is_available()
    device = torch.device(target.kind if here else "cpu")
    specs = specs_of(shape, args.form, args.buffer, args.window, args.kv_only)
    made = plan(specs, points_of(shape.shards, args.batch), target, device, args.candidates)
    building = made.binaries * BUILD_S[target.kind] / (args.workers or units(torch.device("cpu")))
    read = read_bandwidth(device) if here else GPU_READ
    on_device = (made.binaries + made.timings) * JOB_S + made.bytes / (SHARE * read)
    found = {
        "target": target.name,
        "searches": len(specs),
        "sizes": len(made.points),
        "binaries": made.binaries,
        "timings": made.timings,
        "building_s": round(building),
        "device_s": round(on_device),
    }
    if args.json:
        print_json(found)
    else:
        print(f"{len(specs)} searches at {len(made.points)} sizes for {target.name}:")
        print(f"{made.binaries} binaries, {made.timings} timings;")
        print(f"about {building:.0f} s of building and {on_device:.0f} s on the device")
    return DONE
