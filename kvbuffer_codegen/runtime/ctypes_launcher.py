"""The launcher without a compiler: the plan carried out in Python, the kernel called through ctypes.

The checks take 100 us and more, so their outcome is kept for calls whose tensors differ in their addresses only; those
take 25 us and more.
"""

from __future__ import annotations

import ctypes
import math
from ctypes import byref, c_int32, c_int64, c_uint64, c_void_p
from typing import Any

import torch

from kvbuffer_codegen.runtime.cpu_module import CpuModule
from kvbuffer_codegen.runtime.cuda_driver import OVERLAP, CudaModule, LaunchConfig
from kvbuffer_codegen.runtime.plan import Launch, Plan, Tensor

_MOST_KEPT = 512
_ENTRY = ctypes.CFUNCTYPE(c_int32, ctypes.POINTER(c_uint64), ctypes.POINTER(c_int64))
DONE, REFUSED, UNPREPARED, FAILED = range(4)


class CtypesLauncher:
    """Called with a kernel's arguments in order; returns a status as `launcher.cpp` does, but raises what it refuses
    itself."""

    def __init__(self, plan: Plan, module: CpuModule | CudaModule) -> None:
        self.plan, self.module = plan, module
        self.prepared: dict[int, tuple[int, int]] = {}
        self.align = math.lcm(*(a.align for a in plan.arguments if isinstance(a, Tensor)))
        position = {a.name: i for i, a in enumerate(plan.arguments)}
        self.pointers = [(slot, position[a]) for slot, (_, a) in enumerate(plan.slots) if isinstance(a, str)]
        self.kept: dict[Any, Launch] = {}

    def prepare(self, index: int, context: int, function: int) -> None:
        self.prepared[index] = (context, function)

    def __call__(self, arguments: tuple[Any, ...]) -> int:
        launch = self._checked(arguments)
        self.plan.keep_apart(arguments)
        if not launch.grid:
            return DONE
        index = device_index(arguments)
        if index not in self.prepared:
            return UNPREPARED
        context, function = self.prepared[index]
        slots = (c_uint64 * len(launch.slots))(*launch.slots)
        for slot, argument in self.pointers:
            slots[slot] = arguments[argument].data_ptr()
        if isinstance(self.module, CudaModule):
            code = self._cuda(self.module, launch, slots, index, context, function)
        else:
            code = _ENTRY(function)(slots, (c_int64 * 3)(*launch.grid))
        return code * 8 + FAILED if code else DONE

    def _checked(self, arguments: tuple[Any, ...]) -> Launch:
        try:
            key = tuple(
                (a.dtype, a.shape, a.stride(), a.device, a.data_ptr() % self.align)
                if isinstance(a, torch.Tensor)
                else (type(a), a)
                for a in arguments
            )
            if key in self.kept:
                return self.kept[key]
        except (RuntimeError, TypeError):  # no strides, no address, no hash: not what a kernel takes
            return self.plan.launch(arguments)
        launch = self.plan.launch(arguments)
        if len(self.kept) >= _MOST_KEPT:
            self.kept.clear()
        self.kept[key] = launch
        return launch

    def _cuda(
        self, module: CudaModule, launch: Launch, slots: ctypes.Array[c_uint64], index: int, context: int, function: int
    ) -> int:
        lib = module.driver.lib
        attributes = ctypes.addressof(OVERLAP) if self.plan.overlap else None
        config = LaunchConfig(
            (*launch.grid,), (*launch.block,), self.plan.shared, current_stream(index), attributes, self.plan.overlap
        )
        base = ctypes.addressof(slots)
        pointers = (c_void_p * len(slots))(*(base + 8 * i for i in range(len(slots))))
        before = c_void_p()
        code = lib.cuCtxGetCurrent(byref(before))
        foreign = not code and before.value != context
        if foreign:
            code = lib.cuCtxPushCurrent_v2(context)
        if code:
            return int(code)
        code = lib.cuLaunchKernelEx(byref(config), function, pointers, None)
        if foreign:
            lib.cuCtxPopCurrent_v2(byref(before))
        return int(code)


def device_index(arguments: tuple[Any, ...]) -> int:
    """The device of the first tensor, in torch's numbering; 0 for a CPU."""
    return next((a.device.index or 0 for a in arguments if isinstance(a, torch.Tensor)), 0)


def current_stream(index: int) -> int:
    """The handle of torch's current stream on a device."""
    return int(torch._C._cuda_getCurrentRawStream(index))
