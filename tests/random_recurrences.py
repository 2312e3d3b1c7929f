"""Random recurrences inside the class, as hypothesis strategies.

A drawn :class:`Written` is data: declared kinds, and the steps of a token in an order of their own (decays, reads and
writes). :func:`recurrence_of` makes it a function of the language, the very thing that a user writes.

What is drawn is kept tame, so that tolerances of arithmetic suffice: vectors that the state is read and written with
have a norm of about one, decays are at most one, what a left vector takes from reads is halved or goes through tanh.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from kvbuffer_codegen.ir import language as lang
from kvbuffer_codegen.ir.language import Argument, Recurrence

Node = Any  #: an expression: (operation, operands ...), ("in", name, index) or ("const", number)

UNARY = {
    "sigmoid": lang.sigmoid,
    "tanh": lang.tanh,
    "softplus": lang.softplus,
    "abs": lang.absolute,
    "silu": lang.silu,
    "neg": lambda x: -x,
    "exp": lambda x: lang.exp(-lang.absolute(x)),
    "log": lambda x: lang.log(lang.absolute(x) + 1.0),
    "sqrt": lambda x: lang.sqrt(lang.absolute(x) + 0.5),
    "rsqrt": lambda x: lang.rsqrt(x * x + 0.5),
    "l2norm": lang.l2norm,
    "unit": lambda x: lang.tanh(x) * lang.width(x) ** -0.5,
}
BINARY = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / (1.0 + lang.absolute(y)),
    "max": lang.maximum,
    "min": lang.minimum,
    "dot": lambda x, y: lang.dot(x, y) / lang.width(x),
}
POINTWISE = sorted(set(UNARY) - {"l2norm", "unit"})
#: How a decay of at most one is written; "half" is a constant and takes nothing.
DECAYS = {
    "softplus": lambda x: lang.exp(-lang.softplus(x)),
    "exp": lambda x: lang.exp(-lang.exp(x)),
    "sigmoid": lang.sigmoid,
    "root": lambda x: lang.sqrt(lang.sigmoid(x)),
    "product": lambda x: 0.9 * lang.sigmoid(x),
}
PER_KEY, PER_VALUE, NUMBERS = ("Key", "Channel"), ("Value",), ("Scalar", "KeyScalar", "HeadScalar")
"""Kinds of vectors over K and over V that come with a token, and of numbers."""


@dataclass(frozen=True)
class Written:
    """``steps``: ("decay", how, input or None) | ("read", x) | ("write", left, right), in order. In an expression,
    ("read", j) is the j-th read and ("left", r) the left vector of write r."""

    arguments: tuple[Argument, ...]
    steps: tuple[tuple[Any, ...], ...]
    output: Node


def recurrence_of(written: Written, name: str = "random") -> Recurrence:
    """``written`` as a recurrence."""

    def token(S: Any, *inputs: Any) -> Any:
        env = dict(zip((a.name for a in written.arguments), inputs, strict=True))
        reads: list[Any] = []
        lefts: list[Any] = []

        def value(node: Node) -> Any:
            op, *rest = node
            if op == "in":
                return env[rest[0]] if rest[1] is None else env[rest[0]][rest[1]]
            if op == "const":
                return rest[0]
            if op in ("read", "left"):
                return (reads if op == "read" else lefts)[rest[0]]
            if op in UNARY:
                return UNARY[op](value(rest[0]))
            return BINARY[op](value(rest[0]), value(rest[1]))

        for kind, *what in written.steps:
            if kind == "decay":
                S = 0.5 * S if what[1] is None else DECAYS[what[0]](value(what[1])) * S
            elif kind == "read":
                reads.append(S @ value(what[0]))
            else:
                lefts.append(value(what[0]))
                S = S + lang.outer(lefts[-1], value(what[1]))
        return S, value(written.output)

    return Recurrence(name, token, written.arguments)


def leaves_of(arguments: list[Argument], axis: str | None) -> list[Node]:
    return [("in", a.name, i) for a in arguments if a.axis == axis for i in (range(a.count) if a.count else [None])]


def expressions(leaves: list[Node], numbers: st.SearchStrategy[Node], depth: int) -> st.SearchStrategy[Node]:
    """Pointwise over the axis of ``leaves``, in which numbers may stand too."""
    if depth == 0:
        return st.sampled_from(leaves)
    smaller = expressions(leaves, numbers, depth - 1)
    return st.one_of(
        st.sampled_from(leaves),
        st.tuples(st.sampled_from(POINTWISE), smaller),
        st.tuples(st.sampled_from(sorted(set(BINARY) - {"dot"})), smaller, st.one_of(smaller, numbers)),
    )


@st.composite
def arguments(draw: Any, rank: int) -> list[Argument]:
    """q, a key and a value for each write (counted or not), some numbers, gates and parameters."""
    made = [Argument("q", draw(st.sampled_from(PER_KEY)))]
    if rank > 1 and draw(st.booleans()):
        made += [Argument("k", draw(st.sampled_from(PER_KEY)), rank), Argument("v", "Value", rank)]
    else:
        for r in range(rank):
            made += [Argument(f"k{r}", draw(st.sampled_from(PER_KEY))), Argument(f"v{r}", "Value")]
    for i in range(draw(st.integers(0, 2))):
        made.append(Argument(f"b{i}", draw(st.sampled_from(NUMBERS)), draw(st.sampled_from([0, 0, 2]))))
    optional = [Argument("z", "Value"), Argument("d", "HeadValue"), Argument("c", "HeadChannel")]
    return made + [a for a in optional if draw(st.booleans())]


@st.composite
def written(draw: Any) -> Written:
    rank = draw(st.integers(1, 3))
    given = draw(arguments(rank))
    steps: list[Any] = [("write",)] * rank + [("read",)] * draw(st.integers(1, 3))
    decays = draw(st.lists(st.sampled_from([*sorted(lang.KINDS), "constant"]), max_size=2))
    for i, kind in enumerate(decays):
        how = draw(st.sampled_from(sorted(DECAYS)))
        steps.append(("decay", how, None if kind == "constant" else ("in", f"g{i}", None)))
    gates = [Argument(f"g{i}", kind) for i, kind in enumerate(decays) if kind != "constant"]
    over_k, over_v, numbers = (leaves_of(given, axis) for axis in ("K", "V", None))
    number = st.one_of(
        st.sampled_from([*numbers, ("const", 0.5), ("const", -1.25)]),
        st.tuples(st.just("dot"), st.sampled_from(over_k), st.sampled_from(over_k)),
    )
    vector = st.one_of(
        st.tuples(st.just("l2norm"), st.sampled_from(over_k)),
        st.tuples(st.just("unit"), expressions(over_k, number, 2)),
        st.tuples(
            st.just("mul"), st.tuples(st.just("l2norm"), st.sampled_from(over_k)), st.tuples(st.just("sigmoid"), number)
        ),
    )
    values = list(over_v)
    done: list[Any] = []
    reads = writes = 0
    for kind, *rest in draw(st.permutations(steps)):
        if kind == "read":
            done.append(("read", draw(vector)))
            values.append(("mul", ("const", 0.5), ("read", reads)))
            reads += 1
        elif kind == "write":
            left = expressions(values, number, 2)
            left = draw(
                st.one_of(
                    st.tuples(st.just("tanh"), left),
                    st.sampled_from(values),
                    st.tuples(st.just("sub"), st.sampled_from(over_v), st.sampled_from(values)),
                )
            )
            done.append(("write", left, draw(vector)))
            values.append(("left", writes))
            writes += 1
        else:
            done.append((kind, *rest))
    output = ("add", draw(expressions(values, number, 2)), ("add", ("read", reads - 1), over_v[0]))
    return Written((*given, *gates), tuple(done), output)
