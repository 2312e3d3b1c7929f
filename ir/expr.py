"""Expressions of one token: small, frozen, hashable trees over named axes.

An expression lives on a subset of the axes ``K`` (key channels) and ``V`` (value channels) and belongs to no head, to
a key head or to a value head. Equal expressions are equal values, so a dictionary keyed by expressions is
common-subexpression elimination. Nothing here computes: :func:`evaluate` walks a tree with the operations of whoever
asks (NumPy, torch, TIR).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

LEAVES = ("const", "size", "input", "scalar", "field", "read", "left")
UNARY = ("neg", "exp", "log", "sqrt", "rsqrt", "sigmoid", "softplus", "tanh", "abs")
BINARY = ("add", "sub", "mul", "div", "maximum", "minimum")
#: ``bfloat16``: to nearest even in bfloat16, within its finite range; records are split with it, no recurrence has it.
OPERATIONS = (*UNARY, *BINARY, "sum", "bfloat16")

#: ``exp`` of a larger argument saturates here (just under the logarithm of float32's largest value), so that
#: ``exp(A_log) * softplus(x)`` is 0, not NaN, where the second factor underflows.
EXP_LIMIT = 88.72

#: The largest finite bfloat16.
BFLOAT16_MAX = 3.3895313892515355e38

T = TypeVar("T")


@dataclass(frozen=True)
class Expr:
    """One node. ``value`` holds what a leaf names: a float, ``"K"``/``"V"``, (input name, index), a name, or a
    number of a read or write."""

    op: str
    args: tuple[Expr, ...] = ()
    value: Any = None
    axes: frozenset[str] = frozenset()
    heads: str = "none"
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.op, self.args, self.value, self.axes, self.heads)))

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return to_text(self)


def const(value: float) -> Expr:
    return Expr("const", value=float(value))


def size(axis: str) -> Expr:
    """The number of channels along ``"K"`` or ``"V"``: known when a kernel is compiled."""
    return Expr("size", value=axis)


def leaf(op: str, value: Any, axes: Iterable[str] = (), heads: str = "none") -> Expr:
    return Expr(op, value=value, axes=frozenset(axes), heads=heads)


def apply(op: str, *args: Expr) -> Expr:
    """``op`` applied pointwise (or ``sum`` over K), with constants folded and neutral elements dropped."""
    axes = frozenset().union(*(a.axes for a in args))
    heads = max((a.heads for a in args), key=("none", "key", "value").index)
    if op == "sum":
        return Expr("sum", args, axes=axes - {"K"}, heads=heads)
    if all(a.op == "const" for a in args):
        return const(_FOLD[op](*(a.value for a in args)))
    neutral = {"add": 0.0, "sub": 0.0, "mul": 1.0, "div": 1.0}.get(op)
    if neutral is not None and args[1] == const(neutral):
        return args[0]
    if op in ("add", "mul") and args[0] == const(neutral or 0.0):
        return args[1]
    if op == "neg" and args[0].op == "neg":
        return args[0].args[0]
    return Expr(op, args, axes=axes, heads=heads)


def _softplus(x: float) -> float:
    return x if x > 20 else math.log1p(math.exp(x))


_FOLD: dict[str, Callable[..., float]] = {
    "neg": lambda a: -a,
    "exp": lambda a: math.exp(min(a, EXP_LIMIT)),
    "log": math.log,
    "sqrt": math.sqrt,
    "rsqrt": lambda a: 1 / math.sqrt(a),
    "sigmoid": lambda a: 1 / (1 + math.exp(-a)),
    "softplus": _softplus,
    "tanh": math.tanh,
    "abs": abs,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "maximum": max,
    "minimum": min,
}


def evaluate(
    expr: Expr, leaf_of: Callable[[Expr], T], ops: Mapping[str, Callable[..., T]], memo: dict[Expr, T] | None = None
) -> T:
    """Evaluate ``expr``: ``leaf_of`` gives the leaves, ``ops`` every operation, each distinct node once."""
    memo = {} if memo is None else memo
    if expr not in memo:
        memo[expr] = (
            leaf_of(expr) if expr.op in LEAVES else ops[expr.op](*(evaluate(a, leaf_of, ops, memo) for a in expr.args))
        )
    return memo[expr]


def rewrite(expr: Expr, rule: Callable[[Expr], Expr | None]) -> Expr:
    """``expr`` with every node, outermost first, for which ``rule`` returns something replaced by that."""
    new = rule(expr)
    if new is not None:
        return new
    if not expr.args:
        return expr
    args = tuple(rewrite(a, rule) for a in expr.args)
    return expr if args == expr.args else apply(expr.op, *args)


def walk(*exprs: Expr) -> Iterator[Expr]:
    """Every distinct node, operands before what uses them."""
    seen: set[Expr] = set()

    def visit(node: Expr) -> Iterator[Expr]:
        if node not in seen:
            seen.add(node)
            for a in node.args:
                yield from visit(a)
            yield node

    for expr in exprs:
        yield from visit(expr)


def mentions(expr: Expr, *ops: str) -> bool:
    return any(node.op in ops for node in walk(expr))


def input_side(expr: Expr) -> bool:
    """Built from inputs alone: no read of the state inside."""
    return not mentions(expr, "read", "left")


def degree(expr: Expr) -> int:
    """0: input-side; 1: affine in the reads and earlier left vectors; 2: neither."""
    if expr.op in ("read", "left"):
        return 1
    degrees = [degree(a) for a in expr.args]
    if not any(degrees):
        return 0
    if expr.op in ("add", "sub", "neg"):
        return max(degrees)
    if expr.op == "mul":
        return min(sum(degrees), 2)
    return degrees[0] if expr.op == "div" and not degrees[1] else 2


_INFIX = {"add": ("+", 1), "sub": ("-", 1), "mul": ("*", 2), "div": ("/", 2)}


def to_text(expr: Expr, names: Mapping[Expr, str] | None = None, level: int = 0) -> str:
    """Readable formula; ``names`` gives nodes that already have a name."""
    if names and expr in names:
        return names[expr]
    if expr.op == "const":
        return f"{expr.value:g}"
    if expr.op in ("read", "left"):
        return f"{'r' if expr.op == 'read' else 'a'}{expr.value}"
    if expr.op == "input":
        name, index = expr.value
        return name if index is None else f"{name}[{index}]"
    if expr.op in LEAVES:
        return str(expr.value)
    if expr.op in _INFIX:
        symbol, strength = _INFIX[expr.op]
        left, right = (to_text(a, names, strength + i * (expr.op in ("sub", "div"))) for i, a in enumerate(expr.args))
        text = f"{left} {symbol} {right}"
        return f"({text})" if strength < level else text
    if expr.op == "neg":
        return f"-{to_text(expr.args[0], names, 3)}"
    if expr.op == "sum" and expr.args[0].op == "mul":
        a, b = expr.args[0].args
        return f"({to_text(a, names, 3)} . {to_text(b, names, 3)})"
    return f"{expr.op}({', '.join(to_text(a, names) for a in expr.args)})"


def to_nodes(exprs: Iterable[Expr | None]) -> tuple[list[list[Any]], list[int | None]]:
    """A JSON form: the distinct nodes in order ``[op, operand numbers, value, axes, heads]`` and the number of each
    expression."""
    exprs = list(exprs)
    number: dict[Expr, int] = {}
    nodes: list[list[Any]] = []
    for node in walk(*(e for e in exprs if e is not None)):
        value = list(node.value) if isinstance(node.value, tuple) else node.value
        number[node] = len(nodes)
        nodes.append([node.op, [number[a] for a in node.args], value, sorted(node.axes), node.heads])
    return nodes, [None if e is None else number[e] for e in exprs]


def from_nodes(nodes: list[list[Any]]) -> list[Expr]:
    """The inverse of :func:`to_nodes`; raises ``ValueError`` for anything that is not such a list."""
    made: list[Expr] = []
    for op, args, value, axes, heads in nodes:
        if op not in LEAVES and op not in OPERATIONS:
            raise ValueError(f"normal form: unknown operation {op!r}; accepted: {', '.join((*LEAVES, *OPERATIONS))}")
        if (
            heads not in ("none", "key", "value")
            or not set(axes) <= {"K", "V"}
            or any(not 0 <= a < len(made) for a in args)
        ):
            raise ValueError(f"normal form: malformed node {[op, args, value, axes, heads]}")
        made.append(
            Expr(
                op,
                tuple(made[a] for a in args),
                tuple(value) if isinstance(value, list) else value,
                frozenset(axes),
                heads,
            )
        )
    return made
