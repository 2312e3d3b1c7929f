"""DeltaNet (arXiv 2406.06484, equation 3): the delta rule without a decay; keys and queries are l2-normalised."""

from __future__ import annotations

from typing import Any

from ..language import Key, Scalar, State, Value, l2norm, outer, recurrence, width


@recurrence
def delta_rule(S: State, q: Key, k: Key, v: Value, beta: Scalar) -> Any:
    k = l2norm(k)
    S = S + outer(beta * (v - S @ k), k)
    return S, S @ (l2norm(q) * width(q) ** -0.5)
