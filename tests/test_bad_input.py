"""Every argument of every public call, given everything that it is not: an error of one line that names the argument
and what is accepted, and nothing touched.

What is right in shape and kind but wrong in value is in test_pool.py, test_pool_misuse.py and test_launcher.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from runtime_kit import CONFIG, PARAMETERS, Streams, build, make_pool
from test_contract import changed_slots, snapshot

from kvbuffer_codegen import load_kernel
from kvbuffer_codegen.runtime import ArgumentError, KernelError, Pool, dispatcher, ops
from kvbuffer_codegen.runtime.arguments import kernel_spec
from kvbuffer_codegen.runtime.loader import load_artifact

pytestmark = [
    pytest.mark.filterwarnings("ignore:No .* kernel"),
    pytest.mark.filterwarnings("ignore:Defining your `__torch_function__`"),  # torch, of a class as a device
    pytest.mark.usefixtures("one_thread"),
]
SLOTS = torch.tensor([0, 1])
PARENTS = torch.tensor([[-1, 0, 0, 1], [-1, -1, 1, 2]])
KEY: dict[str, Any] = {
    "form": "decode", "recurrence": "gated_delta_rule", "heads": (2, 4), "dims": (16, 16), "io": "float32", "buffer": 4,
}  # fmt: skip
#: What stands where a tensor, a number, a name or a sequence is meant.
THINGS: dict[str, Any] = {
    "None": None,
    "a negative number": -2,
    "a number past 64 bits": 10**30,
    "a fraction": 1.5,
    "NaN": float("nan"),
    "text": "x",
    "bytes": b"x",
    "an array": np.array([0, 1]),
    "a dict": {},
    "an object": object(),
    "a class": torch.Tensor,
}
TENSORS: dict[str, Any] = {
    "floats": torch.tensor([0.0, 1.0, 2.0]),
    "flags": torch.tensor([True, False]),
    "bytes": torch.tensor([0, 1], dtype=torch.uint8),
    "complex": torch.tensor([0j, 1j]),
    "no axis": torch.tensor(1.0),
    "three axes": torch.zeros(1, 1, 1, dtype=torch.float64),
    "on no device": torch.empty(2, dtype=torch.int64, device="meta"),
    "sparse": torch.tensor([0, 1]).to_sparse(),
}
EVERYTHING = {**THINGS, **{f"a tensor: {name}": x for name, x in TENSORS.items()}}


def refused(call: Callable[[], Any], argument: str, what: str) -> None:
    with pytest.raises((TypeError, ValueError, IndexError, KernelError)) as caught:
        call()
    text = str(caught.value)
    assert re.search(rf"(?<!\w){argument}(?!\w)", text), f"{what}: {text}"
    assert "accepted" in text, f"{what}: {text}"
    assert "\n" not in text, f"{what}: {text}"
    assert len(text) < 500, f"{what}: {text}"


@pytest.fixture
def served(backend: str) -> tuple[Pool, Streams]:
    pool = make_pool(form="decode", layers=1)
    streams = Streams(pool, 2, 8)
    pool.load([0, 1], streams.start)
    return pool, streams


def calls_of(pool: Pool, streams: Streams) -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    """Every public call with arguments that are right, by name."""
    token, window = (streams.layer(0, [(0, 0), (1, 0)], T) for T in (None, 4))
    prompt = {n: x if n in PARAMETERS else x[:, 0] for n, x in streams.inputs.items()}
    layer = {"layer": 0, "slots": SLOTS, "rings": SLOTS}
    return {
        "decode": (pool.decode, {**layer, "out": torch.empty(2, 4, 16), **token}),
        "step": (pool.step, {**layer, "out": torch.empty(2, 4, 16), **token}),
        "verify": (pool.verify, {**layer, "out": torch.empty(2, 4, 4, 16), "lengths": torch.tensor([4, 4]), **window}),
        "load": (pool.load, {"slots": [0, 1], "states": torch.zeros(4, 16, 16).expand(2, 4, 16, 16), "layer": 0}),
        "reset": (pool.reset, {"slots": [0, 1], "rings": [0, 1]}),
        "free": (pool.free, {"slot": 0}),
        "ingest": (pool.ingest, {"slot": 0, **prompt}),
        "fork": (pool.fork, {"src": [0, 1], "dst": [3, 4]}),
        "flush": (pool.flush, {"slots": SLOTS, "rings": SLOTS}),
        "publish": (pool.flush, {"dst": torch.tensor([3, 4]), "slots": SLOTS, "rings": SLOTS}),
        "tree": (pool.verify, {"parents": PARENTS, **layer, "lengths": torch.tensor([4, 4]), **window}),
        "materialize": (pool.materialize, {"slot": 0, "back": 0, "ring": 0}),
        "warmup": (pool.warmup, {"batch": 1, "windows": [4]}),
    }


#: None is their default.
OPTIONAL = {"out", "rings", "lengths", "ring", "windows", "layer", "dst", "parents"}
_POOL = make_pool(layers=1)
ARGUMENTS = [(call, name) for call, (_, given) in calls_of(_POOL, Streams(_POOL, 2, 8)).items() for name in given]


@pytest.mark.parametrize(("call", "argument"), ARGUMENTS, ids=str)
def test_a_pool_refuses_by_name_and_touches_nothing(served: tuple[Pool, Streams], call: str, argument: str) -> None:
    pool, _ = served
    function, given = calls_of(*served)[call]
    before, order = snapshot(pool), (pool._order.form, list(pool._order._ran))
    for what, thing in EVERYTHING.items():
        optional = argument in OPTIONAL - {"dst"} or (call, argument) == ("publish", "dst")
        if (call, argument, what) == ("tree", "q", "a tensor: three axes"):
            continue  # another T than that of parents, which are named
        if thing is None and optional and (argument != "layer" or call == "load"):
            continue
        refused(lambda thing=thing: function(**given | {argument: thing}), argument, f"{call} with {argument} = {what}")
    assert changed_slots(pool, before) == set()
    assert (pool._order.form, list(pool._order._ran)) == order
    assert pool._cursors[:, -1].tolist() == [0] * 5


@pytest.mark.parametrize("form", ["decode", "verify"])
def test_a_closing_call_refuses_by_name_and_touches_nothing(served: tuple[Pool, Streams], form: str) -> None:
    pool, streams = served
    getattr(pool, form)(0, SLOTS, **streams.layer(0, [(0, 0), (1, 0)], 4 if form == "verify" else None))
    before = snapshot(pool)
    for what, thing in EVERYTHING.items():
        if isinstance(thing, torch.Tensor) and thing.shape == (3,):
            continue  # another number of rows is another error
        if form == "decode":
            refused(lambda thing=thing: pool.advance(thing), "slots", f"slots = {what}")
        else:
            refused(lambda thing=thing: pool.commit(thing, SLOTS), "slots", f"slots = {what}")
            refused(lambda thing=thing: pool.commit(SLOTS, thing), "accepted", f"accepted = {what}")
    assert changed_slots(pool, before) == set()
    pool.advance(SLOTS) if form == "decode" else pool.commit(SLOTS, SLOTS)


def test_a_commit_of_a_path_refuses_by_name_and_touches_nothing(served: tuple[Pool, Streams]) -> None:
    pool, streams = served
    pool.verify(0, SLOTS, parents=PARENTS, **streams.layer(0, [(0, 0), (1, 0)], 4))
    path, before = torch.tensor([[0, 1], [1, 2]]), snapshot(pool)
    for what, thing in EVERYTHING.items():
        if thing is not None:
            refused(lambda thing=thing: pool.commit(SLOTS, SLOTS, path, thing), "rings", f"rings = {what}")
            refused(lambda thing=thing: pool.commit(SLOTS, SLOTS, thing), "path", f"path = {what}")
        refused(lambda thing=thing: pool.commit(SLOTS, thing, path), "accepted", f"accepted = {what}")
    assert changed_slots(pool, before) == set()
    pool.commit(SLOTS, torch.tensor([2, 2]), path)
    assert pool.pending[:2].tolist() == [2, 2]


NUMBERS = ("layers", "slots", "buffer", "max_window", "kv_only", "seed")
CHOICES = (
    "recurrence",
    "heads",
    "dims",
    "io",
    "state",
    "layout",
    "records",
    "rounding",
    "form",
    "strict",
    "batch_invariant",
    "debug",
)


@pytest.mark.parametrize("argument", [*NUMBERS, *CHOICES, "device"])
def test_a_pool_that_cannot_be_is_refused_by_name(argument: str) -> None:
    for what, thing in EVERYTHING.items():
        if (argument, what) not in {("device", "None"), ("seed", "a negative number")}:
            refused(lambda thing=thing: Pool(**CONFIG | {argument: thing}), argument, f"{argument} = {what}")


@pytest.mark.parametrize(
    "argument", [*KEY, "state", "window", "kv_only", "layout", "records", "rounding", "batch", "device"]
)
def test_a_key_that_no_kernel_has_is_refused_by_name(argument: str) -> None:
    for what, thing in EVERYTHING.items():
        for function in (dispatcher.which, dispatcher.find, load_kernel):
            refused(lambda f=function, thing=thing: f(**KEY | {argument: thing}), argument, f"{argument} = {what}")


def test_what_is_no_artifact_and_no_key() -> None:
    for what, thing in EVERYTHING.items():
        if what != "a dict":
            refused(lambda thing=thing: dispatcher.pin(thing, None), "key", f"key = {what}")
        if isinstance(thing, str):
            continue  # a folder, which is missing
        refused(lambda thing=thing: load_artifact(thing), "artifact", f"artifact = {what}")
        if thing is not None:
            refused(lambda thing=thing: dispatcher.pin(KEY, thing), "artifact", f"artifact = {what}")
            refused(lambda thing=thing: load_artifact(build(kernel_spec(**KEY)), "cpu", thing), "launcher", what)
        refused(lambda thing=thing: dispatcher.which(**KEY, strict=thing), "strict", f"strict = {what}")
        refused(lambda thing=thing: load_artifact(Path("nowhere"), thing), "device", f"device = {what}")


def test_an_operator_refuses_a_tensor_that_is_nowhere(served: tuple[Pool, Streams]) -> None:
    """Among tensors of a device, one on "meta" would send the call to the tracer, which does nothing: no record, no
    output, no error."""
    pool, streams = served
    state, records = pool._layers[0]
    inputs = list(streams.layer(0, [(0, 0), (1, 0)]).values())
    inputs[2] = torch.empty_like(inputs[2], device="meta")
    name = pool._lookup.kernel("decode", 2)
    with pytest.raises(ArgumentError, match="v is on meta; accepted: a cpu device"):
        ops.decode(name, state, records, pool._cursors, SLOTS, SLOTS, inputs, torch.empty(2, 4, 16))


def test_outputs_in_the_pool_s_own_memory_are_refused(served: tuple[Pool, Streams]) -> None:
    pool, streams = served
    given = streams.layer(0, [(0, 0), (1, 0)])
    before, memory = snapshot(pool), pool._memory
    inside = {"state": memory.state[0, :2, :, 0], "record_left0": memory.fields["record_left0"][0, :2, 0]}
    for field, out in inside.items():
        with pytest.raises(ArgumentError, match=f"out shares memory with {field}; accepted: memory of its own"):
            pool.decode(0, SLOTS, out=out, **given)
    with pytest.raises(ArgumentError, match="out shares memory with v"):
        pool.decode(0, SLOTS, out=given["v"], **given)
    assert changed_slots(pool, before) == set()
