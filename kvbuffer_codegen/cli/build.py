"""``build``: one kernel, untuned, as an artifact or as the text of one of the compiler's levels."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from kvbuffer_codegen.cli import covering
from kvbuffer_codegen.cli.common import (
    DONE,
    FAILED,
    CommandError,
    add_kernel_arguments,
    one_line,
    positive,
    print_json,
    shape_of,
    specs_of,
    target_of,
)
from kvbuffer_codegen.ir.forms import BUILT, USUAL, KernelSpec
from kvbuffer_codegen.ir.recurrences import RECURRENCES

if TYPE_CHECKING:
    from kvbuffer_codegen.schedules.space import Schedule
    from kvbuffer_codegen.schedules.targets import Target

HELP = "compile kernels with their default schedule, or print what they are compiled from"
EMIT = ("tir", "tilelang", "cuda", "c", "triton")
#: Stands for a target: files of Triton source, one for all sizes and forms.
TRITON = "triton"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_kernel_arguments(
        parser,
        BUILT,
        USUAL,
        target="; triton: portable kernels of any size, without NAME those of all recurrences that ship",
    )
    parser.add_argument("--schedule", type=positive, metavar="N", help="the N-th legal schedule instead of the default")
    parser.add_argument("--emit", choices=EMIT, help="print this level of one kernel instead of building")
    parser.add_argument("--out", type=Path, help="folder of artifacts and index (default: the user's cache)")
    covering.add_build_arguments(parser)


def run(args: argparse.Namespace) -> int:
    if args.covering:
        return covering.build(args)
    if args.target == TRITON and not args.emit:
        return _portable(args)
    shape = shape_of(args, args.recurrence)
    specs = specs_of(shape, args.form, args.buffer, args.window, args.kv_only)
    if args.emit == TRITON:
        return _print(args, specs[0].name, _triton(specs[0]))
    target = target_of(args.target, TRITON)
    if args.emit:
        return _emit(args, specs, target)
    from kvbuffer_codegen.autotune.install import add_default
    from kvbuffer_codegen.caches import cache_folder
    from kvbuffer_codegen.compiler.toolchain import MissingCompiler, find_compiler

    try:
        find_compiler(target)
    except MissingCompiler as error:
        raise CommandError(one_line(error), FAILED) from None
    schedules = [_schedule(spec, target, args.schedule) for spec in specs]
    out = args.out or cache_folder("kernels")
    made = [add_default(spec, schedule, target, out) for spec, schedule in zip(specs, schedules, strict=True)]
    if args.json:
        print_json({"target": target.name, "out": str(out), "artifacts": made})
    else:
        print("\n".join(str(out / relative) for relative in made))
    return DONE


def _emit(args: argparse.Namespace, specs: list[KernelSpec], target: Target) -> int:
    from kvbuffer_codegen.compiler.build import levels

    if len(specs) != 1:
        raise CommandError(f"--emit prints one kernel, these are {len(specs)}; give one --form, --buffer and --window")
    try:
        text = levels(specs[0], _schedule(specs[0], target, args.schedule), target, args.emit)
    except ValueError as error:
        raise CommandError(one_line(error)) from None
    return _print(args, specs[0].name, text)


def _print(args: argparse.Namespace, name: str, text: str) -> int:
    if args.json:
        print_json({"name": name, "level": args.emit, "text": text})
    else:
        print(text, end="")
    return DONE


def _triton(spec: KernelSpec) -> str:
    from kvbuffer_codegen.schedules import triton

    try:
        return triton.source(spec)
    except ValueError as error:
        raise CommandError(one_line(error)) from None


def _portable(args: argparse.Namespace) -> int:
    """Files of Triton source for one recurrence, or for all that ship and the cursors."""
    from kvbuffer_codegen.caches import cache_folder
    from kvbuffer_codegen.compiler.portable import add_portable, add_portable_cursors

    recurrences = [shape_of(args, args.recurrence).recurrence] if args.recurrence else list(RECURRENCES.values())
    out = args.out or cache_folder("kernels")
    made = [file for r in recurrences for file in add_portable(r.normal_form, out, args.records)]
    made += [] if args.recurrence else add_portable_cursors(out)
    if args.json:
        print_json({"target": TRITON, "out": str(out), "portable": made})
    else:
        print("\n".join(str(out / file) for file in made))
    return DONE


def _schedule(spec: KernelSpec, target: Target, number: int | None) -> Schedule:
    from kvbuffer_codegen.schedules import space

    if number is None:
        return space.default(spec, target)
    legal = space.legal(spec, target)
    if number > len(legal):
        raise CommandError(f"--schedule {number}: {spec.form} has {len(legal)} legal schedules here")
    return legal[number - 1]
