"""Holds a kernel against the float64 oracle: the one judge of tuner, ``check`` and tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from kvbuffer_codegen.autotune.cases import SCALES, Case, Tensors, bytes_of, cursor_case, state_values
from kvbuffer_codegen.autotune.tree_cases import CompactCase
from kvbuffer_codegen.ir.forms import FORMS, KernelSpec, cursor_spec
from kvbuffer_codegen.ir.language import Recurrence
from kvbuffer_codegen.ir.normal_form import NormalForm
from kvbuffer_codegen.ir.signature import signature
from kvbuffer_codegen.manifest import Manifest
from kvbuffer_codegen.recurrences import of_normal_form

Kernel = Callable[..., Any]


@dataclass(frozen=True)
class Tolerance:
    """Largest error accepted, relative to the largest value of a row of the tensor (a slot, a record, a token's
    output).
    """

    limit: float
    reason: str


#: By dtype of what is stored. Sums run over at most 256 channels and 80 records in float32.
TOLERANCES = {
    "float32": Tolerance(1e-5, "float32 sums in another order than the oracle's; observed 2e-7 to 2e-6"),
    "bfloat16": Tolerance(
        2**-8, "one rounding to 8 bits of significand is 2^-9 of the value, and twice that is accepted"
    ),
    "float16": Tolerance(
        2**-10, "one rounding to 11 bits of significand is 2^-12 to 2^-11 of the value, and twice that is accepted"
    ),
    "int8": Tolerance(
        2.0**-7, "half of a step of 1/127 of the largest value is 2^-8 of it, and twice that is accepted"
    ),
    "float8_e4m3fn": Tolerance(
        2.0**-4, "half of the largest step, 32 of 448, is 0.036 of the largest value; 0.0625 is accepted"
    ),
    "pair": Tolerance(
        2**-15, "a high and a low bfloat16 hold 16 bits of a value, 2^-17 of it, beside a float32 sum's error"
    ),
}


@dataclass(frozen=True)
class Result:
    """``errors``: per tensor the largest relative error met. ``reason``: what is wrong, empty where nothing is."""

    errors: dict[str, float]
    reason: str = ""

    @property
    def ok(self) -> bool:
        return not self.reason


def spec_of(manifest: Manifest) -> KernelSpec:
    """The spec that a validated manifest describes. Raises ``ValueError`` where its normal form or numbers are none."""
    if FORMS[manifest["form"]].cursors_only:
        return cursor_spec(manifest["form"], manifest.get("rounding", "nearest"))
    names = ("ratio", "io", "state", "layout", "buffer", "window", "kv_only")
    return KernelSpec(
        manifest["form"],
        NormalForm.from_dict(manifest["recurrence"]["normal_form"]),
        manifest["dims"]["K"],
        manifest["dims"]["V"],
        records=manifest["records_mode"],
        rounding=manifest.get("rounding", "nearest"),
        tree="tree" in manifest,
        **{name: manifest[name] for name in names},
    )


def check_kernel(
    kernel: Kernel, spec: KernelSpec, device: torch.device | str = "cpu", source: str = "", seeds: int = 1
) -> Result:
    """Call ``kernel`` (positionally, in the order of ``ir.signature``) on ``seeds`` cases and judge what it leaves.

    ``source``: where the recurrence comes from (a shipped name or ``path.py:function``), so that its own function is
    the oracle.
    """
    if FORMS[spec.form].cursors_only:
        return _merged([_check_cursors(kernel, spec, device, seed) for seed in range(max(seeds, 3))])
    assert spec.recurrence is not None
    recurrence = of_normal_form(spec.recurrence, source)
    return _merged([_check_case(kernel, case_of(spec, recurrence, seed), device) for seed in range(seeds)])


_cases: dict[tuple[KernelSpec, int], Case | CompactCase] = {}


def case_of(spec: KernelSpec, recurrence: Recurrence, seed: int = 0) -> Case | CompactCase:
    """The case of ``spec``, made once: candidates of one search share it."""
    if (spec, seed) not in _cases:
        _cases.clear()  # one spec after the other: the last one's tensors are all that is worth keeping
        _cases[spec, seed] = CompactCase(spec, seed) if spec.form == "compact" else Case(spec, recurrence, seed)
    return _cases[spec, seed]


def arguments_of(spec: KernelSpec, tensors: Mapping[str, Any]) -> list[Any]:
    """``tensors`` in the order of the kernel's signature."""
    return [tensors[a.name] for a in signature(spec)]


def _check_case(kernel: Kernel, case: Case | CompactCase, device: torch.device | str) -> Result:
    given = case.tensors(device)
    kernel(*arguments_of(case.spec, given))
    return judge(case, {name: x.cpu() for name, x in given.items()})


def judge(case: Case | CompactCase, after: Tensors) -> Result:
    """Compare what a call left in its tensors with what it must have left."""
    errors: dict[str, float] = {}
    wanted = case.wanted(after)
    for name, before in case.before.items():
        got = after[name]
        if name not in wanted:
            if not same_bits(got, before):
                return Result(errors, f"{name} was changed, which {case.spec.form} must not do")
            continue
        want = wanted[name]
        kept = want.isnan()
        if not same_bits(bytes_of(got)[kept], bytes_of(before)[kept]):
            return Result(errors, f"{name} was changed where {case.spec.form} must leave it")
    values = {name: x.double() for name, x in after.items() if name in wanted and name != "state"}
    state = {"state": state_values(case.spec, after)} if "state" in after else {}
    values = _values(case.spec, values | state)
    for name, want in _values(case.spec, wanted).items():
        errors[name] = relative_error(values[name], want, want.isnan(), _row_axes(case.spec, name))
        limit = _limit(case.spec, name)
        if errors[name] > limit:
            return Result(
                errors, f"{name} is off by {errors[name]:.2g} of its row's largest value; accepted: {limit:.2g}"
            )
    return Result(errors)


def _values(spec: KernelSpec, tensors: Tensors) -> Tensors:
    """float64 tensors without scales, and with the high and low parts of left vectors added up: codes and parts by
    themselves may round either way."""
    made = {name: x for name, x in tensors.items() if name not in SCALES}
    for r, left in enumerate(spec.record_layout.lefts):
        if left.op == "add" and left.args[0].value in tensors:
            high, low = (made.pop(part.value) for part in left.args)
            made[f"left{r}"] = high + low
    return made


def relative_error(got: torch.Tensor, want: torch.Tensor, kept: torch.Tensor, row_axes: int) -> float:
    """The largest difference in units of the largest wanted value of its row: what the first ``row_axes`` axes number.

    A row of zeros must be zero: any difference there is infinite. An infinity (the logarithm of a decay of exactly 0)
    must be met and is no scale. What is ``kept`` does not count.
    """
    difference = torch.where(kept | (got == want), 0.0, (got - want).abs()).flatten(row_axes).flatten(0, row_axes - 1)
    scale = (
        torch.where(kept | want.isinf(), 0.0, want.abs())
        .flatten(row_axes)
        .flatten(0, row_axes - 1)
        .amax(-1, keepdim=True)
    )
    error = torch.where(difference > 0, difference / scale, difference)
    return float("inf") if bool(error.isnan().any()) else float(error.max())


def _row_axes(spec: KernelSpec, name: str) -> int:
    """Axes in front of one row: a slot of the state, a record of a ring, a token of the output."""
    if name == "cursors":
        return 1
    if name == "state":
        return 1 + FORMS[spec.form].layered
    return 1 + FORMS[spec.form].window if name == "out" else 2


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    words = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[a.element_size()]
    return torch.equal(a.contiguous().view(words), b.contiguous().view(words))


def _limit(spec: KernelSpec, name: str) -> float:
    if name == "cursors":
        return 0.0
    dtypes = {"state": spec.state, "out": spec.io} | {f.name: f.stored(spec.io) for f in spec.record_layout.fields}
    at_random = 1 + spec.stochastic  # up to a whole step off, where nearest is half of one
    limit = TOLERANCES[dtypes.get(name, "pair")].limit * (at_random if name == "state" else 1)
    if spec.form == "step" and spec.state != "float32":
        # A step that folds rounds the state twice, once before its token reads it.
        limit += TOLERANCES[spec.state].limit * at_random
    return limit


def _check_cursors(kernel: Kernel, spec: KernelSpec, device: torch.device | str, seed: int) -> Result:
    given, wanted = cursor_case(spec, seed)
    on_device = {name: x.to(device, copy=True) if isinstance(x, torch.Tensor) else x for name, x in given.items()}
    kernel(*arguments_of(spec, on_device))
    left = on_device["cursors"].cpu()
    if torch.equal(left, wanted):
        return Result({"cursors": 0.0})
    slot = int((left != wanted).any(0).nonzero()[0])
    return Result({}, f"cursors of slot {slot} are {left[:, slot].tolist()}; wanted: {wanted[:, slot].tolist()}")


def _merged(results: list[Result]) -> Result:
    errors: dict[str, float] = {}
    for result in results:
        for name, error in result.errors.items():
            errors[name] = max(errors.get(name, 0.0), error)
    return Result(errors, next((r.reason for r in results if not r.ok), ""))
