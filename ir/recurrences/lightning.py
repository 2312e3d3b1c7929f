"""Lightning attention (arXiv 2401.04658; MiniMax-01, Ling 2.5) and RetNet (arXiv 2307.08621, equation 6): one
constant decay per head.

Published shapes: 64 heads (MiniMax-Text-01), 16 or 32 (Ring-linear 2.0) of 128 x 128.
``slope`` > 0 is minus the log-decay of a head: -log(1 - 2^(-5 - h)) in RetNet, the ALiBi slopes in lightning attention.
"""

from __future__ import annotations

from typing import Any

from ..language import HeadScalar, Key, State, Value, exp, outer, recurrence, width


@recurrence
def lightning(S: State, q: Key, k: Key, v: Value, slope: HeadScalar) -> Any:
    S = exp(-slope) * S + outer(v, k)
    return S, S @ (q * width(q) ** -0.5)


@recurrence
def retnet(S: State, q: Key, k: Key, v: Value, slope: HeadScalar) -> Any:
    S = exp(-slope) * S + outer(v, k)
    return S, S @ (q * width(q) ** -0.5)
