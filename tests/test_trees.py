"""Trees: verify of nodes, commit of a path, and a prefix published to a second slot, for every recurrence.

The truth is the user's own function along the path to each node (``ir.oracle``); tolerances are those of
``checking`` and, in float64, of sums of some dozens of terms.
"""

from __future__ import annotations

from typing import Any

import cpu_harness
import numpy as np
import pytest
import torch
from inventions import INVENTIONS, nonlinear_left, two_tokens_in_one

from kvbuffer_codegen import checking
from kvbuffer_codegen.autotune.cases import Case
from kvbuffer_codegen.autotune.tree_cases import CompactCase, draw_parents, path_to
from kvbuffer_codegen.ir import oracle
from kvbuffer_codegen.ir.forms import KernelSpec, cursor_spec
from kvbuffer_codegen.ir.forms_numpy import Row
from kvbuffer_codegen.ir.recurrences import RECURRENCES, gated_delta_rule, kda
from kvbuffer_codegen.ir.signature import FAULT, FAULT_PARENT, FAULT_PATH, FAULT_TARGET, WINDOW
from kvbuffer_codegen.runtime.reference import ReferenceKernel

pytestmark = pytest.mark.usefixtures("one_thread")
FAMILY = (*RECURRENCES.values(), *INVENTIONS)
QUICK = (gated_delta_rule, kda, nonlinear_left, two_tokens_in_one)
SLOW = [r if r in QUICK else pytest.param(r, marks=pytest.mark.slow) for r in FAMILY]
LIMIT = 1e-12
H, HV, K, V = 2, 4, 6, 5


def spec_of(recurrence: Any, form: str = "verify", **more: Any) -> KernelSpec:
    window = {"window": 9, "tree": True} if form == "verify" else {}
    values = {"K": 16, "V": 12, "ratio": 2, "io": "bfloat16", "buffer": 4, "kv_only": 5, **window, **more}
    return KernelSpec(form, recurrence.normal_form, **values)


def draw(recurrence: Any, tokens: int, seed: int) -> tuple[dict[str, Any], Any]:
    rng = np.random.default_rng(seed)
    data = {}
    for a in recurrence.arguments:
        wide = ({"K": K, "V": V}[a.axis],) if a.axis else ()
        shape = ((a.count,) if a.count else ()) + (H if a.heads == "key" else HV, *wide)
        data[a.name] = rng.standard_normal(shape if a.parameter else (tokens, *shape))
    return data, rng.standard_normal((HV, V, K))


def close(got: Any, want: Any) -> None:
    np.testing.assert_allclose(got, want, rtol=LIMIT, atol=LIMIT * max(1.0, np.abs(want).max()))


# --- in float64


@pytest.mark.parametrize("recurrence", FAMILY, ids=lambda r: r.name)
@pytest.mark.parametrize("kv_only", [0, 9])
def test_every_node_equals_the_path_to_it(recurrence: Any, kv_only: int) -> None:
    """Trees on a partly filled buffer, one after the other, a path of each accepted, with and without folds."""
    data, state = draw(recurrence, 48, 3)
    state = state * 0 if kv_only else state
    per_token = [a.name for a in recurrence.arguments if not a.parameter]
    parameters = {a.name: data[a.name] for a in recurrence.arguments if a.parameter}
    spec = KernelSpec("decode", recurrence.normal_form, K, V, HV // H, buffer=5, kv_only=kv_only)
    row, done, rng = Row(spec, None if kv_only else state, parameters), [], np.random.default_rng(0)

    def truth(tokens: list[int]) -> tuple[Any, Any]:
        return oracle.run(recurrence, {**data, **{name: data[name][tokens] for name in per_token}}, state)

    for turn, parents in enumerate(draw_parents(6, 8, rng)):
        window = [{name: data[name][8 * turn + t] for name in per_token} for t in range(8)]
        outputs = row.verify(window, parents.tolist())
        for t, output in enumerate(outputs):
            close(output, truth([*done, *(8 * turn + s for s in path_to(parents, t))])[0][-1])
        path = path_to(parents, int(rng.integers(0, 8)))
        row.commit(len(path), path)
        done += [8 * turn + s for s in path]
        close(row.folded(row.records), truth(done)[1][-1])
    assert row.folds >= 1


def test_bad_trees_and_paths_count_as_nothing() -> None:
    data, state = draw(gated_delta_rule, 4, 0)
    parameters = {a.name: data[a.name] for a in gated_delta_rule.arguments if a.parameter}
    window = [{n: data[n][t] for n in data if n not in parameters} for t in range(4)]
    spec = KernelSpec("decode", gated_delta_rule.normal_form, K, V, HV // H, buffer=5)
    for parents in ([-1, 1, 0, 0], [0, -1, -1, -1], [-1, 0, 1, -2], [-1, 0, 1, 5]):
        row = Row(spec, state, parameters)
        assert row.verify(window, parents) == []
        assert row.window == []
    for accepted, path in ((2, [0, 2]), (1, [1]), (2, [1, 0]), (1, [4]), (1, [-1]), (5, [0, 1, 2, 3]), (-1, [0])):
        row = Row(spec, state, parameters)
        row.verify(window, [-1, 0, 1, -1])
        row.commit(accepted, path)
        assert row.records == []


# --- kernels


def run_case(kernel: Any, case: Case | CompactCase) -> None:
    given = case.tensors()
    kernel(*checking.arguments_of(case.spec, given))
    assert checking.judge(case, given).reason == ""


def compiled(spec: KernelSpec) -> Any:
    """The CPU kernel of ``spec``, called positionally with tensors."""

    def call(*arguments: Any) -> None:
        given = {}
        for a, x in zip(cpu_harness.signature(spec), arguments, strict=True):
            bits = x.view(torch.uint16) if isinstance(x, torch.Tensor) and x.dtype == torch.bfloat16 else x
            given[a.name] = bits.numpy() if isinstance(x, torch.Tensor) else x
        cpu_harness.kernel(spec)(**given)

    return call


KERNELS = {"reference": lambda spec: ReferenceKernel(spec, "cpu"), "cpu": compiled}
each_kernel = pytest.mark.parametrize("make", KERNELS.values(), ids=KERNELS)


@each_kernel
@pytest.mark.parametrize("recurrence", SLOW, ids=lambda r: r.name)
def test_verify_of_trees(recurrence: Any, make: Any) -> None:
    """Rows with different trees, occupancies and lengths, folds, kv_only rows, padding; junk behind the lengths."""
    spec = spec_of(recurrence)
    run_case(make(spec), Case(spec, recurrence))


@each_kernel
@pytest.mark.parametrize("recurrence", SLOW, ids=lambda r: r.name)
def test_publish(recurrence: Any, make: Any) -> None:
    """The folded states of a prefix in second slots; rows and slots without a partner are left alone."""
    spec = spec_of(recurrence, "publish", state="int8" if recurrence is kda else "float16", layout="KV")
    run_case(make(spec), Case(spec, recurrence))


@each_kernel
@pytest.mark.parametrize("recurrence", SLOW, ids=lambda r: r.name)
def test_compact(recurrence: Any, make: Any) -> None:
    spec = spec_of(recurrence, "compact")
    for seed in range(3):
        run_case(make(spec), CompactCase(spec, seed))


@each_kernel
def test_commit_path(make: Any) -> None:
    spec = cursor_spec("commit_path")
    assert checking.check_kernel(make(spec), spec, seeds=9).reason == ""


@each_kernel
@pytest.mark.parametrize(
    "sizes",
    [
        {"window": 64, "buffer": 16, "io": "float32"},
        {"window": 1, "layout": "KV", "state": "float16"},
        pytest.param({"window": 64, "buffer": 64, "kv_only": 64, "K": 128, "V": 128}, marks=pytest.mark.slow),
        pytest.param({"window": 33, "buffer": 1, "K": 33, "V": 7, "ratio": 3}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_sizes(sizes: dict[str, Any], make: Any) -> None:
    spec = spec_of(gated_delta_rule, **sizes)
    run_case(make(spec), Case(spec, gated_delta_rule))


@each_kernel
def test_a_chain_is_a_tree(make: Any) -> None:
    """parents[t] = t - 1 gives what the chain kernel gives."""
    spec = spec_of(gated_delta_rule, window=5)
    chain = KernelSpec(**{**vars_of(spec), "tree": False})
    case = Case(chain, gated_delta_rule)
    parents = torch.arange(-1, 4, dtype=torch.int32).repeat(len(case.rows), 1)
    given = case.tensors()
    make(spec)(*checking.arguments_of(spec, given | {"parents": parents}))
    assert checking.judge(case, given).reason == ""


def vars_of(spec: KernelSpec) -> dict[str, Any]:
    return {name: getattr(spec, name) for name in KernelSpec.__dataclass_fields__}


# --- misuse


BAD = {"itself": [-1, 0, 2, 0], "later": [-1, 3, 0, 0], "below -1": [-1, 0, -2, 0], "root": [0, 0, 0, 0]}


@each_kernel
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("wrong", BAD.values(), ids=BAD)
def test_a_tree_that_is_not_topologically_ordered(wrong: list[int], dtype: torch.dtype, make: Any) -> None:
    """A fault at its slot; the row does nothing, the others are served."""
    spec = spec_of(gated_delta_rule)
    case = Case(spec, gated_delta_rule)
    given, clean = case.tensors(), case.tensors()
    b = next(i for i, r in enumerate(case.rows) if r.slot >= 0 and r.length == spec.window and r.count == 0)
    slot = case.rows[b].slot
    given["parents"] = given["parents"].to(dtype)
    given["parents"][b, :4] = torch.tensor(wrong)
    make(spec)(*checking.arguments_of(spec, given))
    make(spec)(*checking.arguments_of(spec, clean))
    assert given["cursors"][FAULT].nonzero().flatten().tolist() == [slot]
    assert given["cursors"][[FAULT, WINDOW], slot].tolist() == [FAULT_PARENT, 0]
    assert (given["out"][b] == 0).all()
    others = torch.arange(len(case.rows)) != b
    assert checking.same_bits(given["out"][others], clean["out"][others])
    assert checking.same_bits(given["state"], clean["state"])
    ring = case.rows[b].ring
    for f in spec.record_layout.fields:
        assert checking.same_bits(given[f.name][ring], case.before[f.name][ring])


@each_kernel
def test_parents_beyond_32_bits(make: Any) -> None:
    spec = spec_of(gated_delta_rule)
    case = Case(spec, gated_delta_rule)
    given = case.tensors()
    b = next(i for i, r in enumerate(case.rows) if r.slot >= 0 and r.length == spec.window)
    given["parents"] = given["parents"].long()
    given["parents"][b, 3] = 2**32
    make(spec)(*checking.arguments_of(spec, given))
    assert given["cursors"][FAULT, case.rows[b].slot] == FAULT_PARENT


@each_kernel
def test_a_bad_path_moves_nothing(make: Any) -> None:
    """compact leaves the records where they are, where commit_path then counts 0."""
    spec, cursors_only = spec_of(gated_delta_rule, "compact"), cursor_spec("commit_path")
    case = CompactCase(spec)
    b = next(int(i) for i in np.argsort(-case.accepted) if case.slots[i] >= 0 and i != 1)
    assert case.accepted[b] > 1
    for wrong in ([*case.path[b, 1:], 0], case.path[b][::-1].copy(), [-1] * 12, [12] * 12):
        given = case.tensors()
        given["path"][b] = torch.from_numpy(np.asarray(wrong).astype(np.int32))
        sizes = {"buffer": spec.buffer, "kv_only": spec.kv_only, "ring": case.rows}
        make(spec)(*checking.arguments_of(spec, given))
        for f in spec.record_layout.fields:
            ring = case.rings[b]
            assert checking.same_bits(given[f.name][:, ring], case.before[f.name][:, ring])
        make(cursors_only)(*checking.arguments_of(cursors_only, given | sizes))
        assert given["cursors"][FAULT].nonzero().flatten().tolist() == [case.slots[b]]
        assert given["cursors"][FAULT, case.slots[b]] == FAULT_PATH


@each_kernel
def test_publish_to_nowhere(make: Any) -> None:
    """A dst out of range or the row's own slot is a fault of the row, and nothing is written for it."""
    spec = spec_of(gated_delta_rule, "publish")
    case = Case(spec, gated_delta_rule)
    live = [i for i, r in enumerate(case.rows) if r.slot >= 0]
    for dtype, wrong in ((torch.int32, case.P), (torch.int32, -2), (torch.int64, 2**32), (torch.int32, None)):
        given = case.tensors()
        given["dst"] = torch.full_like(given["dst"], -1, dtype=dtype)
        slot = case.rows[live[2]].slot
        given["dst"][live[2]] = slot if wrong is None else wrong
        make(spec)(*checking.arguments_of(spec, given))
        assert checking.same_bits(given["state"], case.before["state"])
        wanted = case.before["cursors"].clone()
        wanted[FAULT, slot] = FAULT_TARGET
        assert torch.equal(given["cursors"], wanted)


def test_specs_that_no_kernel_can_be() -> None:
    for wrong in ({"window": 65}, {"window": 0}, {"window": 17, "tree": False}):
        with pytest.raises(ValueError, match="window="):
            spec_of(gated_delta_rule, **wrong)
    with pytest.raises(ValueError, match="tree=True"):
        spec_of(gated_delta_rule, "decode", tree=True)
