"""Every pending record of every row folded into the state, all layers in one launch."""

from __future__ import annotations

from typing import Any

import tilelang.language as T

from kvbuffer_codegen.ir.forms import KernelSpec
from kvbuffer_codegen.schedules import Program, common
from kvbuffer_codegen.schedules import gpu as cuda
from kvbuffer_codegen.schedules.cpu import Cell
from kvbuffer_codegen.schedules.cpu_blocks import fold, gather_records, prefetch_records, stage_parameters
from kvbuffer_codegen.schedules.cpu_row import find_row
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
            if cell.n[0] > 0:
                prefetch_records(cell, 0, cell.n[0])
                stage_parameters(cell)
                gather_records(cell)
                if spec.scaled:
                    fold_scaled(cell)
                else:
                    fold(cell)

    func = common.build(spec, body, scalars=("cell",))
    return Program(func, spec.name, f"Y * B * HV * {schedule.splits}")


def gpu(spec: KernelSpec, schedule: GpuSchedule, target: TargetLike) -> Program:
    return cuda.flush(spec, schedule)
