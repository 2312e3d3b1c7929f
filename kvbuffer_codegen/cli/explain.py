"""``explain``: a recurrence, the forms derived from it, its records, and what it costs at a model's shape."""

from __future__ import annotations

import argparse

from kvbuffer_codegen.cli.common import DONE, add_shape_arguments, positive, print_json, shape_of, specs_of
from kvbuffer_codegen.ir.explain import explain, render

HELP = "derivation, record layout, bytes and memory of a recurrence"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recurrence", metavar="NAME", help="a shipped recurrence, or path.py:function")
    add_shape_arguments(parser)
    parser.add_argument("--buffer", type=positive, default=16, help="buffer length L (default 16)")
    parser.add_argument("--window", type=positive, default=4, help="verify window T (default 4)")


def run(args: argparse.Namespace) -> int:
    shape = shape_of(args, args.recurrence)
    spec, _ = specs_of(shape, ("decode", "verify"), (args.buffer,), (args.window,), 0)
    found = explain(shape.recurrence, spec, shape.H, shape.HV, shape.layers, args.window)
    if args.json:
        print_json(found)
    else:
        print(render(found))
    return DONE
