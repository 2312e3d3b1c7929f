"""Loading kernels and decoding with them. Imports torch, numpy and tvm-ffi, and no compiler."""

from __future__ import annotations

from kvbuffer_codegen.runtime import dispatcher, ops
from kvbuffer_codegen.runtime.errors import ArgumentError, KernelError
from kvbuffer_codegen.runtime.order import OrderError
from kvbuffer_codegen.runtime.pool import FaultError, Pool

__all__ = ["ArgumentError", "FaultError", "KernelError", "OrderError", "Pool", "dispatcher", "ops"]
