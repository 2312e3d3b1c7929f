"""``kvbuffer-codegen``: one file of this folder per subcommand.

A subcommand's file has ``HELP``, ``add_arguments(parser)`` and ``run(args) -> exit code``. Exit codes: 0 done, 1 a
check failed or this machine lacks something, 2 bad usage.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence

from kvbuffer_codegen import __version__
from kvbuffer_codegen.artifact import ArtifactError
from kvbuffer_codegen.cli.common import FAILED, CommandError, one_line, warn

COMMANDS = ("list", "explain", "build", "tune", "merge", "coverage", "check", "bench", "report", "doctor", "demo")


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        "kvbuffer-codegen", description="Kernels for linear attention with a key-value buffer."
    )
    result.add_argument("--version", action="version", version=f"kvbuffer-codegen {__version__}")
    commands = result.add_subparsers(dest="command", metavar="command", required=True)
    for name in COMMANDS:
        module = importlib.import_module(f"kvbuffer_codegen.cli.{name}")
        sub = commands.add_parser(name, help=module.HELP, description=module.HELP)
        module.add_arguments(sub)
        sub.add_argument("--json", action="store_true", help="print one JSON document instead of text")
        sub.set_defaults(run=module.run)
    return result


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; returns its exit code."""
    args = parser().parse_args(argv)
    try:
        with terminable():
            return int(args.run(args))
    except CommandError as error:
        warn(f"{args.command}: {one_line(error)}")
        return error.code
    except (ArtifactError, OSError) as error:
        if isinstance(error, BrokenPipeError):  # `| head`: the reader has what it wants
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return FAILED
        out = getattr(args, "out", None)
        if isinstance(error, PermissionError | NotADirectoryError | FileExistsError) and out is not None:
            warn(f"{args.command}: --out {out} cannot be written ({error.strerror}); give a folder that is yours")
        else:
            warn(f"{args.command}: {one_line(error)}")
        return FAILED
    except KeyboardInterrupt:
        warn(f"{args.command}: interrupted")
        return 130


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM ends the command as an exception does, through every ``finally``: no temporary folder stays."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


if __name__ == "__main__":
    sys.exit(main())
