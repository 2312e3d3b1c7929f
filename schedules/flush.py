"""Every pending record of every row folded into the state, all layers in one launch."""

from __future__ import annotations

from typing import Any

import tilelang.language as T

from kvbuffer_codegen.ir.forms import KernelSpec
from kvbuffer_codegen.schedules import Program, common
from kvbuffer_codegen.schedules import gpu as cuda
from kvbuffer_codegen.schedules.cpu import Cell
from kvbuffer_codegen.schedules.cpu_blocks import find_row, fold, gather_records, stage_parameters
from kvbuffer_codegen.schedules.space import CpuSchedule, TargetLike
from kvbuffer_codegen.schedules.space_gpu import GpuSchedule


def cpu(spec: KernelSpec, schedule: CpuSchedule) -> Program:
    """One cell per layer, batch row, group of value heads and block of V."""

    @T.macro
    def body(arguments: Any) -> None:
        cell = Cell(spec, schedule, arguments)
        with T.Kernel(1):
            cell.allocate()
            find_row(cell)
            if cell.n[0] > 0:
                for _ in T.serial(schedule.heads):
                    stage_parameters(cell)
                    gather_records(cell)
                    fold(cell)
                    cell.head[0] = cell.head[0] + 1

    func = common.build(spec, body, scalars=("cell",))
    return Program(func, spec.name, f"Y * B * HV * {schedule.splits} // {schedule.heads}")


def gpu(spec: KernelSpec, schedule: GpuSchedule, target: TargetLike) -> Program:
    return cuda.flush(spec, schedule)
