"""The few functions of the CUDA driver that loading and launching a cubin takes, through ctypes. Nothing of CUDA's
toolkit is needed."""

from __future__ import annotations

import ctypes
import functools
from ctypes import POINTER, byref, c_char_p, c_int, c_uint, c_void_p

from kvbuffer_codegen.artifact import Device
from kvbuffer_codegen.runtime.errors import KernelError

LIBRARY = "libcuda.so.1"
_MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_CAPABILITY = (75, 76)  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR


class LaunchAttribute(ctypes.Structure):
    """cuda.h: CUlaunchAttribute, with the one value that is used."""

    _fields_ = (("id", c_int), ("unused", c_int), ("value", c_int * 16))


#: CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION: start while the kernel before it finishes.
OVERLAP = LaunchAttribute(6, 0, (1,))


class LaunchConfig(ctypes.Structure):
    """cuda.h: CUlaunchConfig."""

    _fields_ = (
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("shared", c_uint),
        ("stream", c_void_p),
        ("attributes", c_void_p),
        ("attribute_count", c_uint),
    )


_PROTOTYPES = {
    "cuInit": [c_uint],
    "cuDriverGetVersion": [POINTER(c_int)],
    "cuGetErrorString": [c_int, POINTER(c_char_p)],
    "cuDeviceGet": [POINTER(c_int), c_int],
    "cuDeviceGetName": [c_char_p, c_int, c_int],
    "cuDeviceGetAttribute": [POINTER(c_int), c_int, c_int],
    "cuDevicePrimaryCtxRetain": [POINTER(c_void_p), c_int],
    "cuCtxGetCurrent": [POINTER(c_void_p)],
    "cuCtxPushCurrent_v2": [c_void_p],
    "cuCtxPopCurrent_v2": [POINTER(c_void_p)],
    "cuLibraryLoadData": [POINTER(c_void_p), c_char_p, c_void_p, c_void_p, c_uint, c_void_p, c_void_p, c_uint],
    "cuLibraryGetKernel": [POINTER(c_void_p), c_void_p, c_char_p],
    "cuKernelSetAttribute": [c_int, c_int, c_void_p, c_int],
    "cuKernelGetFunction": [POINTER(c_void_p), c_void_p],
    "cuLaunchKernelEx": [POINTER(LaunchConfig), c_void_p, POINTER(c_void_p), c_void_p],
}


class Driver:
    """The loaded driver library; :func:`driver` gives the process's one."""

    def __init__(self, library: str) -> None:
        try:
            self.lib = ctypes.CDLL(library)
            for name, types in _PROTOTYPES.items():
                getattr(self.lib, name).argtypes = types
        except OSError as error:
            raise KernelError(f"no CUDA driver: {error}; install NVIDIA's driver, or use device='cpu'") from None
        except AttributeError as error:
            raise KernelError(f"the CUDA driver is older than CUDA 12.0 ({error}); update it") from None
        self.check(self.lib.cuInit(0), "cuInit")
        self.contexts: dict[int, int] = {}

    def check(self, code: int, what: str) -> None:
        if code:
            raise KernelError(f"{what} failed: {self.describe(code)}")

    def describe(self, code: int) -> str:
        text = c_char_p()
        self.lib.cuGetErrorString(code, byref(text))
        return f"CUDA error {code}: {(text.value or b'unknown').decode()}"

    def address(self, name: str) -> int:
        return ctypes.cast(getattr(self.lib, name), c_void_p).value or 0

    def device(self, index: int) -> Device:
        """What device ``index``, in torch's numbering, can run."""
        handle, version, values = self._handle(index), c_int(), [c_int(), c_int()]
        self.check(self.lib.cuDriverGetVersion(byref(version)), "cuDriverGetVersion")
        for value, attribute in zip(values, _CAPABILITY, strict=True):
            self.check(self.lib.cuDeviceGetAttribute(byref(value), attribute, handle), "cuDeviceGetAttribute")
        name = ctypes.create_string_buffer(256)
        self.check(self.lib.cuDeviceGetName(name, len(name), handle), "cuDeviceGetName")
        capability = f"{values[0].value}.{values[1].value}"
        return Device("cuda", capability, version.value, name=name.value.decode(errors="replace"))

    def _handle(self, index: int) -> c_int:
        handle = c_int()
        self.check(self.lib.cuDeviceGet(byref(handle), index), f"cuDeviceGet({index})")
        return handle

    def context(self, index: int) -> int:
        """The primary context of a device, which torch uses too; retained once and kept as long as the process."""
        if index not in self.contexts:
            context = c_void_p()
            self.check(
                self.lib.cuDevicePrimaryCtxRetain(byref(context), self._handle(index)), "cuDevicePrimaryCtxRetain"
            )
            self.contexts[index] = context.value or 0
        return self.contexts[index]


@functools.cache
def driver() -> Driver:
    """The driver. Raises :class:`KernelError` where there is none, or one older than CUDA 12.0."""
    return Driver(LIBRARY)


class CudaModule:
    """A cubin, loaded independent of contexts, and the kernel in it.

    It stays loaded as long as the process: a CUDA graph may launch it when no reference from Python is left.
    """

    def __init__(self, on: Driver, image: bytes, entry: str, shared: int) -> None:
        self.driver, self.shared = on, shared
        self.library, self.kernel = c_void_p(), c_void_p()
        on.check(
            on.lib.cuLibraryLoadData(byref(self.library), image, None, None, 0, None, None, 0), "cuLibraryLoadData"
        )
        on.check(
            on.lib.cuLibraryGetKernel(byref(self.kernel), self.library, entry.encode()), f"cuLibraryGetKernel({entry})"
        )

    @property
    def addresses(self) -> tuple[int, int, int, int]:
        """cuLaunchKernelEx and the functions that make a context current, for the native launcher."""
        names = ("cuLaunchKernelEx", "cuCtxGetCurrent", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2")
        launch, current, push, pop = map(self.driver.address, names)
        return launch, current, push, pop

    def device(self, index: int) -> Device:
        return self.driver.device(index)

    def prepare(self, index: int) -> tuple[int, int]:
        """Load the code on a device, so that no call does, and return the context and the function to launch."""
        lib, check, context = self.driver.lib, self.driver.check, self.driver.context(index)
        handle, function, before = self.driver._handle(index), c_void_p(), c_void_p()
        if self.shared > 48 * 1024:
            code = lib.cuKernelSetAttribute(_MAX_DYNAMIC_SHARED, self.shared, self.kernel, handle)
            check(code, f"{self.shared} bytes of shared memory: cuKernelSetAttribute")
        check(lib.cuCtxPushCurrent_v2(context), "cuCtxPushCurrent")
        try:
            check(lib.cuKernelGetFunction(byref(function), self.kernel), "cuKernelGetFunction")
        finally:
            lib.cuCtxPopCurrent_v2(byref(before))
        return context, function.value or 0

    def describe(self, code: int) -> str:
        return self.driver.describe(code)
