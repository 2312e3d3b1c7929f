"""What a pool is given by mistake: it says so and touches nothing, or it is as if nothing had been asked.

Autograd and inference mode, rows of another number, inputs of a prompt that do not fit, slots that are no ints.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from runtime_kit import PARAMETERS, Streams, make_pool
from torch import Tensor

from kvbuffer_codegen.checking import same_bits
from kvbuffer_codegen.runtime import OrderError, Pool

pytestmark = [pytest.mark.filterwarnings("ignore:No .* kernel"), pytest.mark.usefixtures("one_thread")]
SLOTS = torch.tensor([0, 1])


@pytest.fixture
def reference(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    from runtime_kit import use

    use("reference", monkeypatch, tmp_path)


def tensors_of(pool: Pool) -> tuple[Tensor, ...]:
    return (pool._memory.state, *pool._memory.records, pool._cursors)


def token(pool: Pool, streams: Streams, form: str = "decode", T: int | None = None, grad: bool = False) -> Tensor:
    """All layers; returns the last one's outputs."""
    for layer in range(pool.layers):
        given = streams.layer(layer, [(0, 0), (1, 0)], T)
        given = {name: x.requires_grad_() * 1 for name, x in given.items()} if grad else given
        out: Tensor = getattr(pool, form)(layer, SLOTS, **given)
    return out


def prompt(streams: Streams, tokens: int = 4) -> dict[str, Tensor]:
    return {name: x if name in PARAMETERS else x[:, 0, :tokens] for name, x in streams.inputs.items()}


def test_inputs_that_require_gradients_leave_no_graph_in_the_pool(backend: str) -> None:
    """It would grow with every token."""
    pool = make_pool(form="decode")
    streams = Streams(pool, 2, 8)
    pool.load([0, 1], streams.start.requires_grad_() * 1)
    outs = [token(pool, streams, grad=True)]
    pool.advance(SLOTS)
    outs.append(token(pool, streams, "step", grad=True))
    pool.advance(SLOTS)
    outs.append(token(pool, streams, "verify", 4, grad=True))
    pool.commit(SLOTS, torch.tensor([4, 4]))
    assert not any(x.requires_grad for x in (*tensors_of(pool), *outs))


@pytest.mark.parametrize("made_in", [True, False])
def test_a_pool_serves_in_and_out_of_inference_mode(backend: str, made_in: bool) -> None:
    with torch.inference_mode(made_in):
        pool = make_pool(form="decode")
        streams = Streams(pool, 2, 8)
    for mode in (True, False):
        with torch.inference_mode(mode):
            pool.load([0, 1], streams.start.clone())
            token(pool, streams)
            pool.advance(SLOTS)
            pool.fork(0, 2)
            pool.flush(SLOTS)
            token(pool, streams, "verify", 4)
            pool.commit(SLOTS, torch.tensor([1, 2]))
            pool.check()
    assert pool.pending[:3].tolist() == [1, 2, 1]


@pytest.mark.usefixtures("reference")
def test_a_step_has_one_number_of_rows() -> None:
    pool = make_pool(form="decode")
    streams = Streams(pool, 2, 8)
    pool.decode(0, SLOTS, **streams.layer(0, [(0, 0), (1, 0)]))
    with pytest.raises(OrderError, match="slots holds 1 rows, and this step began with 2"):
        pool.decode(1, SLOTS[:1], **streams.layer(1, [(0, 0)]))
    pool.decode(1, SLOTS, **streams.layer(1, [(0, 0), (1, 0)]))
    with pytest.raises(OrderError, match="advance: slots holds 1 rows"):
        pool.advance(SLOTS[:1])
    pool.advance(SLOTS)
    assert pool.pending[:2].tolist() == [1, 1]
    token(pool, streams, "verify", 4)
    with pytest.raises(OrderError, match="commit: slots holds 1 rows"):
        pool.commit(SLOTS[:1], SLOTS[:1])
    pool.reset(1)  # a row that is gone may be left out
    pool.commit(SLOTS[:1], torch.tensor([2]))
    assert pool.pending[:2].tolist() == [2, 0]


@pytest.mark.usefixtures("reference")
@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("k", lambda x: x[:, :3], r"k has shape \(2, 3, 2, 16\)"),
        ("k", lambda x: torch.cat([x, x], dim=1), r"k has shape \(2, 8, 2, 16\)"),
        ("v", lambda x: x[:1], r"v has shape \(1, 4, 4, 16\)"),
        ("q", lambda x: x[0, 0, 0], r"q has shape \(16,\)"),
        ("A_log", lambda x: x[:1], r"A_log has shape \(1, 4\)"),
        ("b", lambda x: x.tolist(), "b is .*accepted: a tensor"),
    ],
)
def test_a_prompt_that_does_not_fit_is_refused_whole(name: str, change: Any, message: str) -> None:
    pool = make_pool()
    given = prompt(Streams(pool, 1, 4))
    before = [x.clone() for x in tensors_of(pool)]
    with pytest.raises((ValueError, TypeError), match=message):
        pool.ingest(0, **given | {name: change(given[name])})
    assert all(same_bits(old, new) for old, new in zip(before, tensors_of(pool), strict=True))
    pool.ingest(0, **given)  # no step was left open


@pytest.mark.usefixtures("reference")
def test_what_is_no_row() -> None:
    pool = make_pool()
    given = prompt(Streams(pool, 1, 4))
    for wrong in ([0, 1], -1, 6, True, torch.tensor([0])):
        with pytest.raises(IndexError, match="slot="):
            pool.materialize(wrong)  # type: ignore[arg-type]
        with pytest.raises(IndexError, match="slot="):
            pool.ingest(wrong, **given)  # type: ignore[arg-type]
    for unknown in (None, 1.0):
        with pytest.raises(TypeError, match="slots="):
            pool.reset(unknown)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="rings has 1 rows, slots 2"):
        pool.reset([0, 1], [0])
    pool.load([], torch.zeros(2, 0, 4, 16, 16))
    pool.alloc(), pool.alloc()
    for equal in (True, 1.0, [1]):  # equal to a slot, and none
        with pytest.raises(ValueError, match="is not taken"):
            pool.free(equal)  # type: ignore[arg-type]
    assert [pool.alloc() for _ in range(4)] == [2, 3, 4, 5]


@pytest.mark.usefixtures("reference")
def test_what_is_no_tensor_is_named() -> None:
    pool = make_pool(form="decode")
    streams = Streams(pool, 2, 8)
    one, window = (streams.layer(0, [(0, 0), (1, 0)], T) for T in (None, 4))
    for name, call in (
        ("q", lambda: pool.decode(0, SLOTS, **one | {"q": [1.0]})),
        ("q", lambda: pool.verify(0, SLOTS, **window | {"q": None})),
        ("rings", lambda: pool.decode(0, SLOTS, rings=[0, 1], **one)),
        ("out", lambda: pool.decode(0, SLOTS, out=[0], **one)),
        ("lengths", lambda: pool.verify(0, SLOTS, lengths=[1, 2], **window)),
    ):
        with pytest.raises(TypeError, match=f"{name} is .*accepted: a tensor"):
            call()
    token(pool, streams, "verify", 4)
    with pytest.raises(TypeError, match="accepted is"):
        pool.commit(SLOTS, [1, 1])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dims": (16,)}, "dims="),
        ({"dims": 16}, "dims="),
        ({"dims": (16.0, 16)}, "dims="),
        ({"heads": 4}, "heads="),
        ({"heads": (True, 2)}, "heads="),
        ({"buffer": 2.5}, "buffer="),
        ({"kv_only": True}, "kv_only="),
        ({"max_window": 0}, "max_window="),
        ({"device": "nowhere"}, "device="),
        ({"device": "meta"}, "device="),
        ({"device": "cuda:99"}, "device="),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_sizes_that_are_none(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_pool(**changes)


@pytest.mark.usefixtures("reference")
def test_warmup_for_what_no_call_can_have() -> None:
    pool = make_pool()
    for arguments in ((-1,), ("a",), (1, [0]), (1, [5])):
        with pytest.raises(ValueError, match=r"batch=|windows="):
            pool.warmup(*arguments)


@pytest.mark.usefixtures("reference")
def test_debug_mode_finds_a_ring_twice() -> None:
    pool = make_pool(debug=True, form="decode", layers=1)
    given = Streams(pool, 2, 8).layer(0, [(0, 0), (1, 0)])
    with pytest.raises(ValueError, match="rings holds 2 more than once"):
        pool.decode(0, SLOTS, rings=torch.tensor([2, 2]), **given)
    with pytest.raises(ValueError, match="slots has dtype float32"):
        pool.decode(0, SLOTS.float(), **given)
