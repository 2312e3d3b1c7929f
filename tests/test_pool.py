"""The pool: life of a row, order of calls, misuse, memory."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from runtime_kit import PARAMETERS, Streams, error, make_pool
from torch import Tensor

from kvbuffer_codegen.checking import same_bits
from kvbuffer_codegen.ir.recurrences import gated_delta_rule
from kvbuffer_codegen.runtime import ArgumentError, FaultError, OrderError, Pool

pytestmark = [pytest.mark.filterwarnings("ignore:No .* kernel"), pytest.mark.usefixtures("one_thread")]
NAN = float("nan")


def feed(pool: Pool, streams: Streams, slots: list[int], tokens: range, form: str = "decode") -> Tensor:
    """``tokens`` of request r into slots[r], one by one; the last token's outputs of the last layer."""
    rows = torch.tensor(slots)
    for t in tokens:
        for layer in range(pool.layers):
            out = getattr(pool, form)(layer, rows, **streams.layer(layer, [(r, t) for r in range(len(slots))]))
        pool.advance(rows)
    return out


@pytest.fixture
def reference(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    from runtime_kit import use

    use("reference", monkeypatch, tmp_path)


# --- slots


@pytest.mark.usefixtures("reference")
def test_slots_are_plain_ints_and_keep_their_value() -> None:
    """A slot handed out as a view into the free list changes by itself when another one is freed."""
    pool = make_pool()
    first, second = pool.alloc(), pool.alloc()
    assert (type(first), type(second)) == (int, int)
    assert first != second
    kept = first
    pool.free(second)
    pool.alloc()
    assert first == kept


@pytest.mark.usefixtures("reference")
def test_no_slot_is_lost_or_given_twice() -> None:
    pool, draw, live = make_pool(), random.Random(0), []
    for _ in range(200):
        if live and draw.random() < 0.5:
            pool.free(live.pop(draw.randrange(len(live))))
        elif len(live) < pool.slots:
            live.append(pool.alloc())
        assert len(set(live)) == len(live)
    for slot in live:
        pool.free(slot)
    assert sorted(pool.alloc() for _ in range(pool.slots)) == list(range(pool.slots))
    with pytest.raises(RuntimeError, match="all 6 slots are taken"):
        pool.alloc()


@pytest.mark.usefixtures("reference")
def test_free_of_what_is_not_taken() -> None:
    pool = make_pool()
    slot = pool.alloc()
    pool.free(slot)
    for wrong in (slot, -1, 99):
        with pytest.raises(ValueError, match=f"slot={wrong}"):
            pool.free(wrong)


def test_a_reused_slot_starts_fresh(backend: str) -> None:
    """A slot given to the next request holds nothing of the last one: state, ring, cursors, open window, NaN."""
    fresh, used = make_pool(form="decode"), make_pool(form="decode")
    streams = Streams(fresh, 1, 12, zero=True)
    slot = used.alloc()
    used.load(slot, torch.full((2, 4, 16, 16), NAN))
    feed(used, streams, [slot], range(3))
    window = [streams.layer(layer, [(0, 0)], 4) for layer in range(2)]
    for layer in range(2):
        used.verify(layer, torch.tensor([slot]), **window[layer])
    used.free(slot)
    assert used.alloc() == slot
    used.reset(slot)
    assert same_bits(feed(used, streams, [slot], range(9)), feed(fresh, streams, [fresh.alloc()], range(9)))


# --- state in and out


def test_load_converts_layouts_and_dtypes(backend: str) -> None:
    for layout in ("VK", "KV"):
        pool = make_pool(layout=layout, state="float16")
        states = torch.randn(2, 4, 16, 16)
        pool.load(3, states.half())
        pool.load([0, 5], torch.stack([states, states + 1], dim=1).double())
        assert torch.equal(pool.materialize(3), states.half().float())
        assert torch.equal(pool.materialize(5), (states + 1).half().float())
        pool.check()


@pytest.mark.usefixtures("reference")
def test_load_drops_pending_records() -> None:
    pool = make_pool(form="decode")
    streams = Streams(pool, 1, 8)
    feed(pool, streams, [2], range(3))
    pool.load(2, streams.start[:, 0])
    assert pool.pending[2] == 0
    assert torch.equal(pool.materialize(2), streams.start[:, 0])


def test_materialize_reaches_back_to_the_last_fold(backend: str) -> None:
    """A snapshot belongs to exactly the number of tokens asked for."""
    pool = make_pool(form="decode")
    streams = Streams(pool, 1, 12)
    for tokens in range(1, 12):
        pool.load(1, streams.start[:, 0])
        feed(pool, streams, [1], range(tokens))
        n = int(pool.pending[1])
        for back in range(n + 1):
            done = tokens - back
            want = streams.truth[1][:, 0, done - 1] if done else streams.start[:, 0].numpy()
            assert error(pool.materialize(1, back=back), want) < 1e-5
        pool.check()
        if n < pool.buffer:
            assert pool.materialize(1, back=n + 1).isnan().all()
            with pytest.raises(FaultError, match=r"slot 1: .*further back"):
                pool.check()


def test_flush_covers_exactly_the_committed_tokens(backend: str) -> None:
    pool = make_pool(form="decode")
    streams = Streams(pool, 2, 8)
    for tokens in range(5):
        pool.load([0, 4], streams.start)
        feed(pool, streams, [0, 4], range(tokens)) if tokens else None
        pool.flush(torch.tensor([4, -1]))
        assert pool.pending[[0, 4]].tolist() == [tokens, 0]
        want = streams.truth[1][:, 1, tokens - 1] if tokens else streams.start[:, 1].numpy()
        assert error(pool._memory.state[:, 4], want) < 1e-5
        assert same_bits(pool._memory.state[:, 0], streams.start[:, 0])


@pytest.mark.parametrize("pending", range(5))
def test_fork_takes_pending_records_along(backend: str, pending: int) -> None:
    """A copy of a row that has records loses no token: both go on alike, and each by itself."""
    pool = make_pool(form="decode")
    streams = Streams(pool, 1, 16)
    pool.load(0, streams.start[:, 0])
    feed(pool, streams, [0], range(pending)) if pending else None
    pool.fork(0, 5)
    assert same_bits(feed(pool, streams, [0], range(pending, 10)), feed(pool, streams, [5], range(pending, 10)))
    assert same_bits(pool.materialize(0), pool.materialize(5))
    assert error(pool.materialize(5), streams.truth[1][:, 0, 9]) < 1e-5


@pytest.mark.usefixtures("reference")
def test_fork_of_several_rows_reads_before_it_writes() -> None:
    pool = make_pool()
    states = torch.randn(2, 3, 4, 16, 16)
    pool.load([0, 1, 2], states)
    pool.fork(torch.tensor([0, 1, -1, 9]), torch.tensor([1, 0, 2, 2]))
    assert torch.equal(pool.materialize(0), states[:, 1])
    assert torch.equal(pool.materialize(1), states[:, 0])
    assert torch.equal(pool.materialize(2), states[:, 2])
    with pytest.raises(FaultError, match="index 9"):
        pool.check()


@pytest.mark.usefixtures("reference")
def test_fork_of_an_open_window_does_nothing() -> None:
    pool = make_pool()
    streams = Streams(pool, 1, 8)
    pool.load(0, streams.start[:, 0])
    for layer in range(2):
        pool.verify(layer, torch.tensor([0]), **streams.layer(layer, [(0, 0)], 4))
    pool.fork(0, 1)
    pool.commit(torch.tensor([0]), torch.tensor([2]))
    assert torch.equal(pool.materialize(1), torch.zeros(2, 4, 16, 16))
    pool.fork(0, 1)
    assert error(pool.materialize(1), streams.truth[1][:, 0, 1]) < 1e-5


@pytest.mark.parametrize("kv_only", [0, 6])
def test_ingest_equals_the_plain_recurrence(backend: str, kv_only: int) -> None:
    pool = make_pool(kv_only=kv_only)
    streams = Streams(pool, 1, 15, zero=True)
    pool.reset([3])
    prompt = {name: x if name in PARAMETERS else x[:, 0] for name, x in streams.inputs.items()}
    out = pool.ingest(3, **prompt)
    assert error(out, streams.truth[0][:, 0]) < 1e-5
    assert error(pool.materialize(3), streams.truth[1][:, 0, -1]) < 1e-5


def test_kv_only_rows_begin_without_a_checkpoint(backend: str) -> None:
    """reset and alloc mark them, the first fold and load end it; what lies in the state is not read before."""
    pool = make_pool(kv_only=6, form="decode")
    streams = Streams(pool, 1, 12, zero=True)
    slot = pool.alloc()
    pool._memory.state[:, slot] = NAN
    for t in range(6):
        feed(pool, streams, [slot], range(t, t + 1))
    assert pool._memory.state[:, slot].isnan().all()
    assert pool.pending[slot] == 6
    feed(pool, streams, [slot], range(6, 7))  # past the capacity of 6
    assert pool.pending[slot] == 1
    assert error(pool.materialize(slot), streams.truth[1][:, 0, 6]) < 1e-5
    assert pool._cursors[2].tolist()[:6] == [int(s != slot) for s in range(6)]
    pool.load(2, streams.start[:, 0])
    assert pool._cursors[2, 2] == 0
    pool.reset(torch.tensor([2]))
    assert pool._cursors[2, 2] == 1


# --- order of calls


def layer_call(pool: Pool, form: str, layer: int) -> None:
    streams = Streams(pool, 1, 4)
    T = 4 if form == "verify" else None
    getattr(pool, form)(layer, torch.tensor([0]), **streams.layer(layer, [(0, 0)], T))


ZERO, ROW = torch.tensor([0]), torch.tensor([0])
WRONG_ORDERS: list[tuple[list[Any], str]] = [
    ([("decode", 0), ("decode", 0)], "decode of layer 0: it ran already"),
    ([("decode", 0), ("step", 1)], "step of layer 1: this step began as decode"),
    ([("decode", 0), "advance"], "advance: layers 1 have not run decode"),
    ([("verify", 0), "commit"], "commit: layers 1 have not run verify"),
    (["advance"], "advance: no layer has run"),
    (["commit"], "commit: no layer has run"),
    ([("decode", 0), ("decode", 1), ("decode", 0)], "all layers ran decode; call advance first"),
    ([("decode", 0), ("decode", 1), "commit"], "commit: the layers ran decode; call advance"),
    ([("verify", 0), ("verify", 1), "advance"], "advance: the layers ran verify; call commit"),
    ([("verify", 0), ("verify", 1), "commit", "commit"], "commit: no layer has run"),
    ([("verify", 0), ("verify", 1), ("decode", 0)], "all layers ran verify; call commit first"),
    ([("decode", 0), "flush"], "flush: a step"),
    ([("decode", 0), "load"], "load: a step"),
    ([("verify", 0), ("verify", 1), "materialize"], "materialize: a step"),
    ([("decode", 0), ("decode", 1), "fork"], "fork: a step"),
]


@pytest.mark.usefixtures("reference")
@pytest.mark.parametrize(("calls", "message"), WRONG_ORDERS, ids=lambda x: x if isinstance(x, str) else "")
def test_wrong_order_raises_and_touches_nothing(calls: list[Any], message: str) -> None:
    pool = make_pool(form="decode")
    others = {
        "advance": lambda: pool.advance(ROW),
        "commit": lambda: pool.commit(ROW, ZERO),
        "flush": lambda: pool.flush(ROW),
        "load": lambda: pool.load(1, torch.zeros(2, 4, 16, 16)),
        "materialize": lambda: pool.materialize(0),
        "fork": lambda: pool.fork(0, 1),
    }

    def run(call: Any) -> None:
        others[call]() if isinstance(call, str) else layer_call(pool, *call)

    for call in calls[:-1]:
        run(call)
    before = [x.clone() for x in (pool._memory.state, *pool._memory.records, pool._cursors)]
    with pytest.raises(OrderError, match=message):
        run(calls[-1])
    for old, new in zip(before, (pool._memory.state, *pool._memory.records, pool._cursors), strict=True):
        assert same_bits(old, new)


@pytest.mark.usefixtures("reference")
def test_reset_ends_a_step_that_was_broken_off() -> None:
    pool = make_pool(form="decode")
    layer_call(pool, "decode", 0)
    pool.reset(0)
    for layer in range(2):
        layer_call(pool, "step", layer)
    pool.advance(ROW)
    assert pool.alloc() >= 0


@pytest.mark.usefixtures("reference")
def test_a_request_aborted_between_verify_and_commit() -> None:
    """Its row is reset; the others still commit, and the reset row stays empty."""
    pool = make_pool()
    streams, slots = Streams(pool, 2, 8), torch.tensor([0, 1])
    pool.load([0, 1], streams.start)
    for layer in range(2):
        pool.verify(layer, slots, **streams.layer(layer, [(0, 0), (1, 0)], 4))
    pool.reset(1)
    pool.commit(slots, torch.tensor([3, 0]))
    assert pool.pending[:2].tolist() == [3, 0]
    assert error(pool.materialize(0), streams.truth[1][:, 0, 2]) < 1e-5
    pool.check()


@pytest.mark.usefixtures("reference")
def test_a_whole_batch_aborted_between_verify_and_commit() -> None:
    pool = make_pool()
    for layer in range(2):
        layer_call(pool, "verify", layer)
    pool.reset([0])
    for layer in range(2):
        layer_call(pool, "decode", layer)
    pool.advance(ROW)
    assert pool.pending[0] == 1


# --- misuse that the host sees


def test_misuse_names_the_argument_and_touches_nothing(backend: str) -> None:
    pool = make_pool(form="decode")
    streams, slots = Streams(pool, 2, 8), torch.tensor([0, 1])
    pool.load([0, 1], streams.start)
    before = [x.clone() for x in (pool._memory.state, *pool._memory.records, pool._cursors)]
    given, window = (streams.layer(0, [(0, 0), (1, 0)], T) for T in (None, 4))
    out = torch.empty(2, 4, 16)
    wrong: list[tuple[str, type[Exception], Any]] = [
        ("q ", ArgumentError, lambda: pool.decode(0, slots, **given | {"q": given["q"].double()})),
        ("v ", ArgumentError, lambda: pool.decode(0, slots, **given | {"v": given["v"][..., :8]})),
        ("k ", ArgumentError, lambda: pool.decode(0, slots, **given | {"k": given["k"][:1]})),
        ("a ", ArgumentError, lambda: pool.decode(0, slots, **given | {"a": given["a"][..., None]})),
        ("A_log ", ArgumentError, lambda: pool.decode(0, slots, **given | {"A_log": given["A_log"].half()})),
        ("slots ", ArgumentError, lambda: pool.decode(0, slots.float(), **given)),
        ("rings ", ArgumentError, lambda: pool.decode(0, slots, rings=slots[:1], **given)),
        ("out ", ArgumentError, lambda: pool.decode(0, slots, out=out.half(), **given)),
        ("out ", ArgumentError, lambda: pool.decode(0, slots, out=out[:1].expand(2, 4, 16), **given)),
        ("lengths ", ArgumentError, lambda: pool.verify(0, slots, lengths=torch.tensor([[4], [4]]), **window)),
        ("k ", ArgumentError, lambda: pool.verify(0, slots, **window | {"k": window["k"][:, :2]})),
        ("slots is", TypeError, lambda: pool.decode(0, [0, 1], **given)),
        ("slots is", TypeError, lambda: pool.step(0, slots[:, None], **given)),
        ("b is missing", TypeError, lambda: pool.decode(0, slots, **{n: x for n, x in given.items() if n != "b"})),
        ("gate is not", TypeError, lambda: pool.decode(0, slots, gate=out, **given)),
        ("max_window=4", ValueError, lambda: pool.verify(0, slots, **streams.layer(0, [(0, 0), (1, 0)], 5))),
        ("layer=2", IndexError, lambda: pool.decode(2, slots, **given)),
        ("layer=-1", IndexError, lambda: pool.decode(-1, slots, **given)),
        ("slots=6", IndexError, lambda: pool.reset(6)),
        ("src=7", IndexError, lambda: pool.fork(7, 1)),
        ("dst has 1", ValueError, lambda: pool.fork([0, 1], [1])),
        ("states is", ValueError, lambda: pool.load(0, torch.zeros(1, 4, 16, 16))),
        ("states is", ValueError, lambda: pool.load(0, torch.zeros(2, 4, 16, 16, dtype=torch.int32))),
        ("back=9", ValueError, lambda: pool.materialize(0, back=9)),
        ("slots is", ValueError, lambda: pool.reset(torch.tensor([0.0]))),
    ]
    for message, kind, call in wrong:
        with pytest.raises(kind, match=message):
            call()
    for old, new in zip(before, (pool._memory.state, *pool._memory.records, pool._cursors), strict=True):
        assert same_bits(old, new)
    pool.decode(0, slots, **given)  # nothing of all that began a step


@pytest.mark.parametrize("shape", [(2, 1), (3,)])
def test_accepted_of_another_shape_is_refused(backend: str, shape: tuple[int, ...]) -> None:
    pool = make_pool()
    streams, slots = Streams(pool, 2, 8), torch.tensor([0, 1])
    for layer in range(2):
        pool.verify(layer, slots, **streams.layer(layer, [(0, 0), (1, 0)], 4))
    with pytest.raises(ArgumentError, match="accepted "):
        pool.commit(slots, torch.zeros(shape, dtype=torch.int32))
    pool.commit(slots, torch.tensor([1, 1]))


def test_transposed_states_of_equal_dims_are_refused(backend: str) -> None:
    """A [K, V] view in a [V, K] pool has the right shape where K = V: its strides say what it is."""
    from kvbuffer_codegen.runtime import ops

    pool = make_pool(form="decode")
    slots, streams = torch.tensor([0]), Streams(pool, 1, 1)
    inputs = list(streams.layer(0, [(0, 0)]).values())
    state, records = pool._layers[0]
    with pytest.raises(ArgumentError, match=r"state .*stride"):
        ops.decode(
            pool._lookup.kernel("decode", 1),
            state.mT,
            records,
            pool._cursors,
            slots,
            slots,
            inputs,
            torch.empty(1, 4, 16),
        )


CONSTRUCTOR: list[tuple[dict[str, Any], str]] = [
    ({"recurrence": "nothing"}, "recurrence='nothing'"),
    ({"heads": (2, 3)}, "heads=.*multiple"),
    ({"layers": 0}, "layers=0"),
    ({"slots": True}, "slots=True"),
    ({"io": torch.float64}, "io=torch.float64"),
    ({"state": "int4"}, "state='int4'"),
    ({"buffer": 0}, "buffer=0"),
    ({"max_window": 65}, "window=65"),
    ({"layout": "HV"}, "layout='HV'"),
    ({"records": "fp8"}, "records='fp8'"),
    ({"dims": (16, 300)}, "V=300"),
    ({"form": "fast"}, "form='fast'"),
]


@pytest.mark.parametrize(("changes", "message"), CONSTRUCTOR, ids=lambda x: x if isinstance(x, str) else "")
def test_constructor_refuses(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_pool(**changes)


@pytest.mark.usefixtures("reference")
def test_recurrence_by_name_object_and_normal_form() -> None:
    pools = [make_pool(recurrence=r) for r in ("gated_delta_rule", gated_delta_rule, gated_delta_rule.normal_form)]
    assert len({p.recurrence.hash for p in pools}) == 1


# --- the pool


@pytest.mark.usefixtures("reference")
def test_nbytes_is_what_the_tensors_take() -> None:
    pool = make_pool(dims=(16, 16), slots=6, layers=2)
    R, H, HV = 4 + 4, 2, 4
    ring = 6 * R * (HV * 16 + H * 16 + HV) * 4
    assert pool.nbytes == 2 * (6 * HV * 16 * 16 * 4 + ring) + 5 * 7 * 4


def test_rows_of_the_pool_begin_at_16_bytes_whatever_the_dims(backend: str) -> None:
    """K and V that are no power of two and no multiple of 16 bytes: nothing beyond a row is read into it."""
    pool = make_pool(dims=(100, 10), io="float16", state="float16", form="decode")
    streams = Streams(pool, 1, 6)
    for x in (pool._memory.state, *(f for f in pool._memory.records if f.dim() == 5)):
        assert all(s * x.element_size() % 16 == 0 for s in x.stride()[:-1])
    for x in (pool._memory.state, *(f for f in pool._memory.records if f.dim() == 5)):
        whole = x.as_strided((x.untyped_storage().nbytes() // x.element_size(),), (1,))
        whole.fill_(NAN)  # the padding of rows, too
    pool.reset(range(6))
    pool.load(0, streams.start[:, 0])
    feed(pool, streams, [0], range(6))
    assert error(pool.materialize(0), streams.truth[1][:, 0, 5]) < 2.0**-9


def test_warmup_touches_no_row(backend: str) -> None:
    pool = make_pool()
    pool.load([0, 1, 2, 3, 4, 5], torch.randn(2, 6, 4, 16, 16))
    before = [x.clone() for x in (pool._memory.state, *pool._memory.records, pool._cursors)]
    pool.warmup([1, 3], windows=(4,))
    for old, new in zip(before, (pool._memory.state, *pool._memory.records, pool._cursors), strict=True):
        assert same_bits(old, new)
    pool.check()


@pytest.mark.usefixtures("reference")
def test_debug_mode_finds_what_only_the_device_sees() -> None:
    pool = make_pool(debug=True, form="decode", layers=1)
    given = Streams(pool, 2, 8).layer(0, [(0, 0), (1, 0)])
    with pytest.raises(ValueError, match="slots holds 3 more than once"):
        pool.decode(0, torch.tensor([3, 3]), **given)
    pool.decode(0, torch.tensor([-1, -1]), **given)
    pool.advance(torch.tensor([-1, -1]))
    with pytest.raises(FaultError, match="index 8"):
        pool.decode(0, torch.tensor([8, 1]), **given)
    pool.reset(1)
    pool._cursors[3, 1] = 2
    with pytest.raises(ValueError, match=r"slots \[1\] have an open window"):
        pool.decode(0, torch.tensor([0, 1]), **given)


@pytest.mark.usefixtures("reference")
def test_a_slot_twice_spoils_that_slot_alone() -> None:
    pool = make_pool(form="decode", layers=1)
    streams = Streams(pool, 3, 8)
    pool.load([0, 1, 2], streams.start)
    slots = torch.tensor([0, 1, 0, 2])
    for t in range(6):
        pool.decode(0, slots, **streams.layer(0, [(0, t), (1, t), (0, t), (2, t)]))
        pool.advance(slots)
    for r in (1, 2):
        assert error(pool.materialize(r), streams.truth[1][:, r, 5]) < 1e-5


def test_pools_of_two_shapes_in_one_process(backend: str) -> None:
    """A kernel made for one size must not serve another: both orders, in turns."""
    pools = [make_pool(dims=dims, form="decode", layers=1) for dims in ((16, 16), (128, 128), (16, 16))]
    streams = [Streams(pool, 1, 6, seed=i) for i, pool in enumerate(pools)]
    for pool, stream in zip(pools, streams, strict=True):
        pool.load(0, stream.start[:, 0])
    for t in range(6):
        for pool, stream in zip(pools, streams, strict=True):
            out = feed(pool, stream, [0], range(t, t + 1))
            assert error(out, stream.truth[0][0, :, t]) < 1e-5
