"""Linear attention without a normaliser (arXiv 2006.16236, equations 16 to 20; append a one to v for the
normaliser)."""

from __future__ import annotations

from typing import Any

from ..language import Key, State, Value, outer, recurrence, width


@recurrence
def linear_attention(S: State, q: Key, k: Key, v: Value) -> Any:
    S = S + outer(v, k)
    return S, S @ (q * width(q) ** -0.5)
