"""What the runtime's tests share: compiled CPU kernels in an index of their own, pools on them or on the torch
reference, and the truth.

A kernel is built once: artifacts are kept in `.cache/test-kernels`, in a folder named after the sources that they are
made from.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from kvbuffer_codegen import caches
from kvbuffer_codegen.artifact import cpu_device, read_artifact
from kvbuffer_codegen.index import Choice, read_index, update_index
from kvbuffer_codegen.ir import oracle
from kvbuffer_codegen.ir.forms import KernelSpec
from kvbuffer_codegen.ir.recurrences import gated_delta_rule
from kvbuffer_codegen.runtime import Pool, dispatcher

ROOT = Path(__file__).parent.parent
BACKENDS = ("reference", "cpu")
PARAMETERS = tuple(a.name for a in gated_delta_rule.arguments if a.parameter)
TORCH = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}

#: Largest error of an output or state against float64, relative to the largest value beside it: one rounding of what is
#: stored, twice over, and float32 sums in another order (observed 2e-7 to 2e-6).
TOLERANCE = {"float32": 1e-5, "bfloat16": 2.0**-7, "float16": 2.0**-10}


def needs_gpu(test: Any) -> Any:
    skip = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
    return pytest.mark.gpu(skip(test))


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Tensors here are tiny: threads cost more than they save, and other processes may want them."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@functools.cache
def kernel_folder() -> Path:
    sources = sorted(p for d in ("ir", "schedules", "kvbuffer_codegen/compiler") for p in (ROOT / d).rglob("*.py"))
    sources += [ROOT / "kvbuffer_codegen" / name for name in ("manifest.py", "artifact.py", "index.py")]
    digest = hashlib.sha256(b"".join(p.read_bytes() for p in sources)).hexdigest()[:16]
    folder = ROOT / ".cache" / "test-kernels" / digest
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@functools.cache
def build(spec: KernelSpec) -> Path:
    """The artifact of ``spec`` with its default schedule for this CPU, listed with a choice for any number of rows."""
    folder = kernel_folder()
    if spec.name not in read_index(folder).artifacts:
        from kvbuffer_codegen.compiler.build import build as compile_artifact
        from kvbuffer_codegen.schedules import space
        from kvbuffer_codegen.schedules.targets import target

        cpu = target("cpu")
        compile_artifact(spec, space.default(spec, cpu), cpu, folder / spec.name)
        choice = Choice(spec.key(), (0, None), cpu_device().capability, spec.name, default=True)
        update_index(folder, {spec.name: read_artifact(folder / spec.name).digest}, [choice])
    return folder / spec.name


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Where kernels come from: the torch reference alone, or compiled ones for this CPU, built as they are met."""
    return use(request.param, monkeypatch, tmp_path)


def use(name: str, monkeypatch: pytest.MonkeyPatch, empty: Path) -> str:
    monkeypatch.setenv(caches.CACHE_VARIABLE, str(empty))
    monkeypatch.setenv(caches.PATH_VARIABLE, str(kernel_folder()) if name == "cpu" else "")
    if name == "cpu":
        select = dispatcher.select
        monkeypatch.setattr(
            dispatcher, "select", lambda spec, *rest, **more: build(spec) and select(spec, *rest, **more)
        )
    return name


CONFIG: dict[str, Any] = {
    "recurrence": gated_delta_rule,
    "layers": 2,
    "slots": 6,
    "heads": (2, 4),
    "dims": (16, 16),
    "io": "float32",
    "state": "float32",
    "buffer": 4,
    "max_window": 4,
    "device": "cpu",
}


def make_pool(**changes: Any) -> Pool:
    """A pool of CONFIG with ``changes``."""
    return Pool(**(CONFIG | changes))


class Streams:
    """Random tokens of several requests over the layers of a pool, and the truth of each.

    ``inputs[name]``: [layers, requests, tokens, ...], parameters [layers, ...], rounded to their dtype. ``start``:
    states [layers, requests, HV, V, K].
    """

    def __init__(self, pool: Pool, requests: int, tokens: int, seed: int = 0, zero: bool = False):
        generator = torch.Generator().manual_seed(seed)
        (H, HV), (K, V) = pool.heads, pool.dims
        sizes = {"key": H, "value": HV, "K": K, "V": V}
        self.pool, self.requests, self.tokens = pool, requests, tokens
        self.inputs: dict[str, Tensor] = {}
        for a in pool.recurrence.arguments:
            lead = (pool.layers,) if a.parameter else (pool.layers, requests, tokens)
            shape = (*lead, *((a.count,) if a.count else ()), sizes[a.heads], *((sizes[a.axis],) if a.axis else ()))
            dtype = torch.float32 if a.parameter else pool.io
            self.inputs[a.name] = torch.randn(shape, generator=generator).to(dtype)
        shape = (pool.layers, requests, HV, V, K)
        self.start = torch.zeros(shape) if zero else torch.randn(shape, generator=generator) * 0.5
        self.start = self.start.to(pool.state).float()

    def layer(self, layer: int, rows: list[tuple[int, int]], T: int | None = None) -> dict[str, Tensor]:
        """Inputs of one call: row b is token (or T tokens from) ``rows[b] = (request, token)``; request -1: NaN."""
        made = {}
        for name, x in self.inputs.items():
            if name in PARAMETERS:
                made[name] = x[layer]
                continue
            blank = torch.full_like(x[0, 0, 0], torch.nan)
            made[name] = torch.stack([self._row(x[layer], blank, request, token, T) for request, token in rows])
        return made

    def _row(self, x: Tensor, blank: Tensor, request: int, token: int, T: int | None) -> Tensor:
        if T is None:
            return x[request, token] if request >= 0 else blank
        tokens = range(token, token + T)
        return torch.stack([x[request, t] if request >= 0 and t < self.tokens else blank for t in tokens])

    @functools.cached_property
    def truth(self) -> tuple[np.ndarray, np.ndarray]:
        """float64 outputs [layers, requests, tokens, HV, V] and states after every token [.., HV, V, K]."""
        outputs, states = [], []
        for layer in range(self.pool.layers):
            for request in range(self.requests):
                given = {
                    n: (x[layer] if n in PARAMETERS else x[layer, request]).double().numpy()
                    for n, x in self.inputs.items()
                }
                out, state = oracle.run(gated_delta_rule, given, self.start[layer, request].double().numpy())
                outputs.append(out)
                states.append(state)
        lead = (self.pool.layers, self.requests)
        return np.reshape(outputs, (*lead, *outputs[0].shape)), np.reshape(states, (*lead, *states[0].shape))


def error(got: Tensor, want: np.ndarray) -> float:
    """Largest difference, relative to the largest wanted value; NaN where something is NaN."""
    difference = np.abs(got.double().numpy() - want).max(initial=0.0)
    return float(difference / max(np.abs(want).max(initial=0.0), 1e-30))
