"""Every pending record of every row folded into its state or (publish) into a second slot, all layers in one launch."""

from __future__ import annotations

from typing import Any

import tilelang.language as T

from kvbuffer_codegen.ir.forms import KernelSpec
from kvbuffer_codegen.schedules import Program, common
from kvbuffer_codegen.schedules import gpu as cuda
from kvbuffer_codegen.schedules.cpu import Cell
from kvbuffer_codegen.schedules.cpu_blocks import fold, gather_records, prefetch_records, stage_parameters
from kvbuffer_codegen.schedules.cpu_row import find_row, find_target, start_target
from kvbuffer_codegen.schedules.cpu_scaled import fold_scaled
from kvbuffer_codegen.schedules.space import CpuSchedule, TargetLike
from kvbuffer_codegen.schedules.space_gpu import GpuSchedule


def cpu(spec: KernelSpec, schedule: CpuSchedule) -> Program:
    """One cell per layer, batch row, value head and block of V."""

    @T.macro
    def body(arguments: Any) -> None:
        cell = Cell(spec, schedule, arguments)
        with T.Kernel(1):
            cell.allocate()
            find_row(cell)
            if spec.form == "publish":
                find_target(cell)
            if folds(cell):
                prefetch_records(cell, 0, cell.n[0])
                stage_parameters(cell)
                gather_records(cell)
                if spec.scaled:
                    fold_scaled(cell)
                else:
                    fold(cell)
                if spec.form == "publish":
                    start_target(cell)

    func = common.build(spec, body, scalars=("cell",))
    return Program(func, f"Y * B * HV * {schedule.splits}")


def folds(c: Cell) -> Any:
    """publish also copies a state that has no records."""
    return c.valid[0] == 1 if c.spec.form == "publish" else c.n[0] > 0


def gpu(spec: KernelSpec, schedule: GpuSchedule, target: TargetLike) -> Program:
    return cuda.flush(spec, schedule)
