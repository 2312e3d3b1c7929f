"""The pool with trees of drafts, second slots of flush, and prompts that come in either way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from runtime_kit import PARAMETERS, Streams, error, make_pool

from kvbuffer_codegen.autotune.tree_cases import draw_parents, path_to
from kvbuffer_codegen.checking import same_bits
from kvbuffer_codegen.ir import oracle
from kvbuffer_codegen.ir.recurrences import gated_delta_rule
from kvbuffer_codegen.ir.signature import FAULT_PARENT, FAULT_PATH, FAULT_TARGET
from kvbuffer_codegen.runtime import ArgumentError, FaultError, OrderError, Pool

pytestmark = [pytest.mark.filterwarnings("ignore:No .* kernel"), pytest.mark.usefixtures("one_thread")]
ROW = torch.tensor([2])


@pytest.fixture
def reference(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    from runtime_kit import use

    use("reference", monkeypatch, tmp_path)


def verify(pool: Pool, streams: Streams, first: int, parents: Any, slots: torch.Tensor = ROW) -> torch.Tensor:
    """A tree of request 0's tokens from ``first`` on, in every layer: outputs [layers, B, T, HV, V]."""
    tree = torch.tensor(np.atleast_2d(parents))
    outs = [
        pool.verify(layer, slots, parents=tree, **streams.layer(layer, [(0, first)] * len(slots), tree.shape[1]))
        for layer in range(pool.layers)
    ]
    return torch.stack(outs)


def truth(streams: Streams, tokens: list[int]) -> tuple[Any, Any]:
    """float64 outputs of the last of request 0's ``tokens`` and states after it, [layers, ...]."""
    made = []
    for layer in range(streams.pool.layers):
        given = {n: (x[layer] if n in PARAMETERS else x[layer, 0][tokens]) for n, x in streams.inputs.items()}
        given = {n: x.double().numpy() for n, x in given.items()}
        out, state = oracle.run(gated_delta_rule, given, streams.start[layer, 0].double().numpy())
        made.append((out[-1], state[-1]))
    return np.stack([out for out, _ in made]), np.stack([state for _, state in made])


@pytest.mark.parametrize("kv_only", [0, 6])
def test_drafts_in_trees_follow_the_oracle(backend: str, kv_only: int) -> None:
    """Trees on partly filled buffers, of each a path accepted, decode steps and flushes in between."""
    pool = make_pool(kv_only=kv_only, max_window=7, form="decode")
    streams, done, rng = Streams(pool, 1, 80, zero=True), [], np.random.default_rng(1)
    if not kv_only:
        pool.load(2, streams.start[:, 0])
    for turn, parents in enumerate(draw_parents(6, 7, rng)):
        outs = verify(pool, streams, 8 * turn, parents)
        for t in range(7):
            want = truth(streams, [*done, *(8 * turn + s for s in path_to(parents, t))])[0]
            assert error(outs[:, 0, t], want) < 1e-5
        path = path_to(parents, int(rng.integers(0, 7)))
        nodes = torch.tensor([[*path, *[-1] * (7 - len(path))]])
        pool.commit(ROW, torch.tensor([len(path)]), nodes)
        done += [8 * turn + s for s in path]
        assert error(pool.materialize(2), truth(streams, done)[1]) < 1e-5
        for layer in range(pool.layers):
            pool.decode(layer, ROW, **streams.layer(layer, [(0, 8 * turn + 7)]))
        pool.advance(ROW)
        done.append(8 * turn + 7)
        if turn == 3:
            pool.flush(ROW)
    assert error(pool.materialize(2), truth(streams, done)[1]) < 1e-5
    pool.check()


@pytest.mark.usefixtures("reference")
def test_a_tree_of_64_nodes_and_chains_of_16() -> None:
    pool = make_pool(max_window=64)
    streams = Streams(pool, 1, 64)
    pool.load(2, streams.start[:, 0])
    parents = draw_parents(1, 64, np.random.default_rng(0))[0]
    outs = verify(pool, streams, 0, parents)
    for t in (0, 31, 63):
        assert error(outs[:, 0, t], truth(streams, path_to(parents, t))[0]) < 1e-5
    pool.commit(ROW, torch.tensor([0]), torch.full((1, 64), -1))
    with pytest.raises(ValueError, match="1 to 16 for a chain"):
        pool.verify(0, ROW, **streams.layer(0, [(0, 0)], 17))
    pool.warmup(2, trees=[64], publish=True)
    prompt = {name: x if name in PARAMETERS else x[:, 0] for name, x in streams.inputs.items()}
    assert error(pool.ingest(2, **prompt)[:, -1], truth(streams, list(range(64)))[0]) < 1e-5


@pytest.mark.usefixtures("reference")
def test_bad_trees_are_named_and_touch_nothing() -> None:
    pool = make_pool()
    streams = Streams(pool, 1, 8)
    pool.load(2, streams.start[:, 0])
    before = [x.clone() for x in (pool._memory.state, pool._cursors, *pool._memory.records)]
    for bad, said in (([-1, 1, 0, 0], "parents[0, 1] is 1"), ([-1, 0, -2, 0], "parents[0, 2] is -2")):
        with pytest.raises(ValueError, match=said.replace("[", r"\[")):
            verify(pool, streams, 0, bad)
    for tree in (torch.zeros(4), torch.zeros(1, 4), torch.zeros(4, dtype=torch.int32), torch.zeros(1, 3).long() - 1):
        with pytest.raises((ValueError, ArgumentError), match="parents"):
            pool.verify(0, ROW, parents=tree, **streams.layer(0, [(0, 0)], 4))
    assert all(
        same_bits(a, b) for a, b in zip(before, (pool._memory.state, pool._cursors, *pool._memory.records), strict=True)
    )


@pytest.mark.usefixtures("reference")
def test_chains_and_trees_do_not_mix() -> None:
    pool = make_pool()
    streams = Streams(pool, 1, 8)
    pool.verify(0, ROW, parents=torch.tensor([[-1, 0, 0, 1]]), **streams.layer(0, [(0, 0)], 4))
    with pytest.raises(OrderError, match="began as a tree"):
        pool.verify(1, ROW, **streams.layer(1, [(0, 0)], 4))
    pool.verify(1, ROW, parents=torch.tensor([[-1, 0, 0, 1]]), **streams.layer(1, [(0, 0)], 4))
    with pytest.raises(OrderError, match="path is missing"):
        pool.commit(ROW, torch.tensor([2]))
    pool.commit(ROW, torch.tensor([2]), torch.tensor([[0, 2]]))
    for layer in range(2):
        pool.verify(layer, ROW, **streams.layer(layer, [(0, 0)], 4))
    with pytest.raises(OrderError, match="path is given"):
        pool.commit(ROW, torch.tensor([1]), torch.tensor([[0]]))


@pytest.mark.parametrize("path", [[0, 3], [1, 0], [3, 3], [2, -1]])
def test_a_path_that_is_none_accepts_nothing(backend: str, path: list[int]) -> None:
    pool = make_pool()
    streams = Streams(pool, 1, 8)
    pool.load(2, streams.start[:, 0])
    verify(pool, streams, 0, [-1, 0, 0, 1])
    pool.commit(ROW, torch.tensor([2]), torch.tensor([path]))
    assert int(pool.faults[2]) == FAULT_PATH
    with pytest.raises(FaultError, match="slot 2: a path"):
        pool.check()
    assert same_bits(pool.materialize(2), streams.start[:, 0])


@pytest.mark.usefixtures("reference")
def test_a_fault_of_parents_has_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = make_pool()
    streams = Streams(pool, 1, 8)
    monkeypatch.setattr(pool, "_check_tree", lambda *_: None)  # as on a GPU
    verify(pool, streams, 0, [-1, 1, 0, 1])
    assert int(pool.faults[2]) == FAULT_PARENT
    with pytest.raises(FaultError, match="not topologically ordered"):
        pool.check()


def test_a_prefix_is_published_and_the_row_goes_on(backend: str) -> None:
    """The second slot holds the state after exactly the committed tokens; the row keeps records and cursors."""
    for tokens in range(5):
        pool = make_pool(form="decode", kv_only=3)
        streams = Streams(pool, 1, 12, zero=True)
        for t in range(tokens):
            for layer in range(2):
                pool.decode(layer, ROW, **streams.layer(layer, [(0, t)]))
            pool.advance(ROW)
        before = [x.clone() for x in (pool._cursors[:, 2], pool._memory.state[:, 2])]
        pool.flush(torch.tensor([2, -1, 2]), torch.tensor([5, 1, -1]))
        for x, y in zip(before, (pool._cursors[:, 2], pool._memory.state[:, 2]), strict=True):
            assert same_bits(x, y)
        assert pool._cursors[:, 5].tolist() == [0] * 5
        want = truth(streams, list(range(tokens)))[1] if tokens else np.zeros((2, 4, 16, 16))
        assert error(pool._memory.state[:, 5], want) < 1e-5
        for slot in (2, 5):
            out = torch.stack([pool.decode(i, torch.tensor([slot]), **streams.layer(i, [(0, 9)])) for i in range(2)])
            pool.advance(torch.tensor([slot]))
            assert error(out[:, 0], truth(streams, [*range(tokens), 9])[0]) < 1e-5
        pool.check()


@pytest.mark.usefixtures("reference")
def test_second_slots_that_are_none() -> None:
    pool = make_pool()
    for dst in (6, -7, 2):
        pool.flush(ROW, torch.tensor([dst]))
        assert int(pool.faults[2]) == FAULT_TARGET
        with pytest.raises(FaultError, match="slot 2: a dst"):
            pool.check()
    for wrong in (torch.tensor([0.5]), torch.tensor([1, 2])):
        with pytest.raises(ArgumentError, match="dst"):
            pool.flush(ROW, wrong)
    careful = make_pool(debug=True)
    for slots, dst in (([0, 1], [1, 3]), ([0, 1], [3, 3])):
        with pytest.raises(ValueError, match="dst holds"):
            careful.flush(torch.tensor(slots), torch.tensor(dst))


@pytest.mark.usefixtures("reference")
def test_load_takes_states_in_either_layout() -> None:
    for layout in ("VK", "KV"):
        pool = make_pool(layout=layout, dims=(16, 8), kv_only=4)
        states = torch.randn(2, 4, 8, 16)
        pool.load(1, states)
        pool.load(2, states.transpose(-1, -2), layout="KV")
        pool.load(3, states[1].mT, layer=1, layout="KV")
        assert same_bits(pool.materialize(1), states)
        assert same_bits(pool.materialize(2), states)
        assert same_bits(pool.materialize(3)[1], states[1])
        with pytest.raises(ValueError, match=r"HV, K, V\] = \(2, 4, 16, 8\)"):
            pool.load(2, states, layout="KV")
        with pytest.raises(ValueError, match="layout='HK'"):
            pool.load(2, states, layout="HK")
