"""What a tune call asks for: the kernels of its arguments, or of every table of a plan file."""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvbuffer_codegen.cli.common import CommandError, Shape, points_of, shape_of, specs_of

if TYPE_CHECKING:
    from kvbuffer_codegen.autotune.requests import Request
    from kvbuffer_codegen.schedules.targets import Target

DEFAULT_BATCHES = {"cpu": (4,), "cuda": (1, 8, 32, 128)}
#: What a table may hold: the options of a call, by their names, and the recurrence.
KEYS: tuple[str, ...] = (
    "recurrence",
    "model",
    "tp",
    "heads",
    "dims",
    "io",
    "state",
    "records",
    "rounding",
    "layout",
    "form",
    "buffer",
)
KEYS += ("window", "kv-only", "batch", "candidates")


def requests_of(
    args: argparse.Namespace, target: Target, add_arguments: Callable[[argparse.ArgumentParser], None]
) -> list[Request]:
    """``add_arguments``: those of a call, which a table of a plan file is read as. Raises :class:`CommandError`."""
    from kvbuffer_codegen.autotune.requests import joined

    if not args.plan:
        return _asked(args, target)
    calls = [(number, call) for number, call in enumerate(_tables(args.plan, add_arguments), 1)]
    found = []
    for number, call in calls:
        try:
            found += _asked(call, target)
        except CommandError as error:
            raise CommandError(f"--plan {args.plan}, table {number}: {error}") from None
    limited = [r if args.candidates is None else replace(r, limit=_least(r.limit, args.candidates)) for r in found]
    return joined(limited)


def _least(limit: int | None, most: int) -> int:
    return most if limit is None else min(limit, most)


def _asked(args: argparse.Namespace, target: Target) -> list[Request]:
    from kvbuffer_codegen.autotune.requests import Request

    shape = shape_of(args, args.recurrence)
    points = tuple(points_of(shape, args.batch or DEFAULT_BATCHES[target.kind]))
    specs = specs_of(shape, args.form, args.buffer, args.window, args.kv_only)
    return [Request(spec, points, args.candidates, source_of(shape)) for spec in specs]


def source_of(shape: Shape) -> str:
    """``path.py:function``, so that a recurrence's own function is the oracle; a shipped one is known by its name."""
    return "" if shape.source == shape.recurrence.name else shape.source


def _tables(path: Path, add_arguments: Callable[[argparse.ArgumentParser], None]) -> list[argparse.Namespace]:
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise CommandError(f"--plan {path} cannot be read: {error}") from None
    tables = data.get("tune")
    if data.keys() != {"tune"} or not isinstance(tables, list) or not all(isinstance(t, dict) for t in tables):
        raise CommandError(f"--plan {path}: accepted: tables [[tune]], each with {', '.join(KEYS)}")
    found = []
    for number, table in enumerate(tables, 1):
        parser = _Parser(f"--plan {path}, table {number}")
        add_arguments(parser)
        found.append(parser.parse_args(_words(parser.where, table)))
    return found


def _words(where: str, table: Mapping[str, Any]) -> list[str]:
    """``{"buffer": [8, 16]}`` as ``--buffer 8,16``."""
    words = []
    for name, value in table.items():
        values = value if isinstance(value, list) else [value]
        if name not in KEYS or not all(isinstance(v, str | int) and not isinstance(v, bool) for v in values):
            raise CommandError(f"{where}: {name} = {value!r}; accepted: strings, numbers or lists of {', '.join(KEYS)}")
        words += [*([] if name == "recurrence" else [f"--{name}"]), ",".join(map(str, values))]
    return words


class _Parser(argparse.ArgumentParser):
    """Says what is wrong as a command does, and where."""

    def __init__(self, where: str):
        super().__init__(add_help=False, allow_abbrev=False)
        self.where = where

    def error(self, message: str) -> Any:
        raise CommandError(f"{self.where}: {message}")
