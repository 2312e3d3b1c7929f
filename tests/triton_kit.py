"""What the tests of portable kernels share: emitted files, cases, and Triton's interpreter in a process of its own.

The interpreter is chosen for a whole process, before Triton is imported, so it gets one; tests send it cases.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kvbuffer_codegen.checking import Result, check_kernel
from kvbuffer_codegen.ir.forms import KernelSpec
from kvbuffer_codegen.ir.language import Recurrence
from kvbuffer_codegen.ir.portable import source_name
from kvbuffer_codegen.runtime.triton_kernels import TritonKernel
from kvbuffer_codegen.schedules.triton import source

ROWS = {"step": 0, "decode": 0, "flush": 0, "verify": 4}


def spec_of(form: str, recurrence: Recurrence, **changes: Any) -> KernelSpec:
    """A small kernel: ragged where the defaults of other tests are not, so that lanes are masked."""
    sizes: dict[str, Any] = {"K": 12, "V": 10, "ratio": 2, "io": "bfloat16", "state": "float32", "buffer": 4}
    return KernelSpec(form, recurrence.normal_form, **{**sizes, "window": ROWS[form], **changes})


def kernel_of(spec: KernelSpec, device: str, folder: Path) -> TritonKernel:
    """The kernel of ``spec`` from a file that is emitted now."""
    text = source(spec).encode()
    path = folder / f"{source_name(spec)}.py"
    path.write_bytes(text)
    path.chmod(0o644)
    return TritonKernel(spec, path, hashlib.sha256(text).hexdigest(), device)


@contextmanager
def interpreter() -> Iterator[ProcessPoolExecutor]:
    """A process in which Triton interprets; submit :func:`interpreted` to it."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=_interpret) as executor:
        yield executor


def interpreted(spec: KernelSpec, seed: int = 0) -> Result:
    """In the interpreter's process: the kernel of ``spec`` against the oracle."""
    with tempfile.TemporaryDirectory() as folder:
        return check_kernel(kernel_of(spec, "cpu", Path(folder)), spec, seeds=1 + seed)


def called(spec: KernelSpec, given: dict[str, Any]) -> dict[str, Any]:
    """In the interpreter's process: what a call of the kernel of ``spec`` leaves in its arguments."""
    with tempfile.TemporaryDirectory() as folder:
        kernel_of(spec, "cpu", Path(folder))(**given)
    return given


def _interpret() -> None:
    os.environ["TRITON_INTERPRET"] = "1"
    torch.set_num_threads(1)
    from triton.runtime import interpreter as triton_interpreter

    patch, convert = triton_interpreter._patch_lang_tensor, triton_interpreter._convert_float

    def patched(tensor: Any, scope: Any) -> None:
        """NumPy 2.4 makes no int of an array of one element, as Triton 3.6 expects where it counts a loop."""
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

    def converted(data: Any, before: Any, after: Any, rounding: Any) -> Any:
        """To bfloat16 to nearest even, as a GPU does: the interpreter cuts digits off."""
        if (before.name, after.name) != ("fp32", "bf16"):
            return convert(data, before, after, rounding)
        bits = torch.from_numpy(np.ascontiguousarray(data)).to(torch.bfloat16).view(torch.int16)
        return bits.numpy().view(np.uint16)

    triton_interpreter._patch_lang_tensor = patched
    triton_interpreter._convert_float = converted
