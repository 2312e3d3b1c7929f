"""Loading kernels and decoding with them. Imports torch, numpy and tvm-ffi, and no compiler."""

from __future__ import annotations

from kvbuffer_codegen.runtime import dispatcher, ops
from kvbuffer_codegen.runtime.dispatcher import FallbackWarning, MissingKernelError
from kvbuffer_codegen.runtime.errors import ArgumentError, KernelError
from kvbuffer_codegen.runtime.faults import FaultError
from kvbuffer_codegen.runtime.loader import Kernel, load_artifact, load_kernel
from kvbuffer_codegen.runtime.order import OrderError
from kvbuffer_codegen.runtime.pool import Pool

__all__ = [
    "ArgumentError",
    "FallbackWarning",
    "FaultError",
    "Kernel",
    "KernelError",
    "MissingKernelError",
    "OrderError",
    "Pool",
    "dispatcher",
    "load_artifact",
    "load_kernel",
    "ops",
]
