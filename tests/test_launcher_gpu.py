"""Both launchers on a real GPU: arguments, streams, graphs, threads, shared memory, a second device if there is one."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_kernels import arguments_of, expected_slots, manifest_of, spec_of

from kvbuffer_codegen.artifact import Artifact, read_artifact, write_artifact
from kvbuffer_codegen.ir.forms import KernelSpec
from kvbuffer_codegen.runtime.loader import Kernel, load_artifact

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available() or not shutil.which("nvcc"), reason="needs a GPU and nvcc"),
]
SHARED = 100_000


def recorder(slots: list[dict[str, str]]) -> str:
    """A kernel that adds 1 to the first word of its first argument and records every argument behind it."""
    types = [
        "uint64_t" if "pointer" in s else {"int32": "int", "int64": "int64_t", "float32": "float"}[s["dtype"]]
        for s in slots
    ]
    parameters = ", ".join(f"{t} a{i}" for i, t in enumerate(types))
    stores = "\n".join(
        f"  record[{i} + 1] = {f'__float_as_uint(a{i})' if t == 'float' else f'(int64_t)a{i}'};"
        for i, t in enumerate(types)
    )
    return f"""#include <stdint.h>
extern __shared__ char scratch[];
extern "C" __global__ void entry({parameters}) {{
  if (blockIdx.x || blockIdx.y || threadIdx.x) return;
  ((volatile char*)scratch)[{SHARED} - 1] = 1;
  volatile int64_t* record = (int64_t*)a0;
  record[0] += 1;
{stores}
}}
"""


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    folder = tmp_path_factory.mktemp("gpu")
    manifest = manifest_of(spec_of(), "cuda", SHARED)
    major, minor = torch.cuda.get_device_capability()
    manifest["target"]["capabilities"] = [f"{major}.{minor}"]
    (folder / "entry.cu").write_text(recorder(manifest["launch"]["arguments"]))
    command = [
        "nvcc",
        "-cubin",
        f"-arch=sm_{major}{minor}",
        "-o",
        str(folder / "entry.cubin"),
        str(folder / "entry.cu"),
    ]
    subprocess.run(command, check=True)
    return read_artifact(
        write_artifact(folder / "kernel", manifest, {"entry.cubin": (folder / "entry.cubin").read_bytes()})
    )


@pytest.fixture(params=["native", "ctypes"])
def kernel(request: pytest.FixtureRequest, artifact: Artifact) -> Kernel:
    return load_artifact(artifact, "cuda:0", request.param)


def on(device: str, spec: KernelSpec) -> dict[str, Any]:
    return {name: value.to(device) for name, value in arguments_of(spec, {"P": 50}).items()}


def record(given: dict[str, Any], count: int) -> tuple[int, list[int]]:
    torch.cuda.synchronize(given["state"].device)
    first, *rest = given["state"].view(torch.int64).flatten()[: count + 1].tolist()
    return first, rest


def test_arguments(kernel: Kernel) -> None:
    given = on("cuda:0", spec_of())
    kernel(*given.values())
    expected = expected_slots(spec_of(), given, {"P": 50})
    assert record(given, len(expected)) == (1, expected)


def test_runs_on_torchs_current_stream(kernel: Kernel) -> None:
    """Behind a long wait on a side stream the kernel has not run yet when the default stream reads."""
    given = on("cuda:0", spec_of())
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(400_000_000)
        kernel(*given.values())
    seen = given["state"].view(torch.int64).flatten()[0].item()  # waits for the default stream alone
    stream.synchronize()
    assert (seen, record(given, 0)[0]) == (0, 1)


def test_graph(kernel: Kernel) -> None:
    given = on("cuda:0", spec_of())
    graph = torch.cuda.CUDAGraph()
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=stream):
        kernel(*given.values())
    assert record(given, 0)[0] == 0
    for _ in range(3):
        graph.replay()
    assert record(given, 0)[0] == 3


def test_no_allocation_and_no_wait(kernel: Kernel) -> None:
    given = on("cuda:0", spec_of())
    kernel(*given.values())
    torch.cuda.synchronize()
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    torch.cuda._sleep(400_000_000)
    begin = time.perf_counter()
    kernel(*given.values())
    took = time.perf_counter() - begin
    busy = not torch.cuda.current_stream().query()
    assert busy
    assert took < 0.02
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == before


def test_from_a_fresh_thread(kernel: Kernel) -> None:
    given = on("cuda:0", spec_of())
    values = tuple(given.values())
    thread = threading.Thread(target=kernel, args=values)
    thread.start()
    thread.join()
    assert record(given, 0)[0] == 1


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_second_device(kernel: Kernel) -> None:
    """Tensors decide where a kernel runs, not torch's current device."""
    given = on("cuda:1", spec_of())
    kernel(*given.values())
    expected = expected_slots(spec_of(), given, {"P": 50})
    assert record(given, len(expected)) == (1, expected)
    assert torch.cuda.current_device() == 0
    with pytest.raises(ValueError, match="is on cuda:1; accepted: cuda:0, as the others"):
        kernel(*{**on("cuda:0", spec_of()), "q": given["q"]}.values())


def test_host_time(artifact: Artifact) -> None:
    """At most 8 us a raw call, measured while the queue has room."""
    kernel = load_artifact(artifact, "cuda:0", "native")
    given = tuple(on("cuda:0", spec_of()).values())
    times = []
    for _ in range(50):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(100):
            kernel(*given)
        times.append((time.perf_counter() - begin) / 100)
    best, median = min(times) * 1e6, sorted(times)[25] * 1e6
    print(f"native launcher: {best:.2f} us at best, {median:.2f} us median, {len(given)} arguments")
    assert min(times) < 8e-6


def test_wrong_device_is_refused(kernel: Kernel) -> None:
    given = on("cuda:0", spec_of())
    with pytest.raises(ValueError, match="q is on cpu; accepted: a cuda device"):
        kernel(*{**given, "q": given["q"].cpu()}.values())


def test_cubin_for_another_gpu(artifact: Artifact, tmp_path: Path) -> None:
    manifest = {**artifact.manifest, "target": {**artifact.manifest["target"], "capabilities": ["1.0"]}}
    other = read_artifact(write_artifact(tmp_path / "k", manifest, dict(artifact.files)))
    with pytest.raises(ValueError, match=r"built for compute capability 1.0, the device has"):
        load_artifact(other, "cuda:0")
