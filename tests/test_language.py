"""What the language refuses, and that each refusal quotes the user's line and says what would be accepted."""

from __future__ import annotations

import pathlib

import pytest

from kvbuffer_codegen.ir.language import (
    Channel,
    HeadScalar,
    Key,
    LegalityError,
    Scalar,
    State,
    Value,
    dot,
    exp,
    l2norm,
    outer,
    recurrence,
    sigmoid,
    sqrt,
    tanh,
    width,
)


def refused(function, line, *words):
    """Tracing ``function`` fails, quoting this file and ``line``."""
    with pytest.raises(LegalityError) as error:
        recurrence(function).normal_form  # noqa: B018
    text = str(error.value)
    for word in (pathlib.Path(__file__).name, line, "accepted", *words):
        assert word in text, text


def test_mamba1_decay_over_v_and_k():
    def mamba1(S: State, k: Key, q: Key, x: Value, dt: Value, A: Channel):
        S = exp(outer(dt, A)) * S
        return S + outer(x, k), S @ q

    refused(mamba1, "S = exp(outer(dt, A)) * S", "V x K", "Mamba-1")

    def tile(S: State, q: Key, dt: Value, A: Channel):
        S = outer(dt, A) * S
        return S, S @ q

    refused(tile, "S = outer(dt, A) * S", "a decay over V x K")


def test_dense_transition():
    def dense(S: State, q: Key, k: Key, v: Value):
        S = S @ outer(v, k)
        return S, S @ q

    refused(dense, "S = S @ outer(v, k)", "dense transition")


def test_nonlinear_state():
    def squashed(S: State, q: Key, k: Key, v: Value):
        S = tanh(S) + outer(v, k)
        return S, S @ q

    refused(squashed, "S = tanh(S) + outer(v, k)", "tanh of the state", "not be linear")

    def squared(S: State, q: Key, k: Key, v: Value):
        S = S * S
        return S, S @ q

    refused(squared, "S = S * S", "not be linear")


def test_norm_of_a_read():
    def normed(S: State, q: Key, k: Key, v: Value):
        u = l2norm(S @ k)
        return S + outer(u, k), S @ q

    refused(normed, "u = l2norm(S @ k)", "a sum over V")


def test_gate_computed_from_a_read():
    def gated(S: State, q: Key, k: Key, v: Value):
        gate = sigmoid(S @ k)
        S = gate * S
        return S + outer(v, k), S @ q

    refused(gated, "S = gate * S", "a gate computed from a read")


def test_read_at_a_read():
    def twice(S: State, q: Key, k: Key, v: Value):
        x = dot(k, k) * (S @ k)
        o = S @ (S @ k)
        return S + outer(x, k), o

    refused(twice, "o = S @ (S @ k)", "a read at a read")


def test_k_beside_v_even_where_equal():
    def mixed(S: State, q: Key, k: Key, v: Value):
        u = v * k
        return S + outer(u, k), S @ q

    refused(mixed, "u = v * k", "K and V meet in outer")

    def swapped(S: State, q: Key, k: Key, v: Value):
        S = S + outer(k, v)
        return S, S @ q

    refused(swapped, "S = S + outer(k, v)", "the left vector of outer has K, not V")


def test_decays_must_show_their_logarithm():
    def opaque(S: State, q: Key, k: Key, v: Value, g: Scalar):
        S = tanh(g) * S
        return S + outer(v, k), S @ q

    refused(opaque, "S = tanh(g) * S", "logarithm is not visible", "exp(x)")

    def negative(S: State, q: Key, k: Key, v: Value):
        S = -0.5 * S
        return S + outer(v, k), S @ q

    refused(negative, "S = -0.5 * S", "logarithm is not visible")

    def flipped(S: State, q: Key, k: Key, v: Value):
        S = outer(v, k) - S
        return S, S @ q

    refused(flipped, "S = outer(v, k) - S")


def test_results():
    def nothing(S: State, q: Key):
        S @ q

    refused(nothing, "nothing", "returns None")

    def over_k(S: State, q: Key):
        return S, q * 2.0

    refused(over_k, "over_k", "not a vector over V")


def test_declarations():
    def guessed(S: State, q, k: Key):
        return S, S @ k

    refused(guessed, "def guessed", "argument 'q'", "nothing is guessed")

    def unknown(S: State, q: Matrix):  # type: ignore[name-defined]  # noqa: F821
        return S, S @ q

    refused(unknown, "def unknown", "unknown kind", "Matrix")

    def late(q: Key, S: State):
        return S, S @ q

    refused(late, "def late", "accepted there: State")

    def reserved(S: State, out: Key):
        return S, S @ out

    refused(reserved, "def reserved", "argument 'out'")

    def sized(S: State, B: Key):
        return S, S @ B

    refused(sized, "def sized", "argument 'B'")

    def alone(S: State):
        return S, S

    with pytest.raises(LegalityError, match="at least one input"):
        recurrence(alone)
    with pytest.raises(LegalityError, match="positive integer"):
        Key[0]


def test_small_words():
    def powers(S: State, q: Key, k: Key[2], v: Value, s: HeadScalar):  # type: ignore[type-arg]
        q = q * width(q) ** -0.5
        S = exp(-(s**2)) * S / 2.0
        return S + outer(v * sqrt(s + 1.0), k[0] - k[-1]), S @ q

    nf = recurrence(powers).normal_form
    assert nf.log_decay_scalar is not None
    assert len(nf.reads) == 1

    def third(S: State, q: Key, k: Key[2], v: Value):  # type: ignore[type-arg]
        return S + outer(v, k[2]), S @ q

    refused(third, "return S + outer(v, k[2])", "index 2", "0 to 1")

    def both(S: State, q: Key, k: Key[2], v: Value):  # type: ignore[type-arg]
        return S + outer(v, k), S @ q

    refused(both, "return S + outer(v, k)", "several vectors")

    def cube(S: State, q: Key, v: Value):
        return S + outer(v**1.5, q), S @ q

    refused(cube, "v**1.5", "1.5 is not a power")
