"""Recurrences that ship nowhere, one of each kind that the class allows, and gated delta rule beside them."""

from __future__ import annotations

from typing import Any

from kvbuffer_codegen.ir.language import (
    Channel,
    HeadScalar,
    Key,
    Scalar,
    State,
    Value,
    dot,
    exp,
    l2norm,
    outer,
    recurrence,
    sigmoid,
    silu,
    softplus,
    tanh,
)
from kvbuffer_codegen.ir.recurrences import gated_delta_rule


@recurrence
def additive_per_channel(S: State, q: Key, k: Key, v: Value, g: Channel) -> Any:
    """Nothing is read before the write; the decay has one value per key channel."""
    S = exp(-softplus(g)) * S
    S = S + outer(v, k)
    return S, S @ q


@recurrence
def rank_two_other_read(S: State, q: Key, k: Key, r: Key, v: Value, g: Scalar, b: Scalar) -> Any:
    """Two writes, and the vector read with is not the one written with."""
    r, k = l2norm(r), l2norm(k)
    S = sigmoid(g) * S
    S = S - outer(sigmoid(b) * (S @ r), r * 0.5) + outer(v, k)
    return S, S @ q


@recurrence
def two_tokens_in_one(S: State, q: Key, k: Key[2], v: Value[2], g: Scalar, b: Scalar[2], D: HeadScalar) -> Any:  # type: ignore[type-arg]
    """Two delta-rule writes a token with a decay between them, a skip connection and a read of the state before the
    token."""
    before = S @ q
    for i in range(2):
        key = l2norm(k[i])
        S = S + outer(sigmoid(b[i]) * (v[i] - S @ key), key)
        S = exp(-softplus(g)) * S
    return S, S @ q + 0.25 * before + D * v[0]


@recurrence
def nonlinear_left(S: State, q: Key, k: Key, v: Value, z: Value, g: Value) -> Any:
    """A left vector that is not affine in what it reads, a decay per value channel, a gated output."""
    k = l2norm(k)
    S = exp(-softplus(g)) * S
    u = tanh(v - S @ k)
    S = S + outer(u, k)
    return S, silu(z) * (S @ q) + dot(q, k) * u


INVENTIONS = (additive_per_channel, rank_two_other_read, two_tokens_in_one, nonlinear_left)
EVERY = (gated_delta_rule, *INVENTIONS)
