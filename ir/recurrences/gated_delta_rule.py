"""Gated delta rule (Gated DeltaNet, arXiv 2412.06464, equation 10), as Qwen3-Next and Qwen3.5 run it.

Keys and queries are l2-normalised, the query is scaled by K^-1/2, and the gates come raw from the projections:
log_decay = -exp(A_log) softplus(a + dt_bias), beta = sigmoid(b). Published shapes: 16 key heads, 16 to 64 value heads,
128 x 128.
"""

from __future__ import annotations

from typing import Any

from ..language import HeadScalar, Key, Scalar, State, Value, exp, l2norm, outer, recurrence, sigmoid, softplus, width


@recurrence
def gated_delta_rule(
    S: State, q: Key, k: Key, v: Value, a: Scalar, b: Scalar, A_log: HeadScalar, dt_bias: HeadScalar
) -> Any:
    q = l2norm(q) * width(q) ** -0.5
    k = l2norm(k)
    log_decay = -exp(A_log) * softplus(a + dt_bias)
    S = exp(log_decay) * S
    u = sigmoid(b) * (v - S @ k)
    S = S + outer(u, k)
    return S, S @ q
