"""What the subcommands share: errors with an exit code, shape arguments, tables, JSON."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvbuffer_codegen.ir.forms import DTYPES, ROUNDINGS, STATES, KernelSpec
from kvbuffer_codegen.ir.language import Recurrence
from kvbuffer_codegen.ir.models import MODELS, ModelShape
from kvbuffer_codegen.ir.records import RECORDS
from kvbuffer_codegen.recurrences import load_recurrence
from kvbuffer_codegen.recurrences import one_line as one_line

DONE, FAILED, USAGE = 0, 1, 2
DEFAULT_MODEL = "qwen3-next"


class CommandError(Exception):
    """Ends a command with one line on stderr. ``code``: 1 for what failed here, 2 for what was asked wrongly."""

    def __init__(self, message: str, code: int = USAGE):
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Shape:
    """The layer that kernels are made for. ``shards``: (H, HV) for every --tp; ``H`` and ``HV``: the first."""

    recurrence: Recurrence
    source: str
    layers: int
    shards: tuple[tuple[int, int], ...]
    K: int
    V: int
    io: str
    state: str
    layout: str
    records: str = "exact"
    rounding: str = "nearest"

    @property
    def H(self) -> int:
        return self.shards[0][0]

    @property
    def HV(self) -> int:
        return self.shards[0][1]


def add_kernel_arguments(
    parser: argparse.ArgumentParser,
    forms: Sequence[str],
    default: Sequence[str] | None = None,
    several: bool = False,
    target: str = "",
) -> None:
    """Which kernels: recurrence, shape, forms (default: all), lengths, target. ``several``: --tp may list several;
    ``target``: what else --target may be."""
    parser.add_argument(
        "recurrence", metavar="NAME", nargs="?", help="a shipped recurrence, or path.py:function (default: the model's)"
    )
    add_shape_arguments(parser, several)
    default = tuple(forms if default is None else default)
    text = f"one or several of {','.join(forms)} (default: {'all' if default == tuple(forms) else ','.join(default)})"
    parser.add_argument("--form", type=names(forms), default=default, help=text)
    parser.add_argument("--buffer", type=numbers, default=(16,), help="buffer lengths L, as 8,16 (default 16)")
    parser.add_argument("--window", type=numbers, default=(4,), help="verify windows T, as 2,4 (default 4)")
    parser.add_argument("--kv-only", type=int, default=0, help="kv_only capacity C (default 0: none)")
    parser.add_argument("--target", help=f"cpu, sm_90a, ... (default: the GPU that is here, or cpu){target}")


def add_shape_arguments(parser: argparse.ArgumentParser, several: bool = False) -> None:
    """--model or --heads and --dims, and the dtypes; ``several``: --tp may list several."""
    group = parser.add_argument_group("shape")
    group.add_argument(
        "--model",
        help="published shape of a model's linear layers, as `list --models` names them (default: the first that has "
        f"the recurrence, or {DEFAULT_MODEL})",
    )
    group.add_argument(
        "--tp",
        type=numbers if several else one,
        help="tensor-parallel ranks that share the heads (default 1)",
    )
    group.add_argument("--heads", type=pair, metavar="H,HV", help="key heads and value heads, instead of the model's")
    group.add_argument(
        "--dims", type=pair, metavar="K,V", help="key and value channels of a head, instead of the model's"
    )
    group.add_argument("--io", choices=DTYPES, help="dtype of inputs and output (default: the model's)")
    group.add_argument("--state", choices=STATES, default="float32", help="dtype of the state (default float32)")
    group.add_argument(
        "--records", choices=RECORDS, default="exact", help="how the ring holds left vectors (default exact)"
    )
    group.add_argument(
        "--rounding", choices=ROUNDINGS, default="nearest", help="how folds round the state (default nearest)"
    )
    group.add_argument("--layout", choices=("VK", "KV"), default="VK", help="order of a state tile's axes (default VK)")


def recurrence_of(text: str) -> Recurrence:
    """The recurrence that ``text`` names. Raises :class:`CommandError`."""
    try:
        return load_recurrence(text)
    except ValueError as error:
        raise CommandError(str(error)) from None


def shape_of(args: argparse.Namespace, recurrence: str | None = None) -> Shape:
    """The shape that ``args`` ask for; ``recurrence`` overrides the model's. Raises :class:`CommandError`."""
    name = args.model or next((m.name for m in MODELS.values() if m.recurrence == recurrence), DEFAULT_MODEL)
    if name not in MODELS:
        raise CommandError(f"--model {name!r} is unknown; accepted: {', '.join(MODELS)}, or --heads and --dims")
    if args.heads and args.tp:
        raise CommandError("--tp shares the model's heads out, and --heads replaces them; give one of the two")
    model: ModelShape = MODELS[name]
    source = recurrence or model.recurrence
    try:
        shards = (args.heads,) if args.heads else tuple((m.H, m.HV) for m in map(model.shard, args.tp or (1,)))
        loaded = load_recurrence(source)
    except ValueError as error:
        raise CommandError(str(error)) from None
    K, V = args.dims or (model.K, model.V)
    if shards[0][1] % shards[0][0]:
        H, HV = shards[0]
        raise CommandError(f"--heads {H},{HV}: accepted: value heads that are a multiple of the key heads")
    return Shape(
        loaded,
        source,
        model.layers,
        shards,
        K,
        V,
        args.io or model.io,
        args.state,
        args.layout,
        args.records,
        args.rounding,
    )


def specs_of(
    shape: Shape, forms: Sequence[str], buffers: Sequence[int], windows: Sequence[int], kv_only: int
) -> list[KernelSpec]:
    """One spec per form, buffer length and (for verify) window. Raises :class:`CommandError`."""
    from kvbuffer_codegen.autotune import candidates

    size: dict[str, Any] = {"heads": (shape.H, shape.HV), "dims": (shape.K, shape.V), "layout": shape.layout}
    size |= {"io": shape.io, "state": shape.state, "records": shape.records, "rounding": shape.rounding}
    size |= {"buffers": buffers, "windows": windows, "kv_only": kv_only}
    try:
        return candidates.specs_of(shape.recurrence, forms, **size)
    except ValueError as error:
        raise CommandError(str(error)) from None


def points_of(shape: Shape, batches: Sequence[int]) -> list[Any]:
    """Every size that kernels of ``shape`` are timed at. Raises :class:`CommandError`."""
    from kvbuffer_codegen.autotune import requests

    try:
        return requests.points_of(shape.shards, batches)
    except ValueError as error:
        raise CommandError(str(error)) from None


def target_of(name: str | None, *others: str) -> Any:
    """The target called ``name``; by default that of the first GPU, or ``cpu`` where there is none. ``others`` are
    accepted too, by who calls.
    """
    from kvbuffer_codegen.schedules.targets import TARGETS, target

    if name is not None:
        try:
            return target(name)
        except ValueError as error:
            raise CommandError(", ".join((str(error), *others))) from None
    from kvbuffer_codegen.autotune.devices import gpu_capability

    capability = gpu_capability()
    fitting = [t for t in TARGETS.values() if capability in t.capabilities]
    return fitting[0] if fitting else TARGETS["cpu"]


def add_folder_arguments(parser: argparse.ArgumentParser, recurrence: str) -> None:
    """Which artifacts: --path, and NAME, whose help is ``recurrence``."""
    parser.add_argument(
        "--path", type=Path, action="append", help="look in this folder instead of the search path; may be repeated"
    )
    parser.add_argument("recurrence", metavar="NAME", nargs="?", help=recurrence)


def folders_of(given: list[Path] | None) -> list[Path] | None:
    """What --path names. Raises :class:`CommandError` for what is no folder."""
    for folder in given or ():
        if not folder.is_dir():
            raise CommandError(f"--path {folder} is not a folder; accepted: a folder with artifacts")
    return given


def positive(text: str) -> int:
    value = int(text)
    if not 1 <= value < 2**31:
        raise argparse.ArgumentTypeError(f"{text} is not a positive integer below 2147483648")
    return value


def one(text: str) -> tuple[int]:
    return (positive(text),)


def pair(text: str) -> tuple[int, int]:
    parts = numbers(text)
    if len(parts) != 2:
        raise argparse.ArgumentTypeError(f"{text!r} is not two numbers as 16,32")
    return parts[0], parts[1]


def numbers(text: str) -> tuple[int, ...]:
    """``8,16`` as positive integers."""
    return tuple(positive(part) for part in text.split(","))


def names(accepted: Iterable[str]) -> Callable[[str], tuple[str, ...]]:
    """A parser of ``a,b`` whose parts are all in ``accepted``."""
    known = tuple(accepted)

    def parse(text: str) -> tuple[str, ...]:
        parts = tuple(text.split(","))
        for part in parts:
            if part not in known:
                raise argparse.ArgumentTypeError(f"{part!r} is unknown; accepted: {', '.join(known)}")
        return parts

    return parse


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=1, default=str))


def print_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Columns as wide as what they hold; numbers to the right."""
    cells = [[_cell(row.get(c)) for c in columns] for row in rows]
    widths = [max(len(c), *(len(r[i]) for r in cells)) if cells else len(c) for i, c in enumerate(columns)]
    right = [bool(rows) and all(isinstance(row.get(c), int | float | None) for row in rows) for c in columns]
    for line in (list(columns), *cells):
        print("  ".join(t.rjust(w) if r else t.ljust(w) for t, w, r in zip(line, widths, right, strict=True)).rstrip())


def warn(message: str) -> None:
    print(f"kvbuffer-codegen: {message}", file=sys.stderr)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
