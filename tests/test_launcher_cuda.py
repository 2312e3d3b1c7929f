"""The CUDA path of both launchers, exercised without a GPU: against a driver that records what it is asked."""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tiny_kernels import MOCK_CUDA, arguments_of, build_c, expected_slots, manifest_of, spec_of

from kvbuffer_codegen.artifact import Artifact, ArtifactError, read_artifact, write_artifact
from kvbuffer_codegen.expressions import evaluate
from kvbuffer_codegen.ir.forms import KernelSpec
from kvbuffer_codegen.ir.recurrences import RECURRENCES
from kvbuffer_codegen.ir.signature import signature, to_dict
from kvbuffer_codegen.runtime import cuda_driver, launcher
from kvbuffer_codegen.runtime.errors import ArgumentError, KernelError
from kvbuffer_codegen.runtime.loader import load_artifact
from kvbuffer_codegen.runtime.plan import Plan, _constraints


@pytest.fixture(params=["native", "ctypes"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def mock_cuda(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_c(MOCK_CUDA, tmp_path_factory.mktemp("mock") / "libmockcuda.so")


@pytest.fixture
def mocked(mock_cuda: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ctypes.CDLL]:
    """A CUDA driver that records launches; kernels for it take the CPU's tensors, as there are no others here."""
    monkeypatch.setattr(cuda_driver, "LIBRARY", str(mock_cuda))
    cuda_driver.driver.cache_clear()
    real = Plan.of
    monkeypatch.setattr(Plan, "of", lambda manifest: dataclasses.replace(real(manifest), device_type="cpu"))
    library = ctypes.CDLL(str(mock_cuda))
    for name, value in {
        "answer": 0,
        "version": 13000,
        "major": 9,
        "calls": 0,
        "pushes": 0,
        "pops": 0,
        "shared_limit": 0,
    }.items():
        ctypes.c_int.in_dll(library, name).value = value
    yield library
    cuda_driver.driver.cache_clear()


CURRENT_STREAM = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))


@CURRENT_STREAM
def _stream(device_type: int, device: int, out: Any) -> int:
    out[0] = 0x5000
    return 0


def stream_of(handle: int, torch_api: int) -> ctypes.Array[Any]:
    """torch's table of DLPack functions, the last of which, that for the current stream, is replaced."""
    table = (ctypes.c_void_p * 7).from_buffer_copy((ctypes.c_void_p * 7).from_address(torch_api))
    table[6] = ctypes.cast(_stream, ctypes.c_void_p)
    return table


class Config(ctypes.Structure):
    _fields_ = cuda_driver.LaunchConfig._fields_


def cuda_artifact(tmp_path: Path, spec: KernelSpec, shared: int = 0, overlap: bool = False) -> Artifact:
    manifest = manifest_of(spec, "cuda", shared)
    manifest["launch"] |= {"overlap": True} if overlap else {}
    return read_artifact(write_artifact(tmp_path / "kernel", manifest, {"kernel.cubin": b"cubin"}))


def test_overlapped_launch(mocked: ctypes.CDLL, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The launch record holds one attribute: that the kernel may be started while the one before it ends."""
    monkeypatch.setattr("kvbuffer_codegen.runtime.ctypes_launcher.current_stream", lambda index: 0)
    table = stream_of(0, launcher.exchange_api())
    monkeypatch.setattr(launcher, "exchange_api", lambda: ctypes.addressof(table))
    spec = spec_of()
    for overlap in (True, False):
        kernel = load_artifact(cuda_artifact(tmp_path, spec, overlap=overlap), "cuda:0", kind)
        kernel(*arguments_of(spec).values())
        assert Config.in_dll(mocked, "config").attribute_count == overlap
        attribute = (ctypes.c_int * 3).in_dll(mocked, "attribute")
        assert list(attribute) == ([6, 0, 1] if overlap else [0, 0, 0])  # cuda.h: ..._PROGRAMMATIC_STREAM_SERIALIZATION


@pytest.mark.parametrize("shared", [1024, 100_000])
def test_cuda_launch(
    mocked: ctypes.CDLL, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch, shared: int
) -> None:
    monkeypatch.setattr("kvbuffer_codegen.runtime.ctypes_launcher.current_stream", lambda index: 0x5000)
    table = stream_of(0x5000, launcher.exchange_api())
    monkeypatch.setattr(launcher, "exchange_api", lambda: ctypes.addressof(table))
    spec = spec_of()
    kernel = load_artifact(cuda_artifact(tmp_path, spec, shared), "cuda:0", kind)
    assert ctypes.c_int.in_dll(mocked, "shared_limit").value == (shared if shared > 48 * 1024 else 0)
    given = arguments_of(spec)
    expected = expected_slots(spec, given)
    ctypes.c_int.in_dll(mocked, "slots").value = len(expected)
    kernel(*given.values())
    config = Config.in_dll(mocked, "config")
    assert list((ctypes.c_uint64 * len(expected)).in_dll(mocked, "recorded")) == expected
    assert (list(config.grid), list(config.block), config.shared) == ([3, 2, 1], [128, 1, 1], shared)
    assert (config.stream, config.attributes, config.attribute_count) == (0x5000, None, 0)
    assert ctypes.c_void_p.in_dll(mocked, "launched").value == 0x4000
    assert ctypes.c_void_p.in_dll(mocked, "launched_in").value == 0x1000  # its device's context, which was not current
    assert (
        ctypes.c_int.in_dll(mocked, "pushes").value == ctypes.c_int.in_dll(mocked, "pops").value == 2
    )  # prepare, call
    kernel(*arguments_of(spec, {"B": 0}).values())
    assert ctypes.c_int.in_dll(mocked, "calls").value == 1


def test_cuda_failures(mocked: ctypes.CDLL, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvbuffer_codegen.runtime.ctypes_launcher.current_stream", lambda index: 0)
    spec = spec_of()
    artifact = cuda_artifact(tmp_path, spec)
    kernel = load_artifact(artifact, "cuda:0", kind)
    ctypes.c_int.in_dll(mocked, "answer").value = 719
    with pytest.raises(KernelError, match="was not launched: CUDA error 719: unspecified launch failure"):
        kernel(*arguments_of(spec).values())
    with pytest.raises(KernelError, match=r"cuDeviceGet\(7\) failed: CUDA error 101"):
        load_artifact(artifact, "cuda:7", kind)
    ctypes.c_int.in_dll(mocked, "version").value = 11080
    with pytest.raises(ArtifactError, match=r"needs a driver for CUDA 12.0, installed is one for 11.8: update it"):
        load_artifact(artifact, "cuda:0", kind)
    ctypes.c_int.in_dll(mocked, "major").value = 8
    with pytest.raises(ArtifactError, match=r"built for compute capability 9.0, the device has 8.0"):
        load_artifact(artifact, "cuda:0", kind)
    with pytest.raises(KernelError, match="cuLibraryLoadData failed: CUDA error 200"):
        cuda_driver.CudaModule(cuda_driver.driver(), b"something else", "entry", 0)


def test_grid_limits(mocked: ctypes.CDLL, tmp_path: Path, kind: str) -> None:
    """CUDA's y and z end at 65535; the grid's y is P // 2 here."""
    kernel = load_artifact(cuda_artifact(tmp_path, spec_of("advance")), "cuda:0", kind)
    given = arguments_of(spec_of("advance"), {"P": 140_000})
    with pytest.raises(ArgumentError, match=r"grid of \(3, 70000, 1\); accepted: up to \(2147483647, 65535, 65535\)"):
        kernel(*given.values())


def test_no_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_driver, "LIBRARY", "libcuda-that-is-not-there.so")
    cuda_driver.driver.cache_clear()
    with pytest.raises(KernelError, match=r"no CUDA driver: .*; install NVIDIA's driver, or use device='cpu'"):
        load_artifact(cuda_artifact(tmp_path, spec_of()), "cuda:0")


def test_a_row_fits_32_bits() -> None:
    """GPU kernels work out offsets inside a slot or a batch in 32 bits: what does not fit is refused by name."""
    spec = KernelSpec("decode", RECURRENCES["gated_delta_rule"].normal_form, 128, 128, 2, "bfloat16", buffer=16)
    arguments = [to_dict(a) for a in signature(spec)]
    manifest = {"arguments": arguments, "target": {"kind": "cuda"}, "form": "decode", "ratio": 2}
    made = _constraints({**manifest, "buffer": 16, "kv_only": 0, "window": 0}, [])
    spans = {c.argument: c for c in made if "2^31" in c.accepted}
    assert {"state", "record_k", "q", "out"} <= set(spans)
    given = {"B": 8, "H": 16, "HV": 32, "R": 32, "P": 4096, "q_s1": 128, "state_s1": 128 * 128, "state_s2": 128}
    fitting = (2**31 - 128 - 15 * 128) // 7
    assert evaluate(spans["q"].program, {**given, "q_s0": fitting}) >= 0
    assert evaluate(spans["q"].program, {**given, "q_s0": fitting + 1}) < 0
    assert evaluate(spans["state"].program, {**given, "state_s0": 2**40}) >= 0
    assert evaluate(spans["state"].program, {**given, "state_s1": 2**27, "state_s0": 128}) < 0
