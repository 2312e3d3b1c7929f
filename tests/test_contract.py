"""The contract of the runtime, clause by clause, on the torch reference and on compiled CPU kernels.

Tests named after a symptom hold a fault that users of such kernels reported in public.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from runtime_kit import PARAMETERS, TOLERANCE, Streams, error, make_pool
from torch import Tensor

from kvbuffer_codegen.checking import same_bits
from kvbuffer_codegen.ir.signature import BASE, COUNT, FAULT, WINDOW
from kvbuffer_codegen.runtime import FaultError, OrderError, Pool, ops

pytestmark = [pytest.mark.filterwarnings("ignore:No .* kernel"), pytest.mark.usefixtures("one_thread")]
NAN = float("nan")


class Serving:
    """Requests of ``Streams`` on a pool: calls every layer, checks outputs against the truth, keeps count of tokens."""

    def __init__(self, pool: Pool, slots: list[int], tokens: int = 40, seed: int = 0):
        self.pool, self.slots = pool, slots
        self.streams = Streams(pool, len(slots), tokens, seed, zero=pool.kv_only > 0)
        self.at = [0] * len(slots)
        self.limit = (
            TOLERANCE[str(pool.io).removeprefix("torch.")] + 2 * TOLERANCE[str(pool.state).removeprefix("torch.")]
        )
        if not pool.kv_only:
            pool.load(slots, self.streams.start)

    def rows(self, order: list[int]) -> Tensor:
        return torch.tensor([self.slots[r] if r >= 0 else -1 for r in order], dtype=torch.int32)

    def token(self, form: str, order: list[int]) -> list[Tensor]:
        """One token of the requests in ``order`` (-1: padding). Returns the layers' outputs."""
        at, slots, outs = [(r, self.at[r]) for r in order], self.rows(order), []
        for layer in range(self.pool.layers):
            out = torch.full((len(order), self.pool.heads[1], self.pool.dims[1]), NAN, dtype=self.pool.io)
            given = self.streams.layer(layer, at)
            outs.append(getattr(self.pool, form)(layer, slots, out=out, **given))
            self.check(layer, out[:, None], order, [1] * len(order))
        self.pool.advance(slots)
        for r in order:
            self.at[r] += r >= 0
        return outs

    def window(self, order: list[int], T: int, lengths: list[int], accepted: list[int]) -> list[Tensor]:
        at, slots, outs = [(r, self.at[r]) for r in order], self.rows(order), []
        for layer in range(self.pool.layers):
            out = torch.full((len(order), T, self.pool.heads[1], self.pool.dims[1]), NAN, dtype=self.pool.io)
            given = self.streams.layer(layer, at, T)
            for b, length in enumerate(lengths):  # what is past a row's length may be anything
                for name in given.keys() - set(PARAMETERS):
                    given[name][b, length:] = NAN
            outs.append(self.pool.verify(layer, slots, lengths=torch.tensor(lengths), out=out, **given))
            self.check(layer, out, order, lengths)
        self.pool.commit(slots, torch.tensor(accepted))
        for r, more in zip(order, accepted, strict=True):
            self.at[r] += more if r >= 0 else 0
        return outs

    def check(self, layer: int, out: Tensor, order: list[int], lengths: list[int]) -> None:
        for b, (r, length) in enumerate(zip(order, lengths, strict=True)):
            live = length if r >= 0 else 0
            assert (out[b, live:] == 0).all(), "rows of -1 and tokens past the length are zero"
            want = self.streams.truth[0][layer, r, self.at[r] : self.at[r] + live]
            assert error(out[b, :live], want) < self.limit

    def check_states(self) -> None:
        for r, slot in enumerate(self.slots):
            want = self.streams.truth[1][:, r, self.at[r] - 1] if self.at[r] else self.streams.start[:, r].numpy()
            assert error(self.pool.materialize(slot), want) < self.limit


def snapshot(pool: Pool) -> dict[str, Tensor]:
    memory = pool._memory
    return {
        "state": memory.state.clone(),
        **{n: x.clone() for n, x in memory.fields.items()},
        "cursors": memory.cursors.clone(),
    }


def changed_slots(pool: Pool, before: dict[str, Tensor]) -> set[int]:
    """Slots (and rings, which are the same here) with any bit that is not as it was."""
    after, found = snapshot(pool), set()
    for name, old in before.items():
        axis = 1
        for slot in range(pool.slots):
            if not same_bits(old.select(axis, slot), after[name].select(axis, slot)):
                found.add(slot)
    return found


def poison(pool: Pool, live: list[int]) -> None:
    """NaN into what no kernel may read: idle slots, and every ring row (all are empty before the first token)."""
    for name, x in {"state": pool._memory.state, **pool._memory.fields}.items():
        for slot in range(pool.slots):
            if name != "state" or slot not in live:
                x[:, slot] = NAN


# --- tokens against the truth


@pytest.mark.parametrize("form", ["decode", "step"])
def test_tokens_with_padding_anywhere_and_slot_0_live(backend: str, form: str) -> None:
    serving = Serving(make_pool(form=form), [0, 3, 5])
    poison(serving.pool, serving.slots)
    before = snapshot(serving.pool)
    for order in ([-1, 0, 1, 2], [2, -1, -1, 0, 1], [1, 0, 2, -1], [0], [2, 1], [0, 1, 2, -1], [1, 2, 0], [-1, -1]):
        serving.token(form, order)
    serving.check_states()
    assert changed_slots(serving.pool, before) == {0, 3, 5}
    serving.pool.check()


VARIANTS: dict[str, dict[str, Any]] = {
    "float32": {},
    "16 bits, KV layout, kv_only": {"io": "bfloat16", "state": "float16", "layout": "KV", "kv_only": 6},
    "one record": {"buffer": 1, "max_window": 2},
    "window longer than buffer": {"buffer": 2, "max_window": 5},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_random_serving(backend: str, variant: str) -> None:
    """Ragged occupancies and lengths, zero accepted, folds during decode, verify and step, every form on every row."""
    pool = make_pool(form="decode", **VARIANTS[variant])
    serving, random = Serving(pool, [0, 4, 2], tokens=90), np.random.default_rng(1)
    poison(pool, serving.slots)
    T = pool.max_window
    while max(serving.at) < 80:
        order = random.permutation([0, 1, 2, -1])[: random.integers(1, 5)].tolist()
        kind = random.integers(0, 8)
        if kind == 0:
            serving.token("step", order)
        elif kind <= 3:
            serving.token("decode", order)
        elif kind == 4:
            pool.flush(serving.rows(order))
        else:
            lengths = random.integers(0, T + 1, len(order)).tolist()
            serving.window(order, T, lengths, [int(random.integers(0, n + 1)) for n in lengths])
    serving.check_states()
    pool.check()


def test_real_head_shape(backend: str) -> None:
    serving = Serving(make_pool(dims=(128, 128), slots=3, layers=1, form="decode"), [2, 0], tokens=12)
    serving.token("decode", [0, 1])
    serving.window([1, -1, 0], 4, [4, 4, 2], [3, 0, 0])
    for _ in range(5):
        serving.token("decode", [1, 0])
    serving.check_states()


@pytest.mark.parametrize("variant", ["float32", "window longer than buffer"])
def test_two_thousand_tokens_by_speculation_equal_the_plain_recurrence(backend: str, variant: str) -> None:
    """Generations must not loop or drift where drafts are rejected at random. (The reference is slow: 300 tokens.)"""
    pool, tokens = make_pool(slots=2, layers=1, **VARIANTS[variant]), 2000 if backend == "cpu" else 300
    serving, random = Serving(pool, [1], tokens=tokens + pool.max_window), np.random.default_rng(2)
    T = pool.max_window
    while serving.at[0] < tokens:
        serving.window([0], T, [T], [int(random.integers(0, T + 1))])
    serving.check_states()


# --- decays


def gates(log_decay: float) -> tuple[float, float]:
    """(a, A_log) that give a log-decay of exactly this: -exp(A_log) softplus(a)."""
    return {0.0: (-200.0, 0.0), -20.0: (30.0, np.log(20 / 30)), -np.inf: (100.0, 100.0)}[log_decay]


@pytest.mark.parametrize("log_decay", [0.0, -20.0, -np.inf])
def test_log_decay(backend: str, log_decay: float) -> None:
    serving = Serving(make_pool(layers=1, form="decode"), [0, 1], tokens=30)
    a, A_log = gates(log_decay)
    serving.streams.inputs["a"][:, :, ::3] = a
    serving.streams.inputs["A_log"][:] = A_log
    serving.streams.inputs["dt_bias"][:] = 0.0
    for i in range(6):
        serving.token("decode", [0, 1])
        serving.window([1, 0], 4, [4, 3], [2, 3])
        if i % 3 == 2:
            serving.token("step", [0, 1])
    serving.check_states()


@pytest.mark.parametrize("A_log", [-20.0, 88.0, 100.0])
@pytest.mark.parametrize("a", [-200.0, 100.0])
def test_exp_of_A_log_overflowing_times_zero_is_no_nan(backend: str, A_log: float, a: float) -> None:
    serving = Serving(make_pool(layers=1, form="decode"), [0], tokens=12)
    serving.streams.inputs["a"][:] = a
    serving.streams.inputs["A_log"][:] = A_log
    for _ in range(6):
        serving.token("decode", [0])
    serving.check_states()


def test_state_out_of_range_saturates(backend: str) -> None:
    pool = make_pool(**VARIANTS["16 bits, KV layout, kv_only"], layers=1)
    pool.load(1, torch.full((1, 4, 16, 16), 1e30))
    assert pool.materialize(1).max() == 65504
    inputs = Streams(pool, 1, 1).layer(0, [(0, 0)])
    inputs["v"][:] = 6e4
    for _ in range(8):
        pool.step(0, torch.tensor([1]), **inputs)
        pool.advance(torch.tensor([1]))
    assert torch.isfinite(pool.materialize(1)).all()


# --- indices, strides, gaps, empty batches


def decode_twice(pool: Pool, slots: Tensor, given: dict[str, Tensor]) -> Tensor:
    pool.load([0, 3, 5], Streams(pool, 3, 1).start)
    outs = []
    for _ in range(2):
        for layer in range(pool.layers):
            outs.append(pool.decode(layer, slots, **given))
        pool.advance(slots)
    return torch.stack(outs)


def test_indices_of_any_stride_and_both_widths(backend: str) -> None:
    pool = make_pool(form="decode")
    given = Streams(pool, 3, 1).layer(0, [(0, 0), (1, 0), (-1, 0), (2, 0)])
    plain = torch.tensor([3, 0, -1, 5], dtype=torch.int32)
    first = decode_twice(pool, plain, given)
    for dtype in (torch.int32, torch.int64):
        for step in (1, 3):
            wide = torch.full((4 * step,), 10**6, dtype=dtype)
            wide[::step] = plain
            assert same_bits(decode_twice(pool, wide[::step], given), first)
    pool.check()


def test_an_int64_slot_whose_low_word_is_a_slot_is_out_of_range(backend: str) -> None:
    pool = make_pool(form="decode", layers=1)
    before = snapshot(pool)
    slots = torch.tensor([2**32 + 1, -(2**32)])
    out = pool.decode(0, slots[:1], **Streams(pool, 2, 1).layer(0, [(0, 0)]))
    pool.advance(slots[:1])
    assert (out == 0).all()
    assert changed_slots(pool, before) == set()
    with pytest.raises(FaultError, match="index of 2147483647 or above: a slot"):  # the low word is a slot of the pool
        pool.check()
    pool.reset(slots[1:])
    with pytest.raises(FaultError, match="index of -2147483648 or below: a slot"):
        pool.check()


def test_packed_inputs(backend: str) -> None:
    """q, k and v cut out of one projection, gates out of another: bits as from separate ones."""
    pool = make_pool(form="decode")
    given = Streams(pool, 3, 1).layer(0, [(0, 0), (1, 0), (2, 0)])
    slots = torch.tensor([3, 0, 5])
    first = decode_twice(pool, slots, given)
    packed = torch.full((3, 2 * 16 + 2 * 16 + 4 * 16 + 16), NAN)
    at = 0
    for name in ("q", "k", "v"):
        width = given[name][0].numel()
        packed[:, at : at + width] = given[name].flatten(1)
        given[name] = packed[:, at : at + width].unflatten(1, given[name].shape[1:])
        at += width
    ba = torch.full((3, 9), NAN)
    ba[:, 0:8:2], ba[:, 1:9:2] = given["a"], given["b"]
    given |= {"a": ba[:, 0:8:2], "b": ba[:, 1:9:2]}
    assert same_bits(decode_twice(pool, slots, given), first)


def test_updates_reach_a_pool_with_gaps_and_gaps_are_neither_read_nor_written(backend: str) -> None:
    """A pool whose slots are pages of something larger: updates must not vanish into a copy."""
    plain, gapped = make_pool(form="decode"), make_pool(form="decode")
    memory = gapped._memory
    wholes = []
    for name in ("state", *memory.fields):
        old = memory.state if name == "state" else memory.fields[name]
        whole = torch.full((old.shape[0], old.shape[1] * 2 + 1, *old.shape[2:-1], old.shape[-1] + 4), NAN)
        view = whole[:, 1::2, ..., : old.shape[-1]]
        view.copy_(old)
        wholes.append((whole, view))
    memory.state, *memory.records = (view for _, view in wholes)
    memory.fields = dict(zip(memory.fields, memory.records, strict=True))
    memory.by_slot["state"] = memory.state
    gapped._layers[:] = [(memory.state[i], [f[i] for f in memory.records]) for i in range(gapped.layers)]
    one, two = Serving(plain, [0, 3]), Serving(gapped, [0, 3])
    for _ in range(7):
        for a, b in zip(one.token("decode", [0, 1]), two.token("decode", [0, 1]), strict=True):
            assert same_bits(a, b)
    for name, old in snapshot(plain).items():
        assert same_bits(old, snapshot(gapped)[name])
    for whole, view in wholes:
        kept = whole.clone()
        kept[:, 1::2, ..., : view.shape[-1]] = NAN
        assert kept.isnan().all()


def test_empty_batches(backend: str) -> None:
    pool = make_pool()
    before = snapshot(pool)
    none = torch.empty(0, dtype=torch.int64)
    streams = Streams(pool, 1, 8)
    blank = {n: x if n in PARAMETERS else x[:0] for n, x in streams.layer(0, [(0, 0)]).items()}
    window = {n: x if n in PARAMETERS else x[:0] for n, x in streams.layer(0, [(0, 0)], 4).items()}
    for form in ("decode", "step"):
        for layer in range(pool.layers):
            assert getattr(pool, form)(layer, none, **blank).shape == (0, 4, 16)
        pool.advance(none)
    for layer in range(pool.layers):
        assert pool.verify(layer, none, **window).shape == (0, 4, 4, 16)
    pool.commit(none, none)
    pool.flush(none)
    pool.reset(none)
    pool.fork(none, none)
    assert changed_slots(pool, before) == set()


def test_rings_have_an_index_of_their_own(backend: str) -> None:
    """State by cache slot, buffer by request."""
    pool = make_pool(form="decode", layers=1)
    serving = Serving(make_pool(form="decode", layers=1), [4, 1])
    pool.load([4, 1], serving.streams.start)
    slots, rings = torch.tensor([4, 1]), torch.tensor([0, 5])
    for t in range(9):
        given = serving.streams.layer(0, [(0, t), (1, t)])
        want = serving.token("decode", [0, 1])[0]
        assert same_bits(pool.decode(0, slots, rings=rings, **given), want)
        pool.advance(slots)
    assert same_bits(pool.materialize(4, ring=0), serving.pool.materialize(4))
    pool.flush(slots, rings=rings)
    serving.pool.flush(slots)
    assert same_bits(pool.materialize(1, ring=5), serving.pool.materialize(1))


# --- windows


def test_accepting_nothing_leaves_the_state_as_before_the_window(backend: str) -> None:
    serving = Serving(make_pool(form="decode"), [0, 1])
    serving.token("decode", [0, 1])
    before = [serving.pool.materialize(slot) for slot in (0, 1)]
    serving.window([0, 1], 3, [3, 2], [0, 0])  # 1 + 3 records fit: nothing folds
    for slot, old in enumerate(before):
        assert same_bits(serving.pool.materialize(slot), old)
    serving.token("decode", [0, 1])
    serving.check_states()


def test_accepting_nothing_after_a_fold_keeps_the_fold(backend: str) -> None:
    serving = Serving(make_pool(form="decode"), [0])
    for _ in range(3):
        serving.token("decode", [0])
    serving.window([0], 4, [4], [0])
    assert serving.pool.pending[0] == 0
    serving.check_states()
    serving.token("decode", [0])


@pytest.mark.parametrize("accepted", [-1, 4, 2**31 - 1])
def test_accepted_out_of_range_counts_as_nothing(backend: str, accepted: int) -> None:
    pool = make_pool(layers=1)
    serving = Serving(pool, [5, 2])
    given = serving.streams.layer(0, [(0, 0), (1, 0)], 4)
    slots = torch.tensor([5, 2])
    pool.verify(0, slots, lengths=torch.tensor([3, 4]), **given)
    pool.commit(slots, torch.tensor([accepted, 2]))
    assert pool.pending[[5, 2]].tolist() == [0, 2]
    with pytest.raises(FaultError, match="slot 5: an accepted count"):
        pool.check()
    pool.check()  # a fault is raised once


@pytest.mark.parametrize("length", [-1, 5, 2**31 - 1])
def test_length_out_of_range_counts_as_nothing(backend: str, length: int) -> None:
    pool = make_pool(layers=1)
    serving = Serving(pool, [5, 2])
    slots = torch.tensor([5, 2])
    out = pool.verify(0, slots, lengths=torch.tensor([4, length]), **serving.streams.layer(0, [(0, 0), (1, 0)], 4))
    assert (out[1] == 0).all()
    pool.commit(slots, torch.tensor([4, 0]))
    assert pool.pending[[5, 2]].tolist() == [4, 0]
    with pytest.raises(FaultError, match="slot 2: a length"):
        pool.check()


def test_slot_out_of_range_is_ignored_and_reported(backend: str) -> None:
    serving = Serving(make_pool(form="decode", layers=1), [1])
    pool, before = serving.pool, snapshot(serving.pool)
    slots = torch.tensor([1, 6, -2])
    out = pool.decode(0, slots, **serving.streams.layer(0, [(0, 0), (0, 0), (0, 0)]))
    pool.advance(slots)
    assert (out[1:] == 0).all()
    serving.check(0, out[:1, None], [0], [1])
    assert changed_slots(pool, before) == {1}
    with pytest.raises(FaultError, match=r"index (6|-2): a slot or ring out of range") as caught:
        pool.check()
    assert caught.value.faults.keys() == {None}
    assert pool._cursors[[BASE, FAULT], -1].tolist() == [0, 0]


@pytest.mark.parametrize("ring", [-1, 6, -2, 2**40])
@pytest.mark.parametrize("form", ["decode", "step", "verify", "flush"])
def test_a_row_whose_ring_does_not_exist_moves_in_no_layer_and_no_cursor(backend: str, form: str, ring: int) -> None:
    """Kernels skip it, so advance and commit must not count it: a record that nobody wrote would be folded."""
    serving = Serving(make_pool(form="decode"), [4, 1])
    serving.token("decode", [0, 1])
    pool, before = serving.pool, snapshot(serving.pool)
    slots, rings = torch.tensor([4, 1]), torch.tensor([ring, 1])
    if form == "flush":
        pool.flush(slots, rings=rings)
    else:
        T = 4 if form == "verify" else None
        for layer in range(2):
            given = serving.streams.layer(layer, [(0, 1), (1, 1)], T)
            assert (getattr(pool, form)(layer, slots, rings=rings, **given)[0] == 0).all()
        pool.commit(slots, torch.tensor([3, 1])) if T else pool.advance(slots)
        serving.at[1] += 1
    assert changed_slots(pool, before) == {1}
    if ring == -1:
        pool.check()
    else:
        shown = "2147483647 or above" if ring > 6 else str(ring)
        with pytest.raises(FaultError, match=rf"^index (of )?{shown}: a slot or ring out of range"):
            pool.check()
    serving.token("decode", [1, 0])
    serving.check_states()


def test_accepting_tokens_of_a_row_without_a_window_does_nothing(backend: str) -> None:
    serving = Serving(make_pool(form="decode"), [5, 2])
    serving.token("decode", [0, 1])
    pool, slots, before = serving.pool, torch.tensor([5, 2]), snapshot(serving.pool)
    for layer in range(2):
        pool.verify(layer, slots, lengths=torch.tensor([0, 4]), **serving.streams.layer(layer, [(0, 1), (1, 1)], 4))
    pool.commit(slots, torch.tensor([2, 2]))
    serving.at[1] += 2
    assert changed_slots(pool, before) == {2}
    pool.check()
    serving.token("decode", [1, 0])
    serving.check_states()


def test_a_rejected_row_does_not_write_the_last_slot(backend: str) -> None:
    serving = Serving(make_pool(), [2])
    before = snapshot(serving.pool)
    serving.window([0, -1], 4, [4, 4], [2, 0])
    assert changed_slots(serving.pool, before) == {2}


def test_a_second_commit_moves_nothing(backend: str) -> None:
    """Two owners of the cursor poison the ring. The pool refuses the second call; in a replayed graph it is nothing."""
    serving = Serving(make_pool(), [2])
    serving.window([0], 4, [4], [3])
    pool, before = serving.pool, snapshot(serving.pool)
    with pytest.raises(OrderError, match="commit: no layer has run"):
        pool.commit(torch.tensor([2]), torch.tensor([3]))
    name = pool._lookup.kernel("commit", 1)
    ops.commit(name, pool._cursors, torch.tensor([2]), torch.tensor([3]), pool.buffer, 0, pool.rows)
    assert changed_slots(pool, before) == set()
    pool.check()


# --- bits


def test_the_same_calls_give_the_same_bits(backend: str) -> None:
    states = []
    for _ in range(2):
        serving = Serving(make_pool(form="decode"), [0, 3])
        outs = [out for _ in range(6) for out in serving.token("decode", [0, 1])]
        outs += serving.window([1, 0], 4, [4, 2], [4, 1])
        states.append((outs, snapshot(serving.pool)))
    (outs, state), (again, state_again) = states
    assert all(same_bits(a, b) for a, b in zip(outs, again, strict=True))
    assert all(same_bits(state[name], state_again[name]) for name in state)


@pytest.mark.parametrize("dims", [(16, 16), (128, 128)])
def test_a_row_does_not_depend_on_its_neighbours(backend: str, dims: tuple[int, int]) -> None:
    """One request right, several in a batch wrong: a row's bits are those of a batch of one, whoever its neighbours."""
    config = {"dims": dims, "layers": 1, "form": "decode"}
    alone, among = (Serving(make_pool(**config), [4, 1, 0], tokens=24) for _ in range(2))
    for serving in (alone, among):
        serving.pool.reset([1, 0])
    for slot in (0, 1):  # neighbours that overflow, and some that are not numbers
        among.pool.load(slot, torch.full((1, 4, dims[1], dims[0]), [3e38, NAN][slot]))
    for t in range(10):
        given = alone.streams.layer(0, [(0, t)])
        one = alone.pool.decode(0, torch.tensor([4]), **given)
        alone.pool.advance(torch.tensor([4]))
        full = {n: x if n in PARAMETERS else torch.cat([x + 1, x, x - 1, x]) for n, x in given.items()}
        slots = torch.tensor([0, 4, 1, -1])
        many = among.pool.decode(0, slots, **full)
        among.pool.advance(slots)
        assert same_bits(one[0], many[1]), f"token {t}"
    assert same_bits(alone.pool.materialize(4), among.pool.materialize(4))


def test_one_row_in_a_window_of_unequal_lengths(backend: str) -> None:
    alone, among = (Serving(make_pool(layers=1), [4, 1, 0]) for _ in range(2))
    for _ in range(4):
        (one,) = alone.window([0], 4, [3], [2])
        (many,) = among.window([1, -1, 0, 2], 4, [1, 4, 3, 4], [1, 0, 2, 0])
        assert same_bits(one[0], many[2])


def test_verify_agrees_with_single_decodes(backend: str) -> None:
    """Speculative and plain outputs differ where two paths disagree: 1e-5 relative in float32, outputs and states."""
    plain, drafted = (Serving(make_pool(layers=1, form="decode"), [0]) for _ in range(2))
    for _ in range(5):
        (window,) = drafted.window([0], 4, [4], [4])
        single = torch.stack([plain.token("decode", [0])[0] for _ in range(4)], dim=1)
        assert error(window, single.double().numpy()) < 1e-5
    assert error(drafted.pool.materialize(0), plain.pool.materialize(0).double().numpy()) < 1e-5


# --- long runs


def test_state_does_not_drift_with_16_bit_gates(backend: str) -> None:
    """beta near 1 and slow decay over 4,096 tokens (256 on the slow reference): an error of float32's size means that
    gates are computed in it."""
    pool, tokens = (
        make_pool(layers=1, slots=1, io="bfloat16", form="decode"),
        4096 if backend == "cpu" else 256,
    )
    serving = Serving(pool, [0], tokens=tokens)
    serving.streams.inputs["b"].add_(4)
    serving.streams.inputs["a"].sub_(5)
    slots = torch.tensor([0])
    for t in range(tokens):
        pool.decode(0, slots, **serving.streams.layer(0, [(0, t)]))
        pool.advance(slots)
    assert error(pool.materialize(0), serving.streams.truth[1][:, 0, -1]) < 1e-5


def test_16_bit_state_is_no_worse_buffered_than_recurrent(backend: str) -> None:
    """A state rounded at every token degrades long generations; one rounded at every fold must do no worse."""
    errors, tokens = {}, 1024 if backend == "cpu" else 256
    for form in ("decode", "step"):
        pool = make_pool(layers=1, slots=1, state="bfloat16", form=form)
        serving = Serving(pool, [0], tokens=tokens)
        serving.streams.inputs["a"].sub_(5)
        slots = torch.tensor([0])
        for t in range(tokens):
            getattr(pool, form)(0, slots, **serving.streams.layer(0, [(0, t)]))
            pool.advance(slots)
        errors[form] = error(pool.materialize(0), serving.streams.truth[1][:, 0, -1])
    assert errors["decode"] <= errors["step"]
    assert errors["decode"] < 2.0**-7


def test_windows_stay_closed_and_counts_in_range(backend: str) -> None:
    serving = Serving(make_pool(layers=1), [0, 1])
    for i in range(8):
        serving.window([0, 1], 4, [4, i % 5], [i % 4, 0])
        assert (serving.pool._cursors[WINDOW] == 0).all()
        assert (serving.pool._cursors[COUNT] <= 4).all()


# --- sizes past 32 bits and past a grid's axis


@pytest.mark.slow
def test_more_than_65535_value_head_rows(backend: str) -> None:
    batch = 20000
    pool = make_pool(layers=1, slots=batch, form="decode")
    few = Streams(pool, 1, 1)
    slots = torch.arange(batch - 1, -1, -1, dtype=torch.int32)
    given = {n: x if n in PARAMETERS else x.expand(batch, *x.shape[1:]) for n, x in few.layer(0, [(0, 0)]).items()}
    pool._memory.state[:] = few.start
    out = pool.decode(0, slots, **given)
    pool.advance(slots)
    assert error(out[:1], few.truth[0][0, :, 0]) < 1e-5
    assert (out == out[0]).all()
    assert (pool.pending == 1).all()


@pytest.mark.slow
def test_slots_beyond_32_bits(backend: str, tmp_path: Any) -> None:
    """State and ring offsets past 2^31 elements: a sparse file stands for a pool of tens of gigabytes."""
    pool = make_pool(layers=1, slots=3, form="decode")
    memory, far = pool._memory, 2**31 + 64
    for name in ("state", *memory.fields):
        old = memory.state if name == "state" else memory.fields[name]
        data = np.memmap(tmp_path / name, np.float32, "w+", shape=(2 * far + old[0, 0].numel(),))
        view = torch.from_numpy(data).as_strided(old.shape, (0, far, *torch.empty(old.shape[2:]).stride()))
        (memory.by_slot if name == "state" else memory.fields)[name] = view
    memory.state, memory.records = memory.by_slot["state"], list(memory.fields.values())
    pool._layers[:] = [(memory.state[0], [f[0] for f in memory.records])]
    serving = Serving(pool, [2, 0])
    for _ in range(6):
        serving.token("decode", [0, 1])
    serving.check_states()


@pytest.mark.slow
def test_tokens_beyond_32_bits(backend: str, tmp_path: Any) -> None:
    """Token and row offsets past 2^31 elements: windows whose queries lie gigabytes apart."""
    pool, far = make_pool(layers=1), 2**30
    streams, slots = Streams(pool, 2, 4), torch.tensor([1, 4])
    pool.load([1, 4], streams.start)
    given = streams.layer(0, [(0, 0), (1, 0)], 4)
    data = np.memmap(tmp_path / "q", np.float32, "w+", shape=(8 * far,))
    spread = torch.from_numpy(data).as_strided(given["q"].shape, (4 * far, far, 16, 1))
    spread.copy_(given["q"])
    out = pool.verify(0, slots, **given | {"q": spread})
    pool.commit(slots, torch.tensor([4, 4]))
    assert error(out, streams.truth[0][0]) < 1e-5
