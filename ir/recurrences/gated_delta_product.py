"""Gated DeltaProduct (arXiv 2502.10297, equation 7): several delta-rule writes a token after one decay."""

from __future__ import annotations

from typing import Any

from ..language import HeadScalar, Key, Scalar, State, Value, exp, l2norm, outer, recurrence, sigmoid, softplus, width


def _token(S: Any, q: Any, k: Any, v: Any, a: Any, b: Any, A_log: Any, dt_bias: Any, count: int) -> Any:
    S = exp(-exp(A_log) * softplus(a + dt_bias)) * S
    for i in range(count):
        key = l2norm(k[i])
        S = S + outer(sigmoid(b[i]) * (v[i] - S @ key), key)
    return S, S @ (l2norm(q) * width(q) ** -0.5)


@recurrence
def gated_delta_product_2(
    S: State, q: Key, k: Key[2], v: Value[2], a: Scalar, b: Scalar[2], A_log: HeadScalar, dt_bias: HeadScalar
) -> Any:
    return _token(S, q, k, v, a, b, A_log, dt_bias, 2)


@recurrence
def gated_delta_product_3(
    S: State, q: Key, k: Key[3], v: Value[3], a: Scalar, b: Scalar[3], A_log: HeadScalar, dt_bias: HeadScalar
) -> Any:
    return _token(S, q, k, v, a, b, A_log, dt_bias, 3)
