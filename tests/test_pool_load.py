"""`Pool.load(layer=)`: a prefill that goes through the layers sets each layer's states before that layer runs."""

from __future__ import annotations

import pytest
import torch

from kvbuffer_codegen.runtime import Pool
from kvbuffer_codegen.runtime.order import OrderError

pytestmark = pytest.mark.filterwarnings("ignore:No .* kernel")  # the torch reference is what is wanted here
LAYERS, H, HV, K, V = 2, 1, 2, 8, 4


@pytest.fixture
def pool() -> Pool:
    made = Pool("gated_delta_rule", layers=LAYERS, slots=2, heads=(H, HV), dims=(K, V), io=torch.float32, device="cpu")
    assert [made.alloc(), made.alloc()] == [0, 1]
    return made


def inputs(*lead: int) -> dict[str, torch.Tensor]:
    random = torch.Generator().manual_seed(3)
    axes = {"q": (H, K), "k": (H, K), "v": (HV, V), "a": (HV,), "b": (HV,)}
    made = {name: torch.randn(*lead, *shape, generator=random) for name, shape in axes.items()}
    return made | {"A_log": torch.zeros(HV), "dt_bias": torch.ones(HV)}


STATES = torch.randn(LAYERS, HV, V, K, generator=torch.Generator().manual_seed(4))
SLOTS = torch.tensor([0, 1], dtype=torch.int32)


def test_layers_one_by_one_equal_all_at_once(pool: Pool) -> None:
    pool.load(0, STATES)
    for layer in range(LAYERS):
        pool.load(1, STATES[layer], layer=layer)
    assert torch.equal(pool.materialize(1), STATES)
    assert torch.equal(pool.materialize(0), STATES)


def test_a_layer_is_loaded_inside_a_window_and_the_window_holds(pool: Pool) -> None:
    pool.load(0, STATES)
    pool.load(1, STATES)
    for layer in range(
        LAYERS
    ):  # slot 1 had other records before: it is loaded again, layer by layer, as the window goes
        pool.load(1, STATES[layer], layer=layer)
        pool.verify(layer, SLOTS, **inputs(2, 3))
    pool.commit(SLOTS, torch.full_like(SLOTS, 2))
    assert pool.pending.tolist() == [2, 2]
    assert torch.equal(pool.materialize(0).isfinite().all(), torch.tensor(True))


def test_pending_counts_what_is_not_folded(pool: Pool) -> None:
    for expected in (1, 2, 3):
        for layer in range(LAYERS):
            pool.verify(layer, SLOTS[:1], **inputs(1, 1))
        pool.commit(SLOTS[:1], torch.ones_like(SLOTS[:1]))
        assert pool.pending.tolist() == [expected, 0]


def test_a_layer_that_ran_is_not_loaded_until_the_step_ends(pool: Pool) -> None:
    pool.load(0, STATES)
    pool.step(0, SLOTS, **inputs(2))
    before = pool.pending.tolist()
    with pytest.raises(OrderError, match="load of layer 0: it ran already"):
        pool.load(0, STATES[0], layer=0)
    assert pool.pending.tolist() == before
    pool.load(0, STATES[1], layer=1)
    pool.step(1, SLOTS, **inputs(2))
    with pytest.raises(OrderError, match="load of layer 1: it ran already"):
        pool.load(0, STATES[1], layer=1)
    pool.advance(SLOTS)
    pool.load(0, STATES[1], layer=1)


@pytest.mark.parametrize(
    ("states", "layer", "error", "message"),
    [
        (STATES, 0, ValueError, r"accepted: a float tensor \[HV, V, K\] = \(2, 4, 8\)"),
        (STATES[0], None, ValueError, r"\[layers, HV, V, K\] = \(2, 2, 4, 8\)"),
        (STATES[0], 2, IndexError, "layer=2; accepted: 0 to 1"),
    ],
)
def test_wrong_states_and_layers_are_refused(
    pool: Pool, states: object, layer: object, error: type, message: str
) -> None:
    pool.load(0, STATES)
    with pytest.raises(error, match=message):
        pool.load(0, states, layer=layer)  # type: ignore[arg-type]
    assert torch.equal(pool.materialize(0), STATES)
