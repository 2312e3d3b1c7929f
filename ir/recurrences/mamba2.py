"""Mamba-2 / SSD (arXiv 2405.21060, section 7) in the names of attention: k is its B, q its C, v its x; groups are
key heads, D is the skip.

``dt`` is raw: softplus(dt + dt_bias) steps, decay exp(-exp(A_log) dt). ``mamba2_gated`` also multiplies the output
by silu(z). Published shapes: Nemotron-3, 8 groups, 64 to 256 heads, state size K = 128, head dimension V = 64 or 80.
"""

from __future__ import annotations

from typing import Any

from ..language import HeadScalar, Key, Scalar, State, Value, exp, outer, recurrence, silu, softplus


def _token(S: Any, q: Any, k: Any, v: Any, dt: Any, A_log: Any, dt_bias: Any, D: Any) -> Any:
    step = softplus(dt + dt_bias)
    S = exp(-exp(A_log) * step) * S
    S = S + outer(step * v, k)
    return S, S @ q + D * v


@recurrence
def mamba2(
    S: State, q: Key, k: Key, v: Value, dt: Scalar, A_log: HeadScalar, dt_bias: HeadScalar, D: HeadScalar
) -> Any:
    return _token(S, q, k, v, dt, A_log, dt_bias, D)


@recurrence
def mamba2_gated(
    S: State, q: Key, k: Key, v: Value, dt: Scalar, z: Value, A_log: HeadScalar, dt_bias: HeadScalar, D: HeadScalar
) -> Any:
    S, y = _token(S, q, k, v, dt, A_log, dt_bias, D)
    return S, y * silu(z)
