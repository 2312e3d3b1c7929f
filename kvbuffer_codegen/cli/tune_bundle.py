"""``tune --build-only`` and ``tune --measure``: the two halves of tuning, on two machines."""

from __future__ import annotations

import argparse
import math
import time
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvbuffer_codegen.cli.common import DONE, FAILED, CommandError, one_line, print_json, warn
from kvbuffer_codegen.cli.progress import progress
from kvbuffer_codegen.ir.forms import KernelSpec

if TYPE_CHECKING:
    from kvbuffer_codegen.autotune.requests import Request
    from kvbuffer_codegen.schedules.targets import Target


def build(args: argparse.Namespace, requests: Sequence[Request], target: Target) -> int:
    from kvbuffer_codegen.autotune.bundle import BundleBuilder
    from kvbuffer_codegen.autotune.devices import device_for, units_of
    from kvbuffer_codegen.autotune.farm import Farm
    from kvbuffer_codegen.autotune.tune import scratch
    from kvbuffer_codegen.autotune.worker import WorkerError
    from kvbuffer_codegen.compiler.toolchain import MissingCompiler, find_compiler

    if args.out is None:
        raise CommandError("--build-only writes a bundle; say where: --out DIR")
    units = units_of(target, device_for(target))
    builder = BundleBuilder(args.out, target, units)
    deadline = time.monotonic() + (args.budget or math.inf)
    try:
        find_compiler(target)
        with (
            scratch() as work,
            progress(args.json) as report,
            Farm(args.workers, environment={"TMPDIR": str(work)}) as f,
        ):
            entries = builder.run(requests, f, deadline, report)
    except (MissingCompiler, WorkerError) as error:
        raise CommandError(one_line(error), FAILED) from None
    statuses = Counter(answer["status"] for entry in entries for _, answer in entry["candidates"])
    failures = [_failure(r.spec, entry["candidates"]) for r, entry in zip(requests, entries, strict=True)]
    if args.json:
        print_json({"out": str(args.out), "target": target.name, "searches": len(requests), "statuses": dict(statuses)})
    else:
        counts = ", ".join(f"{count} {status}" for status, count in sorted(statuses.items()))
        print(f"{len(requests)} searches for {target.name} in {args.out}: {counts}")
        print(f"on the other machine: kvbuffer-codegen tune --measure {args.out.name}")
    for failure in filter(None, failures):
        warn(f"tune: {failure}")
    return FAILED if any(failures) else DONE


def _failure(spec: KernelSpec, built: Sequence[Sequence[dict[str, str]]]) -> str:
    """Why a search cannot end in a choice: the default schedule, the first, does not build."""
    _, answer = built[0]
    return "" if answer["status"] == "ok" else f"{spec.name}: the default schedule fails at build: {answer['reason']}"


def measure(args: argparse.Namespace) -> int:
    from kvbuffer_codegen.autotune.bundle import BundleError
    from kvbuffer_codegen.autotune.logs import LogError
    from kvbuffer_codegen.autotune.tune import measure as measured
    from kvbuffer_codegen.autotune.worker import WorkerError
    from kvbuffer_codegen.cli.tune import print_report

    with progress(args.json) as report:
        try:
            found = measured(
                args.measure,
                source=args.recurrence or "",
                budget_s=args.budget,
                out=args.out,
                logs=args.logs,
                fresh=args.fresh,
                progress=report,
            )
        except BundleError as error:
            raise CommandError(f"--measure {one_line(error)}") from None
        except (LogError, WorkerError) as error:
            raise CommandError(one_line(error), FAILED) from None
    return print_report(args, found)
