"""``build --covering``, ``check --covering`` and ``check --list``: the sets of ``kvbuffer_codegen.covering``."""

from __future__ import annotations

import argparse
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kvbuffer_codegen import covering
from kvbuffer_codegen.cli.common import (
    DONE,
    FAILED,
    CommandError,
    one_line,
    positive,
    print_json,
    print_table,
    target_of,
    warn,
)
from kvbuffer_codegen.cli.progress import progress
from kvbuffer_codegen.ir.forms import FORMS, KernelSpec, cursor_spec

COLUMNS = ("status", "name", "error", "registers", "seconds", "reason")
CURSORS = [cursor_spec(name) for name, form in FORMS.items() if form.cursors_only]
TRIPLES = 16


def add_build_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("covering set")
    group.add_argument(
        "--covering",
        action="store_true",
        help="build the fixed covering set instead, one folder a kernel in --out; resumes; spills are failures",
    )
    group.add_argument("--jobs", type=positive, help="kernels at a time (default: one per core)")


def add_check_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("covering array")
    group.add_argument(
        "--covering",
        action="store_true",
        help="build and check, for the CPU, the pairwise array and random triples instead of artifacts; resumes",
    )
    group.add_argument("--list", action="store_true", help="print the array's rows and build nothing")
    group.add_argument("--fixed", action="store_true", help="the fixed covering set instead of the pairwise array")
    group.add_argument("--out", type=Path, help="folder of the results (default: in the user's cache)")
    group.add_argument("--jobs", type=positive, help="kernels at a time (default: one per core)")
    group.add_argument("--triples", type=int, default=TRIPLES, help=f"random triples beside it (default {TRIPLES})")
    group.add_argument("--seed", type=int, help="of the triples (default: a new one, printed)")


def build(args: argparse.Namespace) -> int:
    """The fixed set and the cursor kernels as artifacts."""
    if args.recurrence or args.emit or args.out is None:
        raise CommandError("--covering takes --out (needed), --target and --jobs alone")
    specs = [covering.spec_of(row) for row in covering.fixed_set()] + CURSORS
    return _sweep(specs, args, target_of(args.target), args.out, check=False)


def check(args: argparse.Namespace) -> int:
    """The array and the triples, each kernel built, held against the oracle and thrown away."""
    from kvbuffer_codegen.caches import cache_folder

    rows = covering.fixed_set() if args.fixed else covering.pairwise_set()
    if args.list:
        return _list(rows, args.json)
    seed = random.SystemRandom().randrange(10**6) if args.seed is None else args.seed
    count = 0 if args.fixed else args.triples
    if count:
        warn(f"check: {len(rows)} rows, then {count} triples of --seed {seed}")
    specs = [covering.spec_of(row) for row in (*rows, *covering.triples(count, seed))] + CURSORS
    return _sweep(specs, args, target_of("cpu"), args.out or cache_folder("covering"), check=True)


def _list(rows: Sequence[covering.Row], as_json: bool) -> int:
    if as_json:
        print_json({"factors": covering.FACTORS, "rows": rows})
    else:
        print_table(rows, tuple(covering.FACTORS))
        print(f"{len(rows)} rows")
    return DONE


def _sweep(specs: Sequence[KernelSpec], args: argparse.Namespace, target: Any, out: Path, check: bool) -> int:
    from kvbuffer_codegen.autotune.jobs import OK
    from kvbuffer_codegen.autotune.sweep import REFUSED, Sweep
    from kvbuffer_codegen.compiler.toolchain import MissingCompiler, find_compiler

    try:
        find_compiler(target)
    except MissingCompiler as error:
        raise CommandError(one_line(error), FAILED) from None
    lanes = args.jobs or len(os.sched_getaffinity(0))
    with progress(args.json) as report:
        run = Sweep(target, out.absolute(), check, keep=not check, lanes=lanes)
        answers = run.run(specs, lambda done, total, answer: report(done, total, answer["name"][:28]))
    failed = [a for a in answers if a["status"] not in (OK, REFUSED)]
    refused = sum(a["status"] == REFUSED for a in answers)  # nobody's fault, and told
    if args.json:
        counts = {"failed": len(failed), "refused": refused}
        print_json({"target": target.name, "out": str(out), **counts, "kernels": answers})
    else:
        print_table([_line(a) for a in answers], COLUMNS)
        print(f"{len(answers)} kernels for {target.name}, {len(failed)} failed, {refused} refused; results in {out}")
    return FAILED if failed else DONE


def _line(answer: dict[str, Any]) -> dict[str, Any]:
    error = max(answer["errors"].values(), default=None)
    return {**answer, "error": error, "registers": answer["resources"].get("registers")}
