"""Gated linear attention (arXiv 2312.06635, equation 3: one decay per key channel) and its scalar-gated form
("simple GLA", as in Mamba-2)."""

from __future__ import annotations

from typing import Any

from ..language import Channel, Key, Scalar, State, Value, exp, outer, recurrence, width


@recurrence
def gla(S: State, q: Key, k: Key, v: Value, log_decay: Channel) -> Any:
    S = exp(log_decay) * S + outer(v, k)
    return S, S @ (q * width(q) ** -0.5)


@recurrence
def simple_gla(S: State, q: Key, k: Key, v: Value, log_decay: Scalar) -> Any:
    S = exp(log_decay) * S + outer(v, k)
    return S, S @ (q * width(q) ** -0.5)
