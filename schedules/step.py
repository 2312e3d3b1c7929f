"""One token, recurrent: a window of one, the state written back."""

from __future__ import annotations

from kvbuffer_codegen.ir.forms import KernelSpec
from kvbuffer_codegen.schedules import Program, cpu_window
from kvbuffer_codegen.schedules import gpu as cuda
from kvbuffer_codegen.schedules.space import CpuSchedule, TargetLike
from kvbuffer_codegen.schedules.space_gpu import GpuSchedule


def cpu(spec: KernelSpec, schedule: CpuSchedule) -> Program:
    return cpu_window.window(spec, schedule)


def gpu(spec: KernelSpec, schedule: GpuSchedule, target: TargetLike) -> Program:
    return cuda.window(spec, schedule)
