"""``tune --from-logs``: what ships, from tuning logs alone."""

from __future__ import annotations

import argparse
import os
from typing import Any

from kvbuffer_codegen.cli.common import (
    DONE,
    FAILED,
    CommandError,
    one_line,
    print_json,
    print_table,
    recurrence_of,
    target_of,
    warn,
)
from kvbuffer_codegen.cli.merge import log_files
from kvbuffer_codegen.cli.progress import progress
from kvbuffer_codegen.ir.recurrences import RECURRENCES

COLUMNS = ("form", "state", "buffer", "window", "kv_only", "device", "rows", "us", "measured", "artifact")


def run(args: argparse.Namespace) -> int:
    from kvbuffer_codegen.autotune.bundle import Bundle, BundleError
    from kvbuffer_codegen.autotune.derive import derive, winners
    from kvbuffer_codegen.autotune.farm import Farm
    from kvbuffer_codegen.autotune.logs import LogError, merge, read_log
    from kvbuffer_codegen.autotune.tune import scratch, writable
    from kvbuffer_codegen.autotune.worker import WorkerError
    from kvbuffer_codegen.caches import cache_folder
    from kvbuffer_codegen.compiler.toolchain import MissingCompiler, find_compiler

    recurrences = dict(RECURRENCES)
    if args.recurrence:
        mine = recurrence_of(args.recurrence)
        recurrences[mine.name] = mine
    target = target_of(args.target) if args.target else None
    try:
        lines = merge(read_log(file, whole=True) for file in log_files(args.from_logs))
        found, left_out = winners(lines, recurrences, target)
    except LogError as error:
        raise CommandError(one_line(error)) from None
    try:
        bundle = Bundle.read(args.bundle) if args.bundle else None
    except BundleError as error:
        raise CommandError(f"--bundle {one_line(error)}") from None
    if not found:
        why = "; ".join(f"{count} {reason}" for reason, count in left_out.items())
        raise CommandError(
            f"--from-logs: these logs choose no kernel that could be built ({why or 'no choices'})", FAILED
        )
    out = args.out or cache_folder("kernels")
    writable(out)
    workers = min(args.workers or len(os.sched_getaffinity(0)), len({w.name for w in found}))
    try:
        for needed in {w.target.name: w.target for w in found}.values():
            find_compiler(needed)
        with (
            scratch() as work,
            Farm(workers, environment={"TMPDIR": str(work)}) as f,
            progress(args.json) as report,
        ):
            made = derive(found, left_out, out, f, work / "kernels", report, bundle)
    except (MissingCompiler, WorkerError) as error:
        raise CommandError(one_line(error), FAILED) from None
    if args.json:
        print_json({"out": str(out), **vars(made)})
    else:
        print_table(made.kernels, COLUMNS)
        print(_summary(made))
    for failure in made.failures:
        warn(f"tune: {failure}")
    return FAILED if made.failures else DONE


def _summary(made: Any) -> str:
    artifacts = {row["artifact"] for row in made.kernels}
    measured = {row["artifact"] for row in made.kernels if row["measured"]}
    text = f"{len(made.kernels)} choices, {len(artifacts)} kernels; {len(measured)} are the binaries that were measured"
    return "; ".join([text, *(f"left out: {count} {reason}" for reason, count in made.left_out.items())])
