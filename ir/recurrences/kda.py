"""Kimi delta attention (Kimi Linear, arXiv 2510.26692, equation 1): a delta rule with one decay per key channel,
gates raw.

Two gates: log_decay = -exp(A_log) softplus(a + dt_bias), and the bounded one, lower_bound sigmoid(exp(A_log) (a +
dt_bias)) with lower_bound < 0. Published shapes: 32 heads of 128 x 128 (Kimi Linear 48B; Ling-3.0-Flash, bounded by
-5).
"""

from __future__ import annotations

from typing import Any

from ..language import (
    Channel,
    HeadChannel,
    HeadScalar,
    Key,
    Scalar,
    State,
    Value,
    exp,
    l2norm,
    outer,
    recurrence,
    sigmoid,
    softplus,
    width,
)


def _token(S: Any, q: Any, k: Any, v: Any, log_decay: Any, b: Any) -> Any:
    k = l2norm(k)
    S = exp(log_decay) * S
    S = S + outer(sigmoid(b) * (v - S @ k), k)
    return S, S @ (l2norm(q) * width(q) ** -0.5)


@recurrence
def kda(S: State, q: Key, k: Key, v: Value, a: Channel, b: Scalar, A_log: HeadScalar, dt_bias: HeadChannel) -> Any:
    return _token(S, q, k, v, -exp(A_log) * softplus(a + dt_bias), b)


@recurrence
def kda_bounded(
    S: State,
    q: Key,
    k: Key,
    v: Value,
    a: Channel,
    b: Scalar,
    A_log: HeadScalar,
    dt_bias: HeadChannel,
    lower_bound: HeadScalar,
) -> Any:
    return _token(S, q, k, v, lower_bound * sigmoid(exp(A_log) * (a + dt_bias)), b)
