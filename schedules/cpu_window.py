"""The one CPU template of decode, step and verify: a window of tokens against checkpoint and records."""

from __future__ import annotations

from typing import Any

import tilelang.language as T

from kvbuffer_codegen.ir.forms import FORMS, KernelSpec
from kvbuffer_codegen.schedules import Program, common
from kvbuffer_codegen.schedules.cpu import Cell
from kvbuffer_codegen.schedules.cpu_blocks import (
    append,
    find_length,
    find_row,
    fold,
    gather_records,
    look_back,
    read_records,
    solve,
    stage_parameters,
    stage_tokens,
    stream,
    update,
    zero_outputs,
)
from kvbuffer_codegen.schedules.space import CpuSchedule


def window(spec: KernelSpec, schedule: CpuSchedule) -> Program:
    """One cell per batch row, group of value heads and block of V: T tokens (1 unless verify), then append or write back."""

    @T.macro
    def body(arguments: Any) -> None:
        cell = Cell(spec, schedule, arguments)
        with T.Kernel(1):
            cell.allocate()
            find_row(cell)
            cell.length[0] = 0
            if cell.valid[0] == 1:
                find_length(cell)
            decide(cell)
            for _ in T.serial(schedule.heads):
                if cell.length[0] > 0:
                    one_head(cell)
                zero_outputs(cell)
                cell.head[0] = cell.head[0] + 1

    func = common.build(spec, body, scalars=("cell",))
    return Program(func, spec.name, f"B * HV * {schedule.splits} // {schedule.heads}")


@T.macro
def decide(c: Any) -> None:
    """Whether the row folds, and whether it has no state to read after that."""
    c.folds[0] = 0
    if c.n[0] > 0:
        if FORMS[c.spec.form].folds == "pending":
            c.folds[0] = 1
        elif c.n[0] + c.length[0] > T.if_then_else(c.fresh[0] == 1, c.spec.kv_only, c.spec.buffer):
            c.folds[0] = 1
    c.blank[0] = T.if_then_else(c.folds[0] == 1, 0, c.fresh[0])


@T.macro
def one_head(c: Any) -> None:
    stage_parameters(c)
    stage_tokens(c)
    if c.T > 1:
        look_back(c)
    gather_records(c)
    if c.folds[0] == 1:
        fold(c)
    else:
        read_records(c)
        if c.blank[0] == 0:
            stream(c)
    solve(c)
    if FORMS[c.spec.form].appends:
        append(c)
    else:
        update(c)
