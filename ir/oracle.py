"""The truth: a recurrence's own function, run token by token on float64 arrays with named axes.

It never goes through the normal form, so a fault of the tracer cannot hide in both. ``forms_numpy.py`` evaluates the
derived forms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from .expr import BFLOAT16_MAX, EXP_LIMIT
from .language import Argument, Quantity, Recurrence

F64 = npt.NDArray[np.float64]


def _softplus(x: F64) -> F64:
    return np.where(x > 20, x, np.log1p(np.exp(np.minimum(x, 20))))


def _sigmoid(x: F64) -> F64:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, small) / (1 + small)


def bfloat16(x: F64) -> F64:
    """``x`` to nearest even in bfloat16, within its finite range."""
    bits = np.clip(x, -BFLOAT16_MAX, BFLOAT16_MAX).astype(np.float32).view(np.uint32)
    bits = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(x), np.nan, bits.view(np.float32).astype(np.float64))


#: Every operation of the language on float64 arrays (``sum`` is over the last axis).
OPS: dict[str, Any] = {
    "neg": np.negative,
    "exp": lambda x: np.exp(np.minimum(x, EXP_LIMIT)),
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": _sigmoid,
    "softplus": _softplus,
    "tanh": np.tanh,
    "abs": np.abs,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "sum": lambda x: np.sum(x, axis=-1),
    "bfloat16": bfloat16,
}


class Array(Quantity):
    """float64 data of shape [HV, *axes], axes a subset of ("V", "K") in that order."""

    def __init__(self, data: F64, axes: tuple[str, ...]):
        self.data, self.axes = np.asarray(data, np.float64), axes

    def _on(self, axes: tuple[str, ...]) -> F64:
        shape = iter(self.data.shape[1:])
        return self.data.reshape(self.data.shape[:1] + tuple(next(shape) if a in self.axes else 1 for a in axes))

    def unary(self, op: str) -> Array:
        if op == "width":
            return Array(np.full(self.data.shape[:1], float(self.data.shape[-1])), ())
        if op == "sum":
            return Array(self.data.sum(-1), self.axes[:-1])
        return Array(OPS[op](self.data), self.axes)

    def binary(self, op: str, other: Any, swapped: bool = False) -> Array:
        other = other if isinstance(other, Array) else Array(np.full(self.data.shape[:1], float(other)), ())
        if op == "read":
            return Array(np.einsum("hvk,hk->hv", self.data, other.data), ("V",))
        if op == "outer":
            return Array(self.data[:, :, None] * other.data[:, None, :], ("V", "K"))
        axes = tuple(a for a in ("V", "K") if a in self.axes or a in other.axes)
        left, right = (other, self) if swapped else (self, other)
        return Array(OPS[op](left._on(axes), right._on(axes)), axes)


def per_head(argument: Argument, data: npt.ArrayLike, HV: int, t: int | None) -> Any:
    """One token's value of an argument as Array(s) per value head; key heads are repeated. ``t`` is None for a
    parameter."""
    x = np.asarray(data, np.float64)
    x = x if argument.parameter or t is None else x[t]
    axes = (argument.axis,) if argument.axis else ()

    def one(part: F64) -> Array:
        return Array(np.repeat(part, HV // part.shape[0], axis=0), axes)

    return [one(part) for part in x] if argument.count else one(x)


def run(recurrence: Recurrence, inputs: Mapping[str, npt.ArrayLike], state: npt.ArrayLike) -> tuple[F64, F64]:
    """Run a sequence of T tokens for one request.

    ``inputs[name]``: [T, (count,) heads, (axis,)] for what comes per token, [HV, (axis,)] for parameters, H key
    heads or HV value heads. ``state``: [HV, V, K]. Returns outputs [T, HV, V] and the state after each
    token [T, HV, V, K], all float64.
    """
    outputs, states = [], []
    for output, after in tokens(recurrence, inputs, state):
        outputs.append(output)
        states.append(after)
    return np.array(outputs), np.array(states)


def tokens(
    recurrence: Recurrence, inputs: Mapping[str, npt.ArrayLike], state: npt.ArrayLike
) -> Iterator[tuple[F64, F64]]:
    """:func:`run`, a token at a time: its output [HV, V] and the state after it [HV, V, K], none of them kept."""
    current = Array(np.array(state, np.float64), ("V", "K"))
    HV = current.data.shape[0]
    for t in range(next(len(np.asarray(inputs[a.name])) for a in recurrence.arguments if not a.parameter)):
        with np.errstate(over="ignore", under="ignore", divide="ignore"):
            values = [per_head(a, inputs[a.name], HV, t) for a in recurrence.arguments]
            current, output = recurrence.function(current, *values)
            output = np.broadcast_to(output._on(("V",)), current.data.shape[:2])
        yield output, current.data
