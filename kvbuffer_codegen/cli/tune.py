"""``tune``: the fastest kernels for this machine."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvbuffer_codegen.cli import tune_bundle, tune_logs, tune_plan, tune_requests
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
    target_of,
    warn,
)
from kvbuffer_codegen.cli.progress import progress
from kvbuffer_codegen.ir.forms import BUILT, USUAL

if TYPE_CHECKING:
    from kvbuffer_codegen.autotune.requests import Request
    from kvbuffer_codegen.autotune.tune import Report

HELP = "search for the fastest kernels on this machine; writes artifacts, choices and a log"
COLUMNS = (
    "recurrence",
    "form",
    "state",
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


def add_search_arguments(parser: argparse.ArgumentParser) -> None:
    """What is searched for, which a table of a plan file may hold too."""
    add_kernel_arguments(parser, BUILT, USUAL, several=True)
    parser.add_argument(
        "--batch", type=numbers, help="batch sizes that are timed, as 1,4,16 (default: 4 on a CPU, 1,8,32,128 on a GPU)"
    )
    parser.add_argument(
        "--candidates", type=positive, metavar="N", help="try at most N schedules a search (default: all)"
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_search_arguments(parser)
    parser.add_argument("--plan", type=Path, metavar="FILE.toml", help="many searches: every table [[tune]] of a file")
    parser.add_argument("--budget", type=seconds, help="stop in time: 90s, 20m, 2h (default: a minute a search)")
    parser.add_argument("--workers", type=positive, metavar="N", help="processes that compile (default: one a core)")
    parser.add_argument("--out", type=Path, help="folder of artifacts and index (default: the user's cache)")
    parser.add_argument("--logs", type=Path, help="folder of tuning logs (default: the user's cache)")
    parser.add_argument("--fresh", action="store_true", help="measure again what the logs have")
    parser.add_argument("--executor", choices=("local", "ray"), default="local", help="who works (default: local)")
    parser.add_argument("--address", help="of a Ray cluster, with --executor ray (default: one on this machine)")
    add_modes(parser)


def add_modes(parser: argparse.ArgumentParser) -> None:
    modes = parser.add_argument_group("instead of tuning here and now").add_mutually_exclusive_group()
    modes.add_argument(
        "--dry-run", action="store_true", help="only say what would be built and timed, and how long it takes"
    )
    modes.add_argument(
        "--build-only", action="store_true", help="write candidates into --out, a bundle that another machine measures"
    )
    modes.add_argument("--measure", type=Path, metavar="DIR", help="check and time a bundle here; needs no compiler")
    modes.add_argument(
        "--from-logs", type=Path, metavar="LOG", nargs="+", help="build what tuning logs choose; needs no GPU"
    )
    parser.add_argument(
        "--bundle", type=Path, metavar="DIR", help="with --from-logs: take kernels from the bundle that was measured"
    )
    parser.set_defaults(defaults={action.dest: action.default for action in parser._actions})


#: Arguments that a mode takes beside its own, its others being said by the bundle or the logs.
TAKES = {
    "measure": ("recurrence", "budget", "out", "logs", "fresh"),
    "from_logs": ("recurrence", "target", "workers", "out", "bundle"),
}
#: Beside a plan, which says what is searched for; candidates: the most of any table.
BESIDE_PLAN: tuple[str, ...] = (
    "target",
    "candidates",
    "budget",
    "workers",
    "out",
    "logs",
    "fresh",
    "executor",
    "address",
)
BESIDE_PLAN += ("dry_run", "build_only")


def seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if not found or not float(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time as 90s, 20m or 2h")
    return float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[found[2]]


def run(args: argparse.Namespace) -> int:
    for mode, takes in TAKES.items():
        if getattr(args, mode):
            refuse_others(args, mode, takes)
            return tune_logs.run(args) if mode == "from_logs" else tune_bundle.measure(args)
    if args.plan:
        refuse_others(args, "plan", BESIDE_PLAN)
    if args.bundle:
        raise CommandError(f"--bundle {args.bundle} has kernels that are built; accepted: with --from-logs")
    if args.address is not None and args.executor != "ray":
        raise CommandError(f"--address {args.address} is a Ray cluster's; accepted: with --executor ray")
    target = target_of(args.target)
    requests = tune_requests.requests_of(args, target, add_search_arguments)
    if args.dry_run:
        return tune_plan.run(args, requests, target)
    if args.build_only:
        return tune_bundle.build(args, requests, target)
    return _tune(args, requests, target)


def refuse_others(args: argparse.Namespace, mode: str, takes: Sequence[str]) -> None:
    """Raises :class:`CommandError` for an argument that means nothing in ``mode``."""
    for name, default in args.defaults.items():
        if name not in (*takes, mode, "help", "json") and getattr(args, name, default) != default:
            accepted = ", ".join("NAME" if t == "recurrence" else f"--{t.replace('_', '-')}" for t in takes)
            option, given = name.replace("_", "-"), mode.replace("_", "-")
            raise CommandError(f"--{option} means nothing with --{given}; accepted: {accepted}")


def _tune(args: argparse.Namespace, requests: Sequence[Request], target: Any) -> int:
    from kvbuffer_codegen.autotune.logs import LogError
    from kvbuffer_codegen.autotune.ray_executor import MissingRayError
    from kvbuffer_codegen.autotune.tune import tune_all
    from kvbuffer_codegen.autotune.worker import WorkerError
    from kvbuffer_codegen.compiler.toolchain import MissingCompiler

    with progress(args.json) as report:
        try:
            found = tune_all(
                requests,
                target=target.name,
                budget_s=args.budget,
                out=args.out,
                logs=args.logs,
                fresh=args.fresh,
                workers=args.workers,
                ray=(args.address or "") if args.executor == "ray" else None,
                progress=report,
            )
        except (LogError, MissingCompiler, MissingRayError, WorkerError) as error:
            raise CommandError(one_line(error), FAILED) from None
    return print_report(args, found)


def print_report(args: argparse.Namespace, found: Report) -> int:
    """What a run found; returns the exit code."""
    from kvbuffer_codegen.autotune.tune import fastest_forms

    if args.json:
        print_json({**found.to_dict(), "forms": fastest_forms(found)})
    else:
        print(f"{found.device}: a plain read moves {found.read / 1e9:.1f} GB/s; {found.seconds:.0f} s")
        print_table([_row(o) for o in found.outcomes], COLUMNS)
        for f in fastest_forms(found):
            times = f"step {f['step']:.0f} us, decode {f['decode']:.0f} us"
            what = f"{f['recurrence']}, {f['state']}, batch {f['rows']}, L={f['buffer']}"
            print(f"{what}: {f['faster']} is faster ({times})")
    for failure in found.failures:
        warn(f"tune: {failure}")
    return FAILED if found.failures else DONE


def _row(o: dict[str, Any]) -> dict[str, Any]:
    schedule = ", ".join(f"{k} {v}" for k, v in o["schedule"].items() if k != "kind")
    return {
        **{name: o[name] for name in ("recurrence", "form", "state", "buffer", "window", "legal", "us")},
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
