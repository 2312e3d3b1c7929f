"""Faults that users of such kernels reported in public, each as a test named after its symptom.

`docs/faults.md` says which test holds which report; tests of other files are named there too.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cpu_harness import Case
from runtime_kit import PARAMETERS, Streams, error, make_pool, needs_gpu
from test_contract import Serving, changed_slots, poison, snapshot

from kvbuffer_codegen.autotune import workload
from kvbuffer_codegen.checking import same_bits
from kvbuffer_codegen.compiler.cubin import waits_first
from kvbuffer_codegen.ir.forms import FORMS, KernelSpec, cursor_spec
from kvbuffer_codegen.ir.recurrences import RECURRENCES, gated_delta_rule
from kvbuffer_codegen.ir.signature import COUNT, FAULT, WINDOW
from kvbuffer_codegen.runtime import FaultError
from kvbuffer_codegen.schedules import space
from kvbuffer_codegen.schedules.targets import TARGETS

pytestmark = [pytest.mark.filterwarnings("ignore:No .* kernel"), pytest.mark.usefixtures("one_thread")]
ROOT = Path(__file__).parent.parent
FAULTS = ROOT / "docs" / "faults.md"
compiled = pytest.mark.parametrize("backend", ["cpu"], indirect=True)


# --- slots, padding, empty batches


@pytest.mark.parametrize("order", [[-1, 0, 1], [0, -1, 1], [0, 1, -1], [-1, -1, -1]], ids=str)
def test_padded_rows_of_every_call_touch_no_slot(backend: str, order: list[int]) -> None:
    """Padding that is clamped to slot 0, wrapped to the last slot or pointed at a live one lets its state drift."""
    serving = Serving(make_pool(form="decode"), [2, 4])
    poison(serving.pool, serving.slots)
    pool, live, before = serving.pool, {2, 4} if 0 in order else set(), snapshot(serving.pool)
    serving.token("decode", order)
    serving.window(order, 4, [4, 3, 2], [3, 3, 2])
    serving.token("step", order)
    serving.token("decode", order)
    slots = serving.rows(order)
    pool.flush(slots)
    pool.fork(slots, slots)
    pool.load(slots, torch.ones(2, 3, 4, 16, 16))
    pool.reset(slots)
    assert changed_slots(pool, before) == live
    pool.check()


def test_windows_of_no_tokens_leave_states_as_they_are(backend: str) -> None:
    serving = Serving(make_pool(form="decode"), [0, 3])
    serving.token("decode", [0, 1])
    before = snapshot(serving.pool)
    serving.window([0, 1], 4, [0, 0], [0, 0])
    assert changed_slots(serving.pool, before) == set()
    serving.window([0, 1], 4, [0, 4], [0, 2])
    assert changed_slots(serving.pool, before) == {3}
    serving.check_states()


def test_slots_far_above_the_batch(backend: str) -> None:
    """Nothing that is sized by the batch is indexed by slot: a kernel has no memory but its arguments."""
    serving = Serving(make_pool(slots=300, form="decode"), [299, 150])
    before = snapshot(serving.pool)
    for _ in range(3):
        serving.window([0, 1], 4, [4, 4], [1, 3])
        serving.token("decode", [1, 0])
    serving.check_states()
    assert changed_slots(serving.pool, before) == {150, 299}
    every = {a.name for form in FORMS for a in _arguments(form)}
    assert not {name for name in every if re.search("scratch|workspace|intermediate|snapshot|cache", name)}


def _arguments(form: str) -> Any:
    from kvbuffer_codegen.ir.signature import signature

    if FORMS[form].cursors_only:
        return signature(cursor_spec(form))
    window = 4 if form == "verify" else 0
    return signature(KernelSpec(form, gated_delta_rule.normal_form, 16, 16, 2, buffer=4, window=window))


def test_an_empty_batch_compiles(backend: str) -> None:
    """A data-parallel rank with nothing to do goes through the same compiled graph."""
    torch._dynamo.reset()
    pool = make_pool(form="decode")
    none = torch.empty(0, dtype=torch.int32)
    blank = {n: x if n in PARAMETERS else x[:0] for n, x in Streams(pool, 1, 1).layer(0, [(0, 0)]).items()}

    def step(slots: torch.Tensor, given: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        outs = [pool.decode(layer, slots, **given) for layer in range(2)]
        pool.advance(slots)
        return outs

    outs = torch.compile(step, fullgraph=True, backend="aot_eager", dynamic=False)(none, blank)
    assert [tuple(x.shape) for x in outs] == [(0, 4, 16)] * 2


# --- heads and widths


def test_value_heads_read_their_own_key_head(backend: str) -> None:
    """Three value heads a key head: head h reads h // 3. With the key heads interleaved instead, results differ."""
    pool, one_to_one = (make_pool(heads=heads, form="decode", layers=1) for heads in ((2, 6), (6, 6)))
    streams, slots = Streams(pool, 1, 6), torch.tensor([1])
    for p in (pool, one_to_one):
        p.load(1, streams.start[:, 0])

    def run(p: Any, repeat: Any) -> torch.Tensor:
        outs = []
        for t in range(6):
            given = streams.layer(0, [(0, t)])
            given |= {name: repeat(given[name]) for name in ("q", "k")}
            outs.append(p.decode(0, slots, **given))
            p.advance(slots)
        return torch.cat(outs)

    grouped = run(pool, lambda x: x)
    assert error(grouped, streams.truth[0][0, 0]) < 1e-5
    assert error(run(one_to_one, lambda x: x.repeat_interleave(3, dim=1)), grouped.double().numpy()) < 1e-5
    one_to_one.load(1, streams.start[:, 0])
    assert error(run(one_to_one, lambda x: x.repeat(1, 3, 1)), grouped.double().numpy()) > 0.1


@pytest.mark.parametrize("K", [40, 100])
def test_channel_gates_whose_width_is_no_power_of_two_read_nothing_beyond_their_row(K: int) -> None:
    """Gates, records and states lie among NaN: a load that is not masked would bring one in."""
    spec = KernelSpec("decode", RECURRENCES["kda"].normal_form, K, 12, 1, "bfloat16", buffer=3)
    Case(spec, B=4).run()


# --- numbers


@compiled
def test_a_rounded_state_does_not_drift_with_the_number_of_tokens(backend: str) -> None:
    """A fold that does not see what the last one rounded away adds its error every time. Here corrections are made
    against the state as it is stored: eight times the tokens are not eight times the error (observed: 1.35 times)."""
    tokens = 4096
    pool = make_pool(layers=1, slots=1, state="bfloat16", form="decode")
    serving = Serving(pool, [0], tokens=tokens)
    serving.streams.inputs["a"].sub_(5)  # decays near 1: what is rounded away stays away for long
    slots, errors = torch.tensor([0]), {}
    for t in range(tokens):
        pool.decode(0, slots, **serving.streams.layer(0, [(0, t)]))
        pool.advance(slots)
        if t + 1 in (512, tokens):
            errors[t + 1] = error(pool.materialize(0), serving.streams.truth[1][:, 0, t])
    assert errors[tokens] < 3 * errors[512]


# --- a request's life


def test_a_preempted_request_recomputes_from_the_start(backend: str) -> None:
    """Reset in mid-sequence, with records pending and a window open: the second run has the bits of the first."""
    pool = make_pool(form="decode")
    streams, slots = Streams(pool, 1, 10, zero=True), torch.tensor([3])

    def run() -> list[torch.Tensor]:
        outs = []
        for t in range(6):
            outs += [pool.decode(layer, slots, **streams.layer(layer, [(0, t)])) for layer in range(2)]
            pool.advance(slots)
        return [*outs, pool.materialize(3)]

    first = run()
    assert pool.pending[3] > 0
    for layer in range(2):
        pool.verify(layer, slots, **streams.layer(layer, [(0, 6)], 4))
    pool.reset(3)
    assert all(same_bits(a, b) for a, b in zip(first, run(), strict=True))


@needs_gpu
def test_a_prefix_is_not_published_before_it_is_written() -> None:
    """flush and fork run on torch's current stream; a copy on another stream behind an event has the whole state."""
    pool = make_pool(form="decode", device="cuda")
    streams, slots = Streams(pool, 1, 4), torch.tensor([0], device="cuda")
    pool.load(0, streams.start[:, 0].cuda())
    pool.warmup(1)
    for t in range(3):
        for layer in range(2):
            pool.decode(layer, slots, **{n: x.cuda() for n, x in streams.layer(layer, [(0, t)]).items()})
        pool.advance(slots)
    writer, reader, written = torch.cuda.Stream(), torch.cuda.Stream(), torch.cuda.Event()
    writer.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(writer):
        torch.cuda._sleep(100_000_000)
        pool.flush(slots)
        written.record()
    with torch.cuda.stream(reader):
        written.wait()
        pool.fork(0, 4)
    reader.synchronize()
    assert error(pool._memory.state[:, 4].cpu(), streams.truth[1][:, 0, 2]) < 1e-5


# --- whatever comes


def fuzz(pool: Any, calls: int, seed: int) -> None:
    """Random calls with slots, rings, lengths and counts in and out of range: rows that no call names stay bit for
    bit, cursors stay in range, and whatever was out of range is told."""
    random, streams = np.random.default_rng(seed), Streams(pool, 3, 12)
    idle = [1, 4]
    pool.load(list(range(pool.slots)), torch.randn(pool.layers, pool.slots, 4, 16, 16))
    before, told = snapshot(pool), 0
    for _ in range(calls):
        B = int(random.integers(1, 4))
        slots = torch.from_numpy(random.choice([0, 2, 3, 5], B, replace=False))
        rings = slots.clone()
        for index in (slots, rings):
            if random.random() < 0.3:
                index[random.integers(0, B)] = int(random.choice([-1, -2, 6, 7, 2**31, 2**32 + 1, -(2**40)]))
        rows = [(int(random.integers(0, 3)), int(random.integers(0, 8))) for _ in range(B)]
        form = str(random.choice(["decode", "step", "verify", "flush"]))
        T = int(random.integers(1, 5)) if form == "verify" else None
        if form == "flush":
            pool.flush(slots, rings=rings)
        else:
            more = {"lengths": torch.from_numpy(random.integers(-1, T + 2, B))} if T else {}
            for layer in range(pool.layers):
                getattr(pool, form)(layer, slots, rings=rings, **more, **streams.layer(layer, rows, T))
            accepted = torch.from_numpy(random.integers(-1, (T or 0) + 2, B))
            pool.commit(slots, accepted) if T else pool.advance(slots)
        try:
            pool.check()
        except FaultError:
            told += 1
        counts, windows = pool._cursors[[COUNT, WINDOW], :-1]
        assert ((counts >= 0) & (counts <= max(pool.buffer, pool.max_window))).all()
        assert (windows == 0).all()
    assert not changed_slots(pool, before) & set(idle)
    assert told > calls // 10
    assert torch.isfinite(pool._memory.state).all()
    assert (pool._cursors[FAULT] == 0).all()


def test_random_calls_touch_no_row_that_they_do_not_name(backend: str) -> None:
    fuzz(make_pool(form="decode"), 200 if backend == "cpu" else 60, seed=1)


@pytest.mark.slow
@compiled
def test_ten_thousand_random_calls_touch_no_row_that_they_do_not_name(backend: str) -> None:
    fuzz(make_pool(form="decode", layers=1), 10_000, seed=2)


# --- tuning


def test_tuning_takes_little_memory_beside_a_full_pool() -> None:
    """It times pools of its own, twice the cache and never a copy of the caller's: a Qwen3-Next layer of 128 rows on a
    GPU with 60 MB of cache."""
    for rows in (1, 8, 32, 128):
        spec = KernelSpec("decode", gated_delta_rule.normal_form, 128, 128, 2, "bfloat16", buffer=16)
        slots = workload.groups_of(spec, rows, 16, 60_000_000) * rows
        assert slots * 32 * 128 * 128 * 4 < 1e9


# --- what compilers and hardware did wrong


@pytest.mark.parametrize("target", [t for t in TARGETS.values() if t.kind == "cuda"], ids=lambda t: t.name)
def test_blocks_are_whole_warps(target: Any) -> None:
    """A barrier is dropped where the number of threads is no multiple of 32."""
    for form in FORMS:
        more = {"window": 4} if form == "verify" else {}
        for K, V in ((16, 16), (128, 128), (100, 36)):
            spec = KernelSpec(form, gated_delta_rule.normal_form, K, V, 2, "bfloat16", buffer=16, **more)
            spec = cursor_spec(form) if FORMS[form].cursors_only else spec
            assert all(s.threads % 32 == 0 for s in space.legal(spec, target))  # type: ignore[attr-defined]


SOURCES = sorted((ROOT / "generated").rglob("*.cu"))


def test_gpu_kernels_have_one_grid_axis() -> None:
    """Axes y and z end at 65,535, which batch times heads passes; x does not."""
    from kvbuffer_codegen.artifact import read_manifest

    assert SOURCES
    for source in SOURCES:
        assert read_manifest(source.parent)["launch"]["grid"][1:] == [1, 1]
        assert not re.search(r"blockIdx\.[yz]", source.read_text())


def test_gpu_kernels_do_not_specialise_warps() -> None:
    """Bulk stores and specialised warps lost barriers. Neither is generated."""
    hazards = r"st\.bulk|setmaxnreg|warpgroup_reg"
    assert not [s for s in SOURCES if re.search(hazards, s.read_text())]


def test_gpu_kernels_wait_for_their_predecessor_before_they_touch_memory() -> None:
    """Loads above a grid-dependency wait read what the last kernel has not written: in source, the wait is the first
    statement of every block; in code, no access of global memory stands before it."""
    waits = [s for s in SOURCES if "cudaGridDependencySynchronize();" in s.read_text()]
    assert waits
    for source in waits:
        _, _, body = source.read_text().rpartition('extern "C" __global__')
        statements = [line.strip() for line in body.partition("{\n")[2].splitlines() if line.strip()]
        assert statements[0] == "cudaGridDependencySynchronize();", source
        assert waits_first(source.with_suffix(".cubin").read_bytes()), source


# --- the list itself


def test_every_report_has_a_line_and_every_test_that_is_named_exists() -> None:
    text = FAULTS.read_text()
    rows = [line for line in text.splitlines() if re.match(r"\| \d+ \|", line)]
    assert [int(row.split("|")[1]) for row in rows] == list(range(1, len(rows) + 1))
    assert len(rows) >= 73
    tests = {p.stem: _tests(p) for p in (ROOT / "tests").glob("test_*.py")}
    for row in rows:
        _, _, symptom, link, held, *_ = row.split("|")
        assert len(symptom) > 20, row
        assert "https://github.com/" in link or "source" in link, row
        named = re.findall(r"`(test_\w+)::(test_\w+)`", held)
        assert named or "cannot" in held, f"{row}: name a test, or say why it cannot happen"
        for file, test in named:
            assert test in tests.get(file, set()), f"{file}::{test} does not exist; docs/faults.md names it"


def _tests(path: Path) -> set[str]:
    return {n.name for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.FunctionDef)}
