"""Mamba-2 / SSD (arXiv 2405.21060, section 7): groups are key heads, B and C are keys, x a value, D the skip.

``dt`` is raw: softplus(dt + dt_bias) steps, decay exp(-exp(A_log) dt). ``mamba2_gated`` also multiplies the output
by silu(z).
"""

from __future__ import annotations

from typing import Any

from ..language import HeadScalar, Key, Scalar, State, Value, exp, outer, recurrence, silu, softplus


def _token(S: Any, x: Any, B: Any, C: Any, dt: Any, A_log: Any, dt_bias: Any, D: Any) -> Any:
    step = softplus(dt + dt_bias)
    S = exp(-exp(A_log) * step) * S
    S = S + outer(step * x, B)
    return S, S @ C + D * x


@recurrence
def mamba2(
    S: State, x: Value, B: Key, C: Key, dt: Scalar, A_log: HeadScalar, dt_bias: HeadScalar, D: HeadScalar
) -> Any:
    return _token(S, x, B, C, dt, A_log, dt_bias, D)


@recurrence
def mamba2_gated(
    S: State, x: Value, B: Key, C: Key, dt: Scalar, z: Value, A_log: HeadScalar, dt_bias: HeadScalar, D: HeadScalar
) -> Any:
    S, y = _token(S, x, B, C, dt, A_log, dt_bias, D)
    return S, y * silu(z)
