"""Which kernel serves a call."""

from __future__ import annotations

import torch

from kvbuffer_codegen.ir.forms import KernelSpec
from kvbuffer_codegen.runtime import ops
from kvbuffer_codegen.runtime.reference import ReferenceKernel


def find(
    spec: KernelSpec, device: torch.device, rows: int, *, strict: bool = False, batch_invariant: bool = False
) -> str:
    """The name, for the operators, of the kernel that serves ``spec`` on ``device`` for ``rows`` value-head rows."""
    name = f"{spec.name}@reference:{device.type}"
    return ops.register(name, ReferenceKernel(spec, device))
