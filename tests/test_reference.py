"""The torch reference against the oracle, for every kind of recurrence that the class allows."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from inventions import EVERY
from runtime_kit import needs_gpu
from torch.utils._python_dispatch import TorchDispatchMode

from kvbuffer_codegen import checking
from kvbuffer_codegen.autotune.cases import Case
from kvbuffer_codegen.ir.forms import KernelSpec, cursor_spec
from kvbuffer_codegen.ir.language import Recurrence
from kvbuffer_codegen.ir.recurrences import gated_delta_rule
from kvbuffer_codegen.runtime.errors import ArgumentError
from kvbuffer_codegen.runtime.reference import ReferenceKernel

pytestmark = pytest.mark.usefixtures("one_thread")
FORMS = {"decode": 0, "step": 0, "verify": 5, "flush": 0, "publish": 0}
DTYPES = (("float32", "float32", "VK", 0), ("bfloat16", "float16", "KV", 6), ("float16", "bfloat16", "VK", 5))


def spec_of(recurrence: Recurrence, form: str, io: str, state: str, layout: str, kv_only: int) -> KernelSpec:
    K, V, ratio, L = 16, 12, 2, 4
    nf = recurrence.normal_form
    return KernelSpec(form, nf, K, V, ratio, io, state, "exact", layout, L, FORMS[form], kv_only)


@pytest.mark.parametrize("dtypes", DTYPES, ids=lambda d: "-".join(map(str, d)))
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("recurrence", EVERY, ids=lambda r: r.name)
def test_agrees_with_the_oracle(recurrence: Recurrence, form: str, dtypes: tuple[str, str, str, int]) -> None:
    spec = spec_of(recurrence, form, *dtypes)
    case = Case(spec, recurrence)
    given = case.tensors()
    ReferenceKernel(spec, "cpu")(*checking.arguments_of(spec, given))
    assert checking.judge(case, given).reason == ""


def test_judge_sees_a_wrong_reference() -> None:
    spec = spec_of(gated_delta_rule, "decode", *DTYPES[0])
    case = Case(spec, gated_delta_rule)
    given = case.tensors()
    ReferenceKernel(spec, "cpu")(*checking.arguments_of(spec, given))
    given["out"][1] *= 1.0001
    assert "out" in checking.judge(case, given).reason


@pytest.mark.parametrize("form", ["advance", "commit"])
def test_cursors(form: str) -> None:
    assert checking.check_kernel(ReferenceKernel(cursor_spec(form), "cpu"), cursor_spec(form), seeds=9).ok


class NoSync(TorchDispatchMode):
    """Refuses operations that read a tensor on the host or whose result's shape depends on its values."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert func.overloadpacket.__name__ not in ("_local_scalar_dense", "nonzero", "masked_select", "unique", "item")
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("form", FORMS)
def test_reads_nothing_on_the_host(form: str) -> None:
    spec = spec_of(gated_delta_rule, form, *DTYPES[1])
    given = Case(spec, gated_delta_rule).tensors()
    with NoSync(), pytest.raises(AssertionError):
        given["slots"][0].item()
    with NoSync():
        ReferenceKernel(spec, "cpu")(*checking.arguments_of(spec, given))


def test_refuses_what_a_compiled_kernel_refuses() -> None:
    spec = spec_of(gated_delta_rule, "decode", *DTYPES[0])
    given = Case(spec, gated_delta_rule).tensors()
    before = {name: x.clone() for name, x in given.items()}
    wrong = {
        "q": given["q"].double(),
        "v": given["v"][..., :-1],
        "k": given["k"].transpose(-1, -2).contiguous().transpose(-1, -2),
        "slots": given["slots"].float(),
        "cursors": given["cursors"][:, :-1],
        "out": given["out"][1:],
    }
    for name, value in wrong.items():
        with pytest.raises(ArgumentError, match=name):
            ReferenceKernel(spec, "cpu")(*checking.arguments_of(spec, given | {name: value}))
    assert all(checking.same_bits(given[name], x) for name, x in before.items())


@needs_gpu
@pytest.mark.parametrize("form", FORMS)
def test_captures_in_a_graph(form: str) -> None:
    spec = spec_of(gated_delta_rule, form, *DTYPES[0])
    case = Case(spec, gated_delta_rule)
    kernel, given = ReferenceKernel(spec, "cuda"), case.tensors("cuda")
    kernel(*checking.arguments_of(spec, {name: x.clone() for name, x in given.items()}))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(*checking.arguments_of(spec, given))
    for name, x in case.tensors("cuda").items():
        given[name].copy_(x)
    graph.replay()
    assert checking.judge(case, {name: x.cpu() for name, x in given.items()}).reason == ""
