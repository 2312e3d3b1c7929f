"""The one CPU template of decode, step and verify: a window of tokens against checkpoint and records."""

from __future__ import annotations

from typing import Any

import tilelang.language as T

from kvbuffer_codegen.ir.forms import FORMS, KernelSpec
from kvbuffer_codegen.schedules import Program, common
from kvbuffer_codegen.schedules.cpu import Cell
from kvbuffer_codegen.schedules.cpu_blocks import (
    append,
    clear_reads,
    fold,
    gather_records,
    look_back,
    prefetch_records,
    read_records,
    solve,
    stage_parameters,
    stage_tokens,
    stream,
    update,
)
from kvbuffer_codegen.schedules.cpu_row import find_length, find_row, zero_outputs
from kvbuffer_codegen.schedules.cpu_scaled import fold_scaled, load_scales, update_scaled
from kvbuffer_codegen.schedules.space import CpuSchedule


def window(spec: KernelSpec, schedule: CpuSchedule) -> Program:
    """One cell per batch row, value head and block of V: T tokens (1 unless verify), then append or write back."""

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
            if cell.length[0] > 0:
                tokens(cell)
            zero_outputs(cell)

    func = common.build(spec, body, scalars=("cell",))
    return Program(func, f"B * HV * {schedule.splits}")


@T.macro
def decide(c: Any) -> None:
    """Whether the row folds, and whether it has no state to read after that."""
    c.folds[0] = 0
    if c.n[0] > 0:
        c.folds[0] = folds(c)
    c.blank[0] = T.if_then_else(c.folds[0] == 1, 0, c.fresh[0])


def folds(c: Cell) -> Any:
    if FORMS[c.spec.form].folds == "pending":
        return 1
    capacity = T.if_then_else(c.fresh[0] == 1, c.spec.kv_only, c.spec.buffer)
    return T.if_then_else(c.n[0] + c.length[0] > capacity, 1, 0)


@T.macro
def tokens(c: Any) -> None:
    stage_parameters(c)
    stage_tokens(c)
    if c.T > 1:
        look_back(c)
    if c.folds[0] == 1:
        prefetch_records(c, 0, c.n[0])
        gather_records(c)
        if c.spec.scaled:
            fold_scaled(c)
        else:
            fold(c)
        if c.spec.stochastic:
            c.writes_before[0] = c.writes_before[0] + 1
    else:
        clear_reads(c)
        if c.blank[0] == 0:
            if c.spec.scaled:
                load_scales(c)
            stream(c)
        gather_records(c)
        read_records(c)
    solve(c)
    if FORMS[c.spec.form].appends:
        append(c)
    else:
        if c.spec.scaled:
            update_scaled(c)
        else:
            update(c)
