"""Portable kernels on a GPU: against the oracle, called raw and through a Pool, on side streams and in graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from inventions import INVENTIONS
from runtime_kit import Streams, error, make_pool
from triton_kit import kernel_of, spec_of

from kvbuffer_codegen import caches, checking
from kvbuffer_codegen.autotune.cases import Case
from kvbuffer_codegen.compiler.portable import add_portable, add_portable_cursors
from kvbuffer_codegen.ir.forms import KernelSpec, cursor_spec
from kvbuffer_codegen.ir.portable import CURSOR_FORMS, PORTABLE_FORMS
from kvbuffer_codegen.ir.recurrences import RECURRENCES, gated_delta_rule
from kvbuffer_codegen.runtime import dispatcher
from kvbuffer_codegen.runtime.dispatcher import FallbackWarning
from kvbuffer_codegen.runtime.errors import ArgumentError
from kvbuffer_codegen.runtime.triton_kernels import TritonKernel, available

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available() or not available(), reason="needs an NVIDIA GPU and triton"),
]
EVERY = (*RECURRENCES.values(), *INVENTIONS)
REAL = {"K": 128, "V": 128, "buffer": 16, "kv_only": 20}


def right(spec: KernelSpec, folder: Path, seeds: int = 1) -> None:
    result = checking.check_kernel(kernel_of(spec, "cuda", folder), spec, "cuda", seeds=seeds)
    assert result.ok, f"{spec.key()}: {result.reason}"


@pytest.mark.parametrize("form", PORTABLE_FORMS)
@pytest.mark.parametrize("one", EVERY, ids=lambda r: r.name)
def test_every_recurrence(one: Any, form: str, tmp_path: Path) -> None:
    right(spec_of(form, one, kv_only=6), tmp_path)
    right(spec_of(form, one, io="float32", state="float16", layout="KV"), tmp_path)


@pytest.mark.parametrize("form", CURSOR_FORMS)
def test_cursors(form: str, tmp_path: Path) -> None:
    right(cursor_spec(form), tmp_path)


@pytest.mark.parametrize("form", PORTABLE_FORMS)
@pytest.mark.parametrize("layout", ["VK", "KV"])
@pytest.mark.parametrize("state", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("io", ["float32", "bfloat16", "float16"])
def test_every_dtype_and_layout(io: str, state: str, layout: str, form: str, tmp_path: Path) -> None:
    right(spec_of(form, gated_delta_rule, io=io, state=state, layout=layout, kv_only=6), tmp_path)


@pytest.mark.parametrize("form", PORTABLE_FORMS)
@pytest.mark.parametrize("name", ["gated_delta_rule", "kda", "mamba2", "rwkv7"])
def test_sizes_of_models(name: str, form: str, tmp_path: Path) -> None:
    right(spec_of(form, RECURRENCES[name], **REAL), tmp_path, seeds=2)


@pytest.mark.parametrize(("K", "V"), [(1, 1), (16, 256), (80, 64), (96, 100), (192, 128), (256, 256)])
@pytest.mark.parametrize("form", PORTABLE_FORMS)
def test_widths(form: str, K: int, V: int, tmp_path: Path) -> None:
    right(spec_of(form, gated_delta_rule, K=K, V=V, buffer=3, state="bfloat16"), tmp_path)


@pytest.mark.parametrize("records", ["bf16", "hilo"])
@pytest.mark.parametrize("form", PORTABLE_FORMS)
def test_narrow_records(form: str, records: str, tmp_path: Path) -> None:
    right(spec_of(form, gated_delta_rule, records=records, kv_only=6), tmp_path)


@pytest.mark.parametrize(("buffer", "window"), [(1, 16), (64, 1), (16, 8)])
def test_windows_and_buffers(buffer: int, window: int, tmp_path: Path) -> None:
    right(spec_of("verify", gated_delta_rule, buffer=buffer, window=window, kv_only=64), tmp_path)


def on_gpu(case: Case) -> dict[str, Any]:
    return case.tensors("cuda")


def verdict(case: Case, given: dict[str, Any]) -> str:
    torch.cuda.synchronize()
    return checking.judge(case, {name: x.cpu() for name, x in given.items()}).reason


@pytest.mark.parametrize("form", PORTABLE_FORMS)
def test_a_graph_captured_on_a_side_stream_replays_with_other_rows(form: str, tmp_path: Path) -> None:
    spec = spec_of(form, gated_delta_rule, **REAL)
    kernel = kernel_of(spec, "cuda", tmp_path)
    kernel.prepare(torch.cuda.current_device())
    first, second = (Case(spec, gated_delta_rule, seed) for seed in (1, 2))
    given = on_gpu(first)
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.graph(graph, stream=stream):
        kernel(*checking.arguments_of(spec, given))
    for case in (first, second):
        for name, x in case.before.items():
            given[name].copy_(x)
        graph.replay()
        assert not verdict(case, given)


def test_it_runs_on_torchs_current_stream(tmp_path: Path) -> None:
    """Behind a long wait on a side stream the kernel has not run yet when the default stream reads."""
    case = Case(spec_of("decode", gated_delta_rule), gated_delta_rule, 0)
    kernel = kernel_of(case.spec, "cuda", tmp_path)
    kernel(*checking.arguments_of(case.spec, on_gpu(case)))  # compiles, which takes longer than the wait
    given, stream = on_gpu(case), torch.cuda.Stream()
    assert given["out"].isnan().all()  # loads these kernels too: loading waits for the device
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(400_000_000)
        kernel(*checking.arguments_of(case.spec, given))
    early = bool(given["out"].isnan().all().item())
    assert early
    assert not verdict(case, given)


def test_repeated_calls_allocate_nothing_and_give_the_same_bits(tmp_path: Path) -> None:
    case = Case(spec_of("verify", gated_delta_rule, **REAL), gated_delta_rule, 0)
    kernel = kernel_of(case.spec, "cuda", tmp_path)
    first, second = on_gpu(case), on_gpu(case)
    kernel(*checking.arguments_of(case.spec, first))
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    kernel(*checking.arguments_of(case.spec, second))
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == before
    for name, x in first.items():
        assert checking.same_bits(x.cpu(), second[name].cpu()), name


def test_int64_slots_of_any_stride(tmp_path: Path) -> None:
    case = Case(spec_of("verify", gated_delta_rule, kv_only=6), gated_delta_rule, 0)
    given = on_gpu(case)
    for name in ("slots", "rings", "lengths"):
        given[name] = given[name].long().repeat_interleave(3)[::3]
    kernel_of(case.spec, "cuda", tmp_path)(*checking.arguments_of(case.spec, given))
    assert not verdict(case, {**given, **{name: case.before[name] for name in ("slots", "rings", "lengths")}})


def test_more_than_65536_value_head_rows(tmp_path: Path) -> None:
    """Padding in front of a case's rows changes no bit of them."""
    case = Case(spec_of("decode", gated_delta_rule, K=16, V=16), gated_delta_rule, 0)
    kernel = kernel_of(case.spec, "cuda", tmp_path)
    small, large = on_gpu(case), on_gpu(case)
    padding = 65536 // small["out"].shape[1] + 1
    for name in ("slots", "rings"):
        none = torch.full((padding,), -1, dtype=torch.int32, device="cuda")
        large[name] = torch.cat([none, large[name]])
    for name in ("q", "k", "v", "a", "b", "out"):
        filler = torch.full((padding, *large[name].shape[1:]), torch.nan, dtype=large[name].dtype, device="cuda")
        large[name] = torch.cat([filler, large[name]])
    for given in (small, large):
        kernel(*checking.arguments_of(case.spec, given))
    assert not large["out"][:padding].any()
    large["out"] = large["out"][padding:]
    for name in ("out", "state", *(f.name for f in case.spec.record_layout.fields)):
        assert checking.same_bits(large[name].cpu(), small[name].cpu()), name


def test_what_a_compiled_kernel_refuses_is_refused(tmp_path: Path) -> None:
    case = Case(spec_of("decode", gated_delta_rule), gated_delta_rule, 0)
    kernel = kernel_of(case.spec, "cuda", tmp_path)
    given = on_gpu(case)
    with pytest.raises(ArgumentError, match="q is on cpu"):
        kernel(*checking.arguments_of(case.spec, {**given, "q": given["q"].cpu()}))
    with pytest.raises(ArgumentError, match="q has dtype float32"):
        kernel(*checking.arguments_of(case.spec, {**given, "q": given["q"].float()}))


@pytest.mark.parametrize("graphs", [False, True], ids=["eager", "graph"])
def test_a_pool_decodes_and_verifies_with_portable_kernels(
    graphs: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through the dispatcher and the operators, with folds, against the truth of the whole sequence.

    Tolerance 3e-5 of the largest value: 13 tokens of float32 arithmetic in another order than the oracle's.
    """
    monkeypatch.setenv(caches.CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setenv(caches.PATH_VARIABLE, "")
    monkeypatch.setattr(caches, "shipped_folder", lambda: tmp_path / "nothing")
    monkeypatch.setattr(dispatcher, "_warned", set())
    monkeypatch.setattr(dispatcher, "_loaded", {})
    add_portable(gated_delta_rule.normal_form, tmp_path / "kernels")
    add_portable_cursors(tmp_path / "kernels")
    pool = make_pool(device="cuda", form="decode")
    with pytest.warns(FallbackWarning, match="the portable Triton kernel serves"):
        pool.warmup(2)
    kinds = {form: dispatcher._loaded[pool._lookup.kernel(form, 2, 4 if form == "verify" else 0)] for form in FORMS}
    assert all(isinstance(kernel, TritonKernel) for kernel in kinds.values())
    streams = Streams(pool, 2, 13)
    slots = torch.tensor([1, 4], device="cuda")
    pool.load(1, streams.start[:, 0].cuda())
    pool.load(4, streams.start[:, 1].cuda())
    worst = play(pool, streams, slots, graphs)
    pool.check()
    assert worst < 3e-5
    pool.flush(slots)
    final = torch.stack([pool.materialize(slot) for slot in (1, 4)], 1).cpu()
    assert error(final, streams.truth[1][:, :, 12]) < 3e-5


FORMS = ("decode", "step", "verify", "flush", "advance", "commit")


def play(pool: Any, streams: Streams, slots: torch.Tensor, graphs: bool) -> float:
    """Nine tokens by decode and a window of four; the largest error of an output. ``graphs``: every step replayed."""
    worst = 0.0
    static = {layer: to_gpu(streams.layer(layer, [(0, 0), (1, 0)])) for layer in range(pool.layers)}
    outs = [torch.empty(2, pool.heads[1], pool.dims[1], device="cuda") for _ in range(pool.layers)]

    def step() -> None:
        for layer in range(pool.layers):
            pool.decode(layer, slots, **static[layer], out=outs[layer])
        pool.advance(slots)

    graph = torch.cuda.CUDAGraph() if graphs else None
    if graph:
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            step()
    for t in range(9):
        for layer in range(pool.layers):
            for name, x in to_gpu(streams.layer(layer, [(0, t), (1, t)])).items():
                static[layer][name].copy_(x)
        if graph:
            graph.replay()
        else:
            step()
        worst = max(worst, *(error(outs[y].cpu(), streams.truth[0][y, :, t]) for y in range(pool.layers)))
    for layer in range(pool.layers):
        given = to_gpu(streams.layer(layer, [(0, 9), (1, 9)], 4))
        out = torch.empty(2, 4, pool.heads[1], pool.dims[1], device="cuda")
        pool.verify(layer, slots, **given, out=out)
        worst = max(worst, error(out.cpu(), streams.truth[0][layer, :, 9:13]))
    pool.commit(slots, torch.tensor([4, 4], device="cuda"))
    return worst


def to_gpu(given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: x.cuda() for name, x in given.items()}
