"""The forms as torch operators: schemas, fakes, compiled graphs, captured graphs."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
import torch
from runtime_kit import Streams, make_pool, needs_gpu
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from kvbuffer_codegen.checking import same_bits
from kvbuffer_codegen.runtime import Pool, ops

pytestmark = [pytest.mark.filterwarnings("ignore:No .* kernel"), pytest.mark.usefixtures("one_thread")]
SLOTS = [3, -1, 0]


def calls_of(pool: Pool) -> dict[str, tuple[Any, ...]]:
    """Arguments of one call of every operator."""
    streams, rows = Streams(pool, 2, 8), [(1, 0), (-1, 0), (0, 0)]
    slots, memory = torch.tensor(SLOTS), pool._memory
    state, records = pool._layers[0]
    layer = (state, records, memory.cursors, slots, slots)
    token, window = (list(streams.layer(0, rows, T).values()) for T in (None, 4))
    sizes = (pool.buffer, pool.kv_only, pool.rows)
    path = (torch.tensor([1, 0, 2]), torch.zeros(3, 2, dtype=torch.int32), torch.full((3, 4), -1))
    return {
        "decode": (pool._lookup.kernel("decode", 3), *layer, token, torch.zeros(3, 4, 16)),
        "step": (pool._lookup.kernel("step", 3), *layer, token, torch.zeros(3, 4, 16)),
        "verify": (
            pool._lookup.kernel("verify", 3, 4),
            *layer,
            torch.tensor([4, 4, 2]),
            window,
            torch.zeros(3, 4, 4, 16),
        ),
        "flush": (pool._lookup.kernel("flush", 3), memory.state, memory.records, memory.cursors, slots, slots, []),
        "advance": (pool._lookup.kernel("advance", 1), memory.cursors, slots, 0, *sizes),
        "commit": (pool._lookup.kernel("commit", 1), memory.cursors, slots, torch.tensor([1, 0, 2]), *sizes),
        "compact": (pool._lookup.kernel("compact", 1), memory.records, memory.cursors, slots, slots, *path),
        "commit_path": (pool._lookup.kernel("commit_path", 1), memory.cursors, slots, *path, *sizes),
    }


@pytest.mark.parametrize("form", list(ops.SCHEMAS))
def test_opcheck(backend: str, form: str) -> None:
    arguments = calls_of(make_pool())[form]
    torch.library.opcheck(getattr(ops, form), arguments)


def test_a_kernel_that_is_not_loaded_is_named() -> None:
    with pytest.raises(KeyError, match=r"kvb_nothing.*not loaded"):
        ops.advance("kvb_nothing", torch.zeros(5, 2, dtype=torch.int32), torch.tensor([0]), 0, 1, 0, 2)


def token_step(pool: Pool, slots: Tensor, inputs: list[dict[str, Tensor]]) -> list[Tensor]:
    outs = [pool.decode(layer, slots, **given) * 2 for layer, given in enumerate(inputs)]
    pool.advance(slots)
    return outs


def speculation(pool: Pool, slots: Tensor, inputs: list[dict[str, Tensor]], accepted: Tensor) -> list[Tensor]:
    outs = [pool.verify(layer, slots, **given) * 2 for layer, given in enumerate(inputs)]
    pool.commit(slots, accepted)
    return outs


def check_compiled(compiler: str) -> None:
    """torch.compile with mutating kernels: no error, no NaN, no recompilation, the bits of eager calls."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    eager, compiled = make_pool(form="decode"), make_pool(form="decode")
    streams, slots = Streams(eager, 2, 16), torch.tensor([3, 0])
    for pool in (eager, compiled):
        pool.load([0, 3], streams.start)
    step, window = (
        torch.compile(f, fullgraph=True, backend=compiler, dynamic=False) for f in (token_step, speculation)
    )
    for t in range(6):
        inputs = [streams.layer(layer, [(1, t), (0, t)]) for layer in range(2)]
        for a, b in zip(token_step(eager, slots, inputs), step(compiled, slots, inputs), strict=True):
            assert same_bits(a, b)
        inputs = [streams.layer(layer, [(1, t), (0, t)], 4) for layer in range(2)]
        accepted = torch.tensor([t % 5, 1])
        wanted = speculation(eager, slots, inputs, accepted)
        for a, b in zip(wanted, window(compiled, slots, inputs, accepted), strict=True):
            assert same_bits(a, b)
    for a, b in zip((eager._memory.state, eager._cursors), (compiled._memory.state, compiled._cursors), strict=True):
        assert same_bits(a, b)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 2


def test_full_graph(backend: str) -> None:
    check_compiled("aot_eager")


@pytest.mark.slow
def test_inductor(backend: str) -> None:
    check_compiled("inductor")


@pytest.mark.slow
def test_inductor_copies_no_pool(backend: str) -> None:
    """A functionalised mutation that is not undone again would clone the pool in every call."""
    from torch._inductor.utils import run_and_get_code

    torch._dynamo.reset()
    pool = make_pool(form="decode")
    streams, slots = Streams(pool, 2, 8), torch.tensor([3, 0])
    inputs = [streams.layer(layer, [(1, 0), (0, 0)]) for layer in range(2)]
    _, (code,) = run_and_get_code(torch.compile(token_step, fullgraph=True), pool, slots, inputs)
    assert code.count("kvbuffer_codegen.decode.default(") == 2
    assert "clone" not in code
    assert "(6, 4, 16, 16)" not in [line for line in code.splitlines() if "empty_strided" in line]


class Seen(TorchDispatchMode):
    """Names of the operations that ran."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.add(str(func.overloadpacket))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("backend", ["cpu"], indirect=True)
def test_a_call_allocates_nothing_and_reads_nothing_back(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pool, slots = make_pool(form="decode", layers=1), torch.tensor(SLOTS)
    streams, rows = Streams(pool, 2, 8), [(1, 0), (-1, 0), (0, 0)]
    token, window = (streams.layer(0, rows, T) for T in (None, 4))
    dst, parents, path = torch.tensor([4, -1, 5]), torch.tensor([[-1, 0, 0, 2]] * 3), torch.tensor([[0, 2]] * 3)
    out, outs, accepted = torch.empty(3, 4, 16), torch.empty(3, 4, 4, 16), torch.tensor([2, 0, 1])

    def cycle() -> None:
        for form in ("decode", "step"):
            getattr(pool, form)(0, slots, out=out, **token)
            pool.advance(slots)
        pool.verify(0, slots, out=outs, **window)
        pool.commit(slots, accepted)
        pool.flush(slots)

    def tree() -> None:
        pool.flush(slots, dst)
        pool.verify(0, slots, out=outs, parents=parents, **window)
        pool.commit(slots, accepted, path)

    cycle()
    tree()
    monkeypatch.setattr(pool, "_check_tree", lambda *_: None)  # what a CPU's tensors allow, and a GPU's do not
    with Seen() as seen:
        cycle()
        tree()
    assert seen.names == {
        "aten.as_strided",
        *(f"kvbuffer_codegen.{form}" for form in ops.SCHEMAS),
    }  # a view, and kernels
    tracemalloc.start()
    try:
        cycle()
        before = tracemalloc.take_snapshot()
        for _ in range(50):
            cycle()
        grown = sum(s.size_diff for s in tracemalloc.take_snapshot().compare_to(before, "filename") if s.size_diff > 0)
    finally:
        tracemalloc.stop()
    assert grown < 20_000  # what tracemalloc itself keeps; one leaked tensor a call would be more


@needs_gpu
def test_a_graph_on_a_side_stream_replays_with_other_rows() -> None:
    """Captured at B = 4 with padding, replayed with other slots: only their rows move, and nothing is allocated."""
    pool = make_pool(form="decode", device="cuda")
    streams = Streams(pool, 3, 1)
    pool.load([0, 2, 4], streams.start.cuda())
    slots = torch.tensor([-1, 0, 2, -1], device="cuda")
    inputs = [{n: x.cuda() for n, x in streams.layer(i, [(-1, 0), (0, 0), (1, 0), (-1, 0)]).items()} for i in range(2)]
    pool.warmup(4)
    side = torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        outs = token_step(pool, slots, inputs)
    slots.copy_(torch.tensor([-1, -1, 4, -1]))
    pool.reset([0, 2])
    torch.cuda.synchronize()
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    graph.replay()
    torch.cuda.synchronize()
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == before
    assert pool.pending.tolist() == [0, 0, 0, 0, 1, 0]
    assert (outs[0][[0, 1, 3]] == 0).all()
