"""``merge``: the tuning logs of several machines as one."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from kvbuffer_codegen.cli.common import DONE, CommandError, one_line, print_json

HELP = "join tuning logs of several machines into one file"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("log", metavar="LOG", type=Path, nargs="+", help="a tuning log, or a folder of them")
    parser.add_argument("--out", type=Path, metavar="FILE", required=True, help="the joined log; must be new or a LOG")


def run(args: argparse.Namespace) -> int:
    from kvbuffer_codegen.artifact import write_file
    from kvbuffer_codegen.autotune.logs import LogError, merge, read_log

    files = log_files(args.log)
    if args.out.exists() and args.out.resolve() not in [file.resolve() for file in files]:
        raise CommandError(f"--out {args.out} is there already; name another file, or this one among the logs, too")
    try:
        logs = [read_log(file, whole=True) for file in files]
    except LogError as error:
        raise CommandError(one_line(error)) from None
    lines = merge(logs)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    write_file(args.out, "".join(json.dumps(line) + "\n" for line in lines).encode())
    duplicates = sum(map(len, logs)) - len(lines)
    if args.json:
        print_json({"out": str(args.out), "logs": len(files), "lines": len(lines), "duplicates": duplicates})
    else:
        print(f"{len(lines)} lines of {len(files)} logs in {args.out}; {duplicates} were there twice")
    return DONE


def log_files(given: list[Path]) -> list[Path]:
    """The logs that ``given`` names, of a folder all of it. Raises :class:`CommandError` for what is none."""
    found: list[Path] = []
    for path in given:
        inside = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
        if not inside or not path.exists():
            raise CommandError(f"LOG {path}: no log is there; accepted: files of JSON Lines, or folders with *.jsonl")
        found += inside
    return found
