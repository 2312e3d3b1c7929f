"""A kernel for the CPU: a shared object whose bytes were hashed before they are loaded."""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
from pathlib import Path

from kvbuffer_codegen.artifact import Device, cpu_device
from kvbuffer_codegen.caches import CacheError, cache_folder
from kvbuffer_codegen.runtime.errors import KernelError


class CpuModule:
    """``int32_t entry(const uint64_t* arguments, const int64_t* grid)``; the library stays loaded as long as the
    process."""

    addresses = (0, 0, 0, 0)

    def __init__(self, binary: bytes, entry: str) -> None:
        # Not from the artifact's own file, which could be another by now. The name must be new: the dynamic linker
        # takes a name that it has seen for the library that it has loaded.
        folder = Path(tempfile.mkdtemp(prefix="load-", dir=_folder()))
        try:
            path = folder / f"{entry}.so"
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o700), "wb") as file:
                file.write(binary)
            self.library = ctypes.CDLL(str(path))
            self.address = ctypes.cast(getattr(self.library, entry), ctypes.c_void_p).value or 0
        except OSError as error:
            raise KernelError(f"{entry} cannot be loaded: {error}") from None
        except AttributeError:
            raise KernelError(f"the binary has no entry {entry}; build it again") from None
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def device(self, index: int) -> Device:
        return cpu_device()

    def prepare(self, index: int) -> tuple[int, int]:
        return 0, self.address

    def describe(self, code: int) -> str:
        return f"the kernel returned {code}"


def _folder() -> str | None:
    """The user's cache, from which code may be run; where there is none, the system's temporary folder."""
    try:
        return str(cache_folder())
    except CacheError:
        return None
