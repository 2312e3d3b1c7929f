"""Both launchers against one suite: what a kernel is given, what is refused and with which words, and what a call
costs."""

from __future__ import annotations

import ctypes
import dataclasses
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tiny_kernels import RECORDER, arguments_of, build_c, expected_slots, manifest_of, spec_of

from kvbuffer_codegen.artifact import Artifact, ArtifactError, read_artifact, write_artifact
from kvbuffer_codegen.ir.forms import KernelSpec
from kvbuffer_codegen.runtime import launcher, loader
from kvbuffer_codegen.runtime.errors import ArgumentError, KernelError
from kvbuffer_codegen.runtime.loader import Kernel, load_artifact
from kvbuffer_codegen.runtime.plan import _meet

FORMS = ("decode", "verify", "flush", "step", "advance", "commit")


@pytest.fixture(params=["native", "ctypes"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Callable[[KernelSpec], Artifact]:
    built: dict[KernelSpec, Artifact] = {}

    def of(spec: KernelSpec) -> Artifact:
        if spec not in built:
            folder = tmp_path_factory.mktemp("artifact")
            manifest = manifest_of(spec)
            slots = len(manifest["launch"]["arguments"])
            binary = build_c(RECORDER, folder / "kernel.so", f"-DSLOTS={slots}").read_bytes()
            built[spec] = read_artifact(write_artifact(folder / "kernel", manifest, {"kernel.so": binary}))
        return built[spec]

    return of


def recorded(kernel: Kernel, count: int) -> tuple[list[int], list[int]]:
    library = kernel.module.library
    slots = (ctypes.c_uint64 * count).in_dll(library, "recorded")
    return list(slots), list((ctypes.c_int64 * 3).in_dll(library, "recorded_grid"))


def calls(kernel: Kernel) -> int:
    return ctypes.c_int32.in_dll(kernel.module.library, "calls").value


# --- what the kernel is given


@pytest.mark.parametrize("form", FORMS)
def test_every_pointer_stride_and_size_arrives(artifacts: Any, kind: str, form: str) -> None:
    spec = spec_of(form)
    kernel = load_artifact(artifacts(spec), launcher=kind)
    given = arguments_of(spec)
    kernel(*given.values())
    expected = expected_slots(spec, given)
    assert recorded(kernel, len(expected)) == (expected, [3, 2, 1])


def test_arguments_by_name(artifacts: Any, kind: str) -> None:
    spec = spec_of()
    kernel = load_artifact(artifacts(spec), launcher=kind)
    given = arguments_of(spec)
    first, *rest = given
    kernel(given[first], **{name: given[name] for name in reversed(rest)})
    assert recorded(kernel, 3)[0] == expected_slots(spec, given)[:3]


def test_strided_views(artifacts: Any, kind: str) -> None:
    """q, k, v as slices of one packed tensor, a pool with gaps, indices with a stride and of 64 bits, gates of any
    stride."""
    spec = spec_of()
    kernel = load_artifact(artifacts(spec), launcher=kind)
    packed = torch.zeros(3, 2 * 2 * 16 + 4 * 16, dtype=torch.bfloat16)
    given = arguments_of(
        spec,
        q=packed[:, :32].view(3, 2, 16),
        k=packed[:, 32:64].view(3, 2, 16),
        v=packed[:, 64:].view(3, 4, 16),
        state=torch.zeros(10, 8, 16, 32)[::2, ::2, :, :16],
        cursors=torch.zeros(9, 6, dtype=torch.int32)[2:7],
        slots=torch.zeros(3, 5, dtype=torch.int64)[:, 2],
        rings=torch.zeros(9, dtype=torch.int32)[::3],
    )
    for name, value in given.items():
        if value.dtype == torch.bfloat16 and value.ndim == 2:
            given[name] = torch.zeros(4, 7, dtype=torch.bfloat16)[:, ::2].t()[:3] if value.shape == (3, 4) else value
    kernel(*given.values())
    expected = expected_slots(spec, given)
    assert recorded(kernel, len(expected))[0] == expected


def test_axes_of_size_one_have_no_stride(artifacts: Any, kind: str) -> None:
    """A stride that is never stepped along may be anything; the kernel is given 0."""
    spec = spec_of()
    kernel = load_artifact(artifacts(spec), launcher=kind)
    sizes = {"B": 1, "P": 1}
    given = arguments_of(spec, sizes)
    given["q"] = torch.zeros(64, dtype=torch.bfloat16).as_strided((1, 2, 16), (7, 16, 1))
    given["state"] = torch.zeros(2000).as_strided((1, 4, 16, 16), (3, 256, 16, 1))
    kernel(*given.values())
    expected = expected_slots(spec, given, sizes)
    assert recorded(kernel, len(expected))[0] == expected


@pytest.mark.parametrize("empty", ["B", "P"])
def test_nothing_to_do(artifacts: Any, kind: str, empty: str) -> None:
    spec = spec_of()
    kernel = load_artifact(artifacts(spec), launcher=kind)
    given = arguments_of(spec, {empty: 0})
    kernel(*given.values())
    assert calls(kernel) == (empty != "B")
    with pytest.raises(ArgumentError, match="q has dtype float64"):
        kernel(*{**given, "q": given["q"].double()}.values())


def test_parameters_may_require_gradients(artifacts: Any, kind: str) -> None:
    spec = spec_of()
    kernel = load_artifact(artifacts(spec), launcher=kind)
    given = arguments_of(spec)
    for name, value in given.items():
        if name in ("A_log", "dt_bias"):
            given[name] = torch.nn.Parameter(value)
    kernel(*given.values())
    assert calls(kernel) == 1


# --- what is refused


def changed(name: str, change: Callable[[torch.Tensor], Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda given: {**given, name: change(given[name])}


def misaligned(t: torch.Tensor) -> torch.Tensor:
    return torch.zeros(t.numel() + 1, dtype=t.dtype)[1:].view(t.shape)


def half_the_key_heads(name: str, t: torch.Tensor) -> torch.Tensor:
    if name in ("q", "k"):
        return t[:, :1]
    return t[:, :, :1] if t.shape[:3] == (4, 7, 2) else t


NEGATIVE: dict[str, tuple[Callable[[dict[str, Any]], dict[str, Any]], str]] = {
    "dtype": (changed("q", lambda t: t.half()), r"q has dtype float16; accepted: bfloat16; use .to\(torch.bfloat16\)"),
    "state dtype": (changed("state", lambda t: t.bfloat16()), "state has dtype bfloat16; accepted: float32; use"),
    "index dtype": (changed("slots", lambda t: t.float()), "slots has dtype float32; accepted: int32 or int64"),
    "index uint8": (changed("rings", lambda t: t.to(torch.uint8)), "rings has dtype uint8; accepted: int32 or int64"),
    "cursors int64": (changed("cursors", lambda t: t.long()), "cursors has dtype int64; accepted: int32"),
    "axes": (changed("q", lambda t: t[0]), r"q has 2 axes, shape \(2, 16\); accepted: 3 axes, shape \(B, H, 16\)"),
    "index axes": (changed("slots", lambda t: t[:, None]), r"slots has 2 axes.*accepted: 1 axes, shape \(B\)"),
    "size": (changed("q", lambda t: torch.zeros(3, 2, 32).bfloat16()), r"q has size 32 in axis 2.*accepted: 16 there"),
    "batch": (changed("rings", lambda t: t[:2]), r"rings has size 2 in axis 0, .*accepted: B = 3, as in slots"),
    "cursors columns": (changed("cursors", lambda t: t[:, :5].clone()), r"cursors has size 5.*P \+ 1 = 6, as in state"),
    "cursors rows": (changed("cursors", lambda t: t[:4]), "cursors has size 4 in axis 0.*accepted: 5 there"),
    "transposed state": (
        changed("state", lambda t: t.transpose(2, 3)),
        r"state has stride 16 in axis 3.*accepted: 1 there.*is the state of the other layout\? Load the kernel with it",
    ),
    "inner stride": (
        changed("q", lambda t: torch.zeros(3, 2, 32).bfloat16()[..., ::2]),
        "q has stride 2 in axis 2, .*accepted: 1 there; lay it out so that axis 2 is contiguous",
    ),
    "expanded axis": (
        changed("q", lambda t: t[..., :1].expand(3, 2, 16)), "q has stride 0 in axis 2.*accepted: 1 there"
    ),
    "base address": (
        changed("state", misaligned),
        "state has a base address that is not a multiple of 16 bytes; .*pad it to multiples of 4 elements",
    ),
    "stride alignment": (
        changed("k", lambda t: torch.zeros(3, 2, 20).bfloat16()[..., :16]),
        "k has stride 20 in axis 1 that is not a multiple of 16 bytes; .*pad it to multiples of 8 elements",
    ),
    "written twice": (
        changed("out", lambda t: t[:, :1].expand(3, 4, 16)), "out has elements that share memory.*was not expanded"
    ),
    "rows overlap": (
        changed("state", lambda t: t.as_strided(t.shape, (512, 256, 16, 1))), "state has elements that share memory"
    ),
    "out in an input": (
        lambda given: {**given, "out": given["v"]}, "out shares memory with v; accepted: memory of its own; pass a"
    ),
    "out in the state": (
        lambda given: {**given, "out": given["state"].view(torch.bfloat16)[2:, :, 3, :16]},
        "out shares memory with state",
    ),
    "out in the ring": (
        lambda given: {**given, "out": given["record_k"].flatten()[64 : 64 + 3 * 4 * 16].view(3, 4, 16)},
        "out shares memory with record_k",
    ),
    "short ring": (
        lambda given: {n: v[:, :4] if v.shape[:2] == (4, 7) else v for n, v in given.items()},
        r"gives R = 4; accepted: a ring of R >= max\(buffer, kv_only, window\) \+ window = 5 rows",
    ),
    "ratio": (
        lambda given: {n: half_the_key_heads(n, v) for n, v in given.items()},
        "gives H = 1, HV = 4; accepted: HV = 2",
    ),
    "device": (changed("v", lambda t: t.to("meta")), "v is on meta; accepted: a cpu device; move it there"),
    "sparse": (changed("q", lambda t: t.to_sparse()), "q has layout torch.sparse_coo; accepted: torch.strided"),
    "None": (changed("out", lambda t: None), "out is None; accepted: a torch.Tensor"),
    "number": (changed("slots", lambda t: 1), "slots is of type int; accepted: a torch.Tensor"),
    "list": (changed("slots", lambda t: [0, 1, 2]), "slots is of type list; accepted: a torch.Tensor"),
    "text": (changed("q", lambda t: "q"), "q is of type str; accepted: a torch.Tensor"),
    "missing": (
        lambda given: {n: v for n, v in given.items() if n != "out"}, "out is missing; accepted: state, .*or by name"
    ),
    "one more": (lambda given: {**given, "z": 1}, "arguments are given; accepted: .*: state, "),
}  # fmt: skip


@pytest.mark.parametrize("case", NEGATIVE)
def test_refused_by_name(artifacts: Any, kind: str, case: str) -> None:
    spec = spec_of()
    kernel = load_artifact(artifacts(spec), launcher=kind)
    change, message = NEGATIVE[case]
    with pytest.raises(ArgumentError, match=message) as caught:
        kernel(*change(arguments_of(spec)).values())
    assert str(caught.value).startswith(kernel.name)
    assert "\n" not in str(caught.value)
    assert calls(kernel) == 0


def test_outputs_beside_inputs_in_one_buffer(artifacts: Any, kind: str) -> None:
    """Slices of a packed row share no memory, whatever lies between them; a window's tokens have a step of their own.
    One element further, and they do."""
    for form, lead in (("decode", (3,)), ("verify", (3, 3)), ("decode", (1,)), ("verify", (1, 3))):
        spec = spec_of(form)
        kernel = load_artifact(artifacts(spec), launcher=kind)
        given = arguments_of(spec, {"B": lead[0]})
        packed = torch.zeros(*lead, 8 + 3 * 64 + 8).bfloat16()
        given["out"] = packed[..., 8:72].unflatten(-1, (4, 16))
        given["v"] = packed[..., 72:136].unflatten(-1, (4, 16))
        kernel(*given.values())
        given["v"] = packed[..., 64:128].unflatten(-1, (4, 16))
        with pytest.raises(ArgumentError, match="out shares memory with v"):
            kernel(*given.values())


def test_what_is_said_to_be_apart_is_apart() -> None:
    """Random views of one small buffer, against the sets of their elements."""
    generator, apart = torch.Generator().manual_seed(0), 0
    buffer = torch.arange(160)
    for _ in range(2000):
        views = []
        for _ in range(2):
            shape, stride = (torch.randint(lo, hi, (3,), generator=generator) for lo, hi in ((1, 4), (0, 16)))
            stride[0] = 24 if torch.rand((), generator=generator) < 0.7 else stride[0]
            start = torch.randint(0, 40, (), generator=generator)
            views.append(buffer.as_strided(shape.tolist(), stride.tolist(), int(start)))
        a, b = views
        if not _meet(a, b, b.data_ptr() - a.data_ptr()):
            apart += 1
            assert not set(a.flatten().tolist()) & set(b.flatten().tolist())
    assert apart > 200


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (2**31, "buffer is 2147483648; accepted: -2147483648 to 2147483647"),
        (2**70, "buffer is 1180591620717411303424; accepted"),
        (1.0, "buffer is of type float; accepted: an int"),
        (True, "buffer is of type bool; accepted: an int"),
        (None, "buffer is None; accepted: an int"),
        (torch.tensor(3), "buffer is of type torch.Tensor; accepted: an int"),
    ],
)
def test_refused_scalars(artifacts: Any, kind: str, value: Any, message: str) -> None:
    spec = spec_of("advance")
    kernel = load_artifact(artifacts(spec), launcher=kind)
    with pytest.raises(ArgumentError, match=message):
        kernel(*arguments_of(spec, buffer=value).values())
    assert calls(kernel) == 0


def test_refused_names(artifacts: Any, kind: str) -> None:
    spec = spec_of("advance")
    kernel = load_artifact(artifacts(spec), launcher=kind)
    given = arguments_of(spec)
    with pytest.raises(
        ArgumentError, match="z is not an argument; accepted: cursors, slots, form, buffer, kv_only, ring"
    ):
        kernel(**given, z=1)
    with pytest.raises(ArgumentError, match="cursors is given twice"):
        kernel(given["cursors"], **given)
    with pytest.raises(ArgumentError, match="form, ring is missing"):
        kernel(**{n: v for n, v in given.items() if n not in ("form", "ring")})


def test_cursors_bind_slots_where_no_state_does(artifacts: Any, kind: str) -> None:
    spec = spec_of("advance")
    kernel = load_artifact(artifacts(spec), launcher=kind)
    with pytest.raises(ArgumentError, match=r"cursors has size 0 in axis 1"):
        kernel(*arguments_of(spec, cursors=torch.zeros(5, 0, dtype=torch.int32)).values())


def test_integers_too_large_for_the_kernel(artifacts: Any, kind: str) -> None:
    """A size beyond int32 is refused, not cut: an expanded tensor has one without having the memory."""
    spec = spec_of("flush")
    artifact = artifacts(spec)
    kernel = load_artifact(artifact, launcher=kind)
    given = arguments_of(spec)
    huge = torch.zeros(1, dtype=torch.int32).expand(2**31)
    with pytest.raises(
        ArgumentError, match=r"B = 2147483648 gives the kernel's int32 argument 2147483648; accepted: -2147483648"
    ):
        kernel(*{**given, "slots": huge, "rings": huge}.values())
    assert calls(kernel) == 0


def test_failure_of_the_kernel_itself(artifacts: Any, kind: str) -> None:
    spec = spec_of("commit")
    kernel = load_artifact(artifacts(spec), launcher=kind)
    for answer in (3, -1):
        ctypes.c_int32.in_dll(kernel.module.library, "answer").value = answer
        with pytest.raises(KernelError, match=f"was not launched: the kernel returned {answer}"):
            kernel(*arguments_of(spec).values())


def test_both_launchers_agree_on_random_calls(artifacts: Any) -> None:
    """Whatever strides, sizes and dtypes: both accept with the same slots, or both refuse with the same words."""
    spec = spec_of("verify")
    native, fallback = (load_artifact(artifacts(spec), launcher=kind) for kind in ("native", "ctypes"))
    generator = torch.Generator().manual_seed(0)

    def draw(n: int) -> int:
        return int(torch.randint(n, (), generator=generator))

    outcomes = {True: 0, False: 0}
    for _ in range(400):
        given = arguments_of(spec, {"B": draw(4), "P": 1 + draw(3)})
        name = list(given)[draw(len(given))]
        value = given[name]
        storage = torch.zeros(20000, dtype=[value.dtype, torch.int64, torch.int32][max(draw(6) - 3, 0)])
        step = [1, 8, 16, 3][draw(4)]
        strides = [
            0 if draw(12) == 0 else s * (step if i < value.ndim - 1 else 1) for i, s in enumerate(value.stride())
        ]
        shape = [n if draw(10) else 1 + draw(3) for n in value.shape]
        reach = sum((n - 1) * s for n, s in zip(shape, strides, strict=True) if n)
        if reach + 8 < 20000:
            given[name] = storage[draw(2) * 4 :].as_strided(shape, strides)
        results: list[Any] = []
        for kernel in (native, fallback):
            try:
                kernel(*given.values())
                results.append(recorded(kernel, 60))
            except ArgumentError as error:
                results.append(str(error))
        assert results[0] == results[1]
        outcomes[isinstance(results[0], str)] += 1
    assert min(outcomes.values()) > 50, outcomes


# --- loading


def test_loading_refuses(artifacts: Any, tmp_path: Path) -> None:
    artifact = artifacts(spec_of())
    with pytest.raises(ArtifactError, match="built for cpu, the device is cuda"):
        loader.Kernel(artifact, _Elsewhere()).prepare()  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="accepted: cpu, cuda"):
        load_artifact(artifact, "meta")
    with pytest.raises(KernelError, match="launcher='fast'; accepted: 'native', 'ctypes', None"):
        load_artifact(artifact, launcher="fast")
    other = dataclasses.replace(artifact, files={"kernel.so": b"not an ELF file"})
    with pytest.raises(KernelError, match="cannot be loaded"):
        load_artifact(other)
    manifest = {**artifact.manifest, "launch": {**artifact.manifest["launch"], "entry": "absent"}}
    with pytest.raises(KernelError, match="the binary has no entry absent"):
        load_artifact(dataclasses.replace(artifact, manifest=manifest))


class _Elsewhere:
    addresses = (0, 0, 0, 0)

    def device(self, index: int) -> Any:
        from kvbuffer_codegen.artifact import Device

        return Device("cuda", "9.0")


def test_the_bytes_hashed_are_the_bytes_loaded(artifacts: Any, tmp_path: Path) -> None:
    spec = spec_of("advance")
    artifact = artifacts(spec)
    copy = read_artifact(write_artifact(tmp_path / "k", artifact.manifest, dict(artifact.files)))
    (tmp_path / "k" / "kernel.so").write_bytes(b"changed after it was read")
    load_artifact(copy)(*arguments_of(spec).values())


def test_two_kernels_of_one_binary_are_apart(artifacts: Any, kind: str) -> None:
    spec = spec_of("advance")
    first, second = (load_artifact(artifacts(spec), launcher=kind) for _ in range(2))
    first(*arguments_of(spec).values())
    assert (calls(first), calls(second)) == (1, 0)


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, artifacts: Any) -> None:
    monkeypatch.setenv("KVBUFFER_CODEGEN_CACHE", str(tmp_path / "cache"))
    for cached in (launcher._built, launcher.native_library, launcher.launcher_status):
        cached.cache_clear()
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.delenv("CXX", raising=False)
    try:
        status, reason = launcher.launcher_status()
        assert status == "ctypes"
        assert "no C++ compiler is found; install g++ or set CXX" in reason
        kernel = load_artifact(artifacts(spec_of("advance")))
        kernel(*arguments_of(spec_of("advance")).values())
        assert calls(kernel) == 1
        monkeypatch.setenv("CXX", "false")
        for cached in (launcher._built, launcher.native_library, launcher.launcher_status):
            cached.cache_clear()
        assert "false failed" in launcher.launcher_status()[1]
    finally:
        for cached in (launcher._built, launcher.native_library, launcher.launcher_status):
            cached.cache_clear()


def test_an_old_torch_is_told_what_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher, "torch", SimpleNamespace(Tensor=object, __version__="2.10.0"))
    with pytest.raises(KernelError, match=r"torch 2\.10\.0 has no DLPack.*accepted: torch 2\.11 and newer"):
        launcher.exchange_api()


def test_other_threads_run_meanwhile(tmp_path: Path, kind: str) -> None:
    """The GIL is free while a kernel runs: one that waits for a flag ends because another thread sets it."""
    spec = spec_of("advance")
    source = """
#include <stdint.h>
#include <unistd.h>
volatile int32_t flag;
int32_t entry(const uint64_t* arguments, const int64_t* grid) {
  for (int i = 0; i < 2000 && !flag; ++i) usleep(1000);
  return !flag;
}
"""
    binary = build_c(source, tmp_path / "k.so").read_bytes()
    artifact = read_artifact(write_artifact(tmp_path / "kernel", manifest_of(spec), {"k.so": binary}))
    kernel = load_artifact(artifact, launcher=kind)
    flag = ctypes.c_int32.in_dll(kernel.module.library, "flag")
    timer = threading.Timer(0.05, lambda: setattr(flag, "value", 1))
    timer.start()
    kernel(*arguments_of(spec).values())
    timer.join()


def test_load_kernel_asks_the_dispatcher(artifacts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}
    spec = spec_of("verify")

    def find(**key: Any) -> Artifact:
        asked.update(key)
        return artifacts(spec)

    monkeypatch.setattr("kvbuffer_codegen.runtime.dispatcher.find_kernel", find)
    kernel = loader.load_kernel(
        form="verify", recurrence="gated_delta_rule", heads=(2, 4), dims=(16, 16), io=torch.bfloat16, buffer=4, window=3
    )
    assert kernel.key == spec.key()
    assert asked == {
        "form": "verify",
        "recurrence": "gated_delta_rule",
        "heads": (2, 4),
        "dims": (16, 16),
        "io": torch.bfloat16,
        "state": "float32",
        "buffer": 4,
        "window": 3,
        "kv_only": 0,
        "layout": "VK",
        "records": "exact",
        "rounding": "nearest",
        "tree": False,
        "batch": 1,
        "device": "cpu",
    }


def test_no_compiler_and_no_tvm_ffi_is_imported(artifacts: Any) -> None:
    """Loading and calling through ctypes needs torch and the standard library."""
    spec = spec_of("advance")
    code = f"""
import sys
for name in ("tilelang", "triton", "tvm", "tvm_ffi", "jax"):
    sys.modules[name] = None
from pathlib import Path
import torch
from kvbuffer_codegen.runtime.loader import load_artifact
kernel = load_artifact(Path({str(artifacts(spec).folder)!r}), launcher="ctypes")
kernel(torch.zeros(5, 6, dtype=torch.int32), torch.zeros(3, dtype=torch.int32), 0, 4, 0, 7)
print("called")
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.stdout == "called\n", result.stderr


# --- cost


def test_host_time_of_a_call(artifacts: Any) -> None:
    """At most 8 us for a raw call (measured beside a bare Python call, so that a busy machine is not taken for a slow
    launcher)."""
    spec = spec_of("verify")
    kernel = load_artifact(artifacts(spec), launcher="native")
    given = tuple(arguments_of(spec).values())
    assert len(given) >= 15
    best = min(_time(kernel, given) for _ in range(20))
    assert best < 8e-6, f"{best * 1e6:.1f} us for {len(given)} arguments"


def _time(kernel: Kernel, given: tuple[Any, ...], count: int = 500) -> float:
    begin = time.perf_counter()
    for _ in range(count):
        kernel(*given)
    return (time.perf_counter() - begin) / count
