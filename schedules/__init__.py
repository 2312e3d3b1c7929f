"""How a form is computed: the schedule space and one TileLang template per form and target family."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvbuffer_codegen.schedules import space, space_gpu

if TYPE_CHECKING:
    from tilelang.tvm.tirx import PrimFunc

    from kvbuffer_codegen.ir.forms import KernelSpec
    from kvbuffer_codegen.schedules.space import Schedule, TargetLike

#: Which file holds the template of a form.
FILES = {form: form for form in ("decode", "step", "verify", "flush", "compact")} | {"publish": "flush"}
FILES |= dict.fromkeys(space.CURSOR_FORMS, "cursors")

__all__ = ["Program", "program", "space", "space_gpu"]


@dataclass(frozen=True)
class Program:
    """A TileLang program of one kernel.

    ``cells`` is a launch expression over the run-time sizes. On a CPU the function computes one grid cell, numbered by
    its last argument, an int32 ``cell``, and whoever compiles it loops over ``cells`` of them; on a GPU: the blocks.
    """

    func: PrimFunc
    cells: str


def program(spec: KernelSpec, schedule: Schedule, target: TargetLike) -> Program:
    """The program of ``spec`` under ``schedule``; raises ``ValueError`` where that is not legal for spec and target."""
    if schedule not in space.legal(spec, target):
        raise ValueError(
            f"schedule {schedule} is not legal for {spec.form} on {target.kind}; "
            f"accepted: the {len(space.legal(spec, target))} values of space.legal(spec, target)"
        )
    file = importlib.import_module(f"kvbuffer_codegen.schedules.{FILES[spec.form]}")
    if target.kind == "cpu":
        return file.cpu(spec, schedule)
    return file.gpu(spec, schedule, target)
