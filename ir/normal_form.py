"""From a written token to the canonical linear recurrence, or to an error that quotes the line.

With r_i = S' @ reads[i], S' the state before the token:

    S = exp(log_decay_scalar + log_decay_key[K] + log_decay_value[V]) * S'
        + sum_r outer(writes[r].left, writes[r].right)
    o = output

Reads, right vectors and decays are input-side (built from inputs); left vectors and the output are pointwise over V
in inputs, input-side scalars, reads and earlier left vectors. A read of the state at any point inside the token is
pushed back to S':

    S @ x = e^d * (S' @ (e^k * x)) + sum over writes already made of left * (right . x)
"""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from . import expr as ex
from .expr import Expr
from .language import Argument, LegalityError, Quantity, Recurrence, refuse

DECAYS = "exp(x), constants > 0, sigmoid(x), and products, quotients and powers of these, with x built from inputs"


@dataclass(frozen=True)
class Write:
    """outer(left, right); ``affine``: left is affine in the reads and earlier left vectors."""

    left: Expr
    right: Expr
    affine: bool


@dataclass(frozen=True)
class NormalForm:
    """The canonical form of a recurrence (module docstring); the one thing that everything downstream is derived
    from."""

    name: str
    arguments: tuple[Argument, ...]
    reads: tuple[Expr, ...]
    writes: tuple[Write, ...]
    log_decay_scalar: Expr | None
    log_decay_key: Expr | None
    log_decay_value: Expr | None
    output: Expr

    @property
    def affine(self) -> bool:
        """Whether a window may be solved by a triangular inverse: every left vector is affine in the reads."""
        return all(w.affine for w in self.writes)

    @functools.cached_property
    def hash(self) -> str:
        """sha256 of the canonical JSON: what kernels of this recurrence are keyed by."""
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        lefts, rights = [w.left for w in self.writes], [w.right for w in self.writes]
        decays = [self.log_decay_scalar, self.log_decay_key, self.log_decay_value]
        nodes, numbers = ex.to_nodes([*self.reads, *lefts, *rights, *decays, self.output])
        i, j = len(self.reads), len(self.writes)
        return {
            "name": self.name,
            "arguments": [[a.name, a.kind, a.count] for a in self.arguments],
            "nodes": nodes,
            "reads": numbers[:i],
            "writes": [list(pair) for pair in zip(numbers[i : i + j], numbers[i + j : i + 2 * j], strict=True)],
            "log_decay": numbers[i + 2 * j : i + 2 * j + 3],
            "output": numbers[-1],
        }

    @staticmethod
    def from_dict(data: dict[str, Any]) -> NormalForm:
        """The inverse of :meth:`to_dict`. Raises ``ValueError`` where ``data`` is not a normal form."""
        try:
            nodes = ex.from_nodes(data["nodes"])
            scalar, key, value = (None if n is None else nodes[n] for n in data["log_decay"])
            return NormalForm(
                data["name"],
                tuple(Argument(*a) for a in data["arguments"]),
                tuple(nodes[n] for n in data["reads"]),
                tuple(Write(nodes[a], nodes[b], ex.degree(nodes[a]) < 2) for a, b in data["writes"]),
                scalar,
                key,
                value,
                nodes[data["output"]],
            )
        except (KeyError, TypeError, IndexError) as error:
            raise ValueError(f"normal form: {type(error).__name__}: {error}") from None


class Symbol(Quantity):
    """An expression while a recurrence is traced."""

    def __init__(self, expr: Expr):
        self.expr = expr

    def unary(self, op: str) -> Symbol:
        x = self.expr
        if op == "width":
            if len(x.axes) != 1:
                raise refuse("width of something that is not one vector", "width(x) of a vector over K or over V")
            return Symbol(ex.size(next(iter(x.axes))))
        if op == "sum":
            if "V" in x.axes:
                raise refuse(
                    "a sum over V: V is split over blocks that never meet, so nothing is summed over it",
                    "sums over K of inputs: dot, l2norm",
                )
            if "K" not in x.axes:
                raise refuse("a sum over K of something that has no K axis", "dot(x, y) of vectors over K")
        return Symbol(ex.apply(op, x))

    def binary(self, op: str, other: Any, swapped: bool = False) -> Any:
        if isinstance(other, StateSymbol | OuterSymbol):
            return other.binary(op, self, not swapped)
        right = _symbol(other).expr
        if op == "outer":
            return OuterSymbol(
                ((_over(self.expr, "V", "the left vector of outer"), _over(right, "K", "the right vector of outer")),)
            )
        if op == "read":
            raise refuse(
                "@ reads the state: it takes the state on its left", "S @ x with x over K, dot(x, y) for vectors over K"
            )
        left, right = (right, self.expr) if swapped else (self.expr, right)
        if left.axes | right.axes == {"K", "V"}:
            raise refuse(
                "a vector over K beside a vector over V",
                "K and V meet in outer(left, right) and in S @ x alone, also where K == V",
            )
        return Symbol(ex.apply(op, left, right))


class Several(Quantity):
    """An argument declared as Kind[n]: only its parts are quantities."""

    def __init__(self, parts: list[Symbol]):
        self.parts = parts

    def __getitem__(self, index: int) -> Symbol:
        if not isinstance(index, int) or not -len(self.parts) <= index < len(self.parts):
            raise refuse(f"index {index!r}", f"0 to {len(self.parts) - 1}")
        return self.parts[index]

    def __len__(self) -> int:
        return len(self.parts)

    def unary(self, op: str) -> Any:
        raise refuse("several vectors used as one", "one of them, as k[0]")

    def binary(self, op: str, other: Any, swapped: bool = False) -> Any:
        return self.unary(op)


@dataclass
class OuterSymbol(Quantity):
    """A sum of outer products not yet added to the state."""

    pairs: tuple[tuple[Expr, Expr], ...]

    def unary(self, op: str) -> OuterSymbol:
        if op == "neg":
            return OuterSymbol(tuple((ex.apply("neg", a), b) for a, b in self.pairs))
        raise refuse(
            f"{op} of a whole V x K tile (a decay over V x K, as Mamba-1 has, would need it)",
            "decays per head, per key channel or per value channel",
        )

    def binary(self, op: str, other: Any, swapped: bool = False) -> Any:
        if isinstance(other, StateSymbol):
            return other.binary(op, self, not swapped)
        if isinstance(other, OuterSymbol) and op in ("add", "sub"):
            a, b = (other, self) if swapped else (self, other)
            return OuterSymbol(a.pairs + (b.pairs if op == "add" else b.unary("neg").pairs))
        if op in ("mul", "div") and not isinstance(other, OuterSymbol) and not (op == "div" and swapped):
            by = _symbol(other).expr
            if "K" in by.axes:
                return OuterSymbol(tuple((a, ex.apply(op, b, by)) for a, b in self.pairs))
            return OuterSymbol(tuple((ex.apply(op, a, by), b) for a, b in self.pairs))
        raise refuse(
            f"{op} of an outer product and {_what(other)}",
            "S + outer(left, right), and outer products scaled by numbers and vectors",
        )


@dataclass
class StateSymbol(Quantity):
    """The state at some point inside the token: decay applied so far, and the writes made, as they stand now."""

    tracer: Tracer
    decay: dict[str, Expr] = field(default_factory=dict)  # "" scalar, "K", "V" -> log-decay
    writes: tuple[tuple[Expr, Expr], ...] = ()

    def unary(self, op: str) -> Any:
        if op == "neg":
            raise refuse("the state with its sign changed: a decay is positive", DECAYS)
        raise refuse(
            f"{op} of the state: the recurrence would not be linear in it", "decay * S, S + outer(left, right), S @ x"
        )

    def binary(self, op: str, other: Any, swapped: bool = False) -> Any:
        if op == "read":
            return self._read(other, swapped)
        if op in ("mul", "div"):
            return self._decayed(op, other, swapped)
        if op in ("add", "sub") and isinstance(other, OuterSymbol) and not (op == "sub" and swapped):
            pairs = other.pairs if op == "add" else other.unary("neg").pairs
            for left, _ in pairs:
                self.tracer.check_left(left)
            return StateSymbol(self.tracer, self.decay, self.writes + pairs)
        raise refuse(f"{op} of the state and {_what(other)}", "S + outer(left, right), S - outer(left, right)")

    def _read(self, x: Any, swapped: bool) -> Symbol:
        if swapped or isinstance(x, StateSymbol | OuterSymbol):
            raise refuse(
                "the state times a matrix: a dense transition",
                "S @ x with x a vector over K; an erase is a write of what was read: S - outer(S @ k, k)",
            )
        if not ex.input_side(_symbol(x).expr):
            raise refuse("a read at a read: the vector depends on the state", "S @ x with x built from inputs")
        vector = _over(_symbol(x).expr, "K", "the vector that S @ x reads with")
        result = self.tracer.read(_times(vector, self.decay.get("K")))
        for axis in ("", "V"):
            result = _times(result, self.decay.get(axis))
        for left, right in self.writes:
            result = ex.apply("add", result, ex.apply("mul", left, ex.apply("sum", ex.apply("mul", right, vector))))
        return Symbol(result)

    def _decayed(self, op: str, other: Any, swapped: bool) -> StateSymbol:
        if isinstance(other, StateSymbol) or (op == "div" and swapped):
            raise refuse("the state times or under itself: the recurrence would not be linear in it", "decay * S")
        if isinstance(other, OuterSymbol):
            raise refuse(
                "a decay over V x K (as Mamba-1 has): a tile of decays cannot be kept in a buffer",
                "decays per head, per key channel or per value channel",
            )
        factor = _symbol(other).expr
        if not ex.input_side(factor):
            raise refuse("a gate computed from a read: the decay of a token would depend on the state", DECAYS)
        log = _log(factor)
        if op == "div":
            log = ex.apply("neg", log)
        axis = next(iter(factor.axes), "")
        decay = dict(self.decay)
        decay[axis] = ex.apply("add", decay[axis], log) if axis in decay else log
        scale = ex.apply("exp", log)
        writes = tuple(
            (a, ex.apply("mul", b, scale)) if axis == "K" else (ex.apply("mul", a, scale), b) for a, b in self.writes
        )
        return StateSymbol(self.tracer, decay, writes)


class Tracer:
    """The reads of one trace, in the order in which they were met."""

    def __init__(self) -> None:
        self.reads: list[Expr] = []

    def read(self, vector: Expr) -> Expr:
        if vector not in self.reads:
            self.reads.append(vector)
        return ex.leaf("read", self.reads.index(vector), "V", "value")

    def check_left(self, left: Expr) -> None:
        if left.axes - {"V"}:
            raise refuse(
                "the left vector of outer has a K axis", "a vector over V on the left, a vector over K on the right"
            )


def trace(recurrence: Recurrence) -> NormalForm:
    """Run the function on symbols. Raises :class:`LegalityError` for what lies outside the class."""
    tracer = Tracer()
    inputs = []
    for a in recurrence.arguments:
        axes = (a.axis,) if a.axis else ()
        parts = [Symbol(ex.leaf("input", (a.name, i), axes, a.heads)) for i in range(a.count)]
        inputs.append(Several(parts) if a.count else Symbol(ex.leaf("input", (a.name, None), axes, a.heads)))
    result = recurrence.function(StateSymbol(tracer), *inputs)
    code = recurrence.function.__code__
    where = f"{code.co_filename}:{code.co_firstlineno}: {recurrence.name}"
    if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], StateSymbol)):
        accepted = "return S, output, with S made from the state by decays and writes"
        raise LegalityError(f"{where}\n  the function returns {_what(result)}\n  accepted: {accepted}")
    state, output = result
    output = _symbol(output).expr if not isinstance(output, StateSymbol | OuterSymbol) else None
    if output is None or "K" in output.axes:
        raise LegalityError(
            f"{where}\n  the output is not a vector over V\n  accepted: S @ q and anything pointwise over V"
        )
    return _canonical(recurrence, tracer, state, output)


def _canonical(recurrence: Recurrence, tracer: Tracer, state: StateSymbol, output: Expr) -> NormalForm:
    """Left vectors that a later left vector or the output repeats become references to them."""
    known: dict[Expr, Expr] = {}
    writes = []
    for number, (left, right) in enumerate(state.writes):
        left = ex.rewrite(left, known.get)
        writes.append(Write(left, right, ex.degree(left) < 2))
        if not ex.input_side(left):
            known[state.writes[number][0]] = ex.leaf("left", number, "V", "value")
    decay = state.decay
    return NormalForm(
        recurrence.name,
        recurrence.arguments,
        tuple(tracer.reads),
        tuple(writes),
        decay.get(""),
        decay.get("K"),
        decay.get("V"),
        ex.rewrite(output, known.get),
    )


def _log(factor: Expr) -> Expr:
    """The logarithm of a decay written as a product of exponentials, positive constants and sigmoids."""
    if factor.op == "exp":
        return factor.args[0]
    if factor.op == "const" and factor.value > 0:
        return ex.apply("log", factor)
    if factor.op == "sigmoid":
        return ex.apply("neg", ex.apply("softplus", ex.apply("neg", factor.args[0])))
    if factor.op in ("mul", "div"):
        a, b = (_log(part) for part in factor.args)
        return ex.apply("add" if factor.op == "mul" else "sub", a, b)
    if factor.op in ("sqrt", "rsqrt"):
        return ex.apply("mul", ex.const(0.5 if factor.op == "sqrt" else -0.5), _log(factor.args[0]))
    raise refuse(f"a decay whose logarithm is not visible: {factor}", DECAYS)


def _times(x: Expr, log: Expr | None) -> Expr:
    return x if log is None else ex.apply("mul", ex.apply("exp", log), x)


def _over(x: Expr, axis: str, role: str) -> Expr:
    if x.axes != {axis}:
        has = " and ".join(sorted(x.axes)) or "no axis"
        raise refuse(f"{role} has {has}, not {axis}", f"a vector over {axis}")
    return x


def _symbol(x: Any) -> Symbol:
    if isinstance(x, Symbol):
        return x
    if isinstance(x, int | float) and not isinstance(x, bool):
        return Symbol(ex.const(x))
    raise refuse(
        f"{_what(x)} in an expression", "arguments of the recurrence, what is built from them, and Python numbers"
    )


def _what(x: Any) -> str:
    names: dict[type, str] = {
        StateSymbol: "the state",
        OuterSymbol: "an outer product",
        Symbol: "an expression",
        Several: "several vectors",
    }
    return names.get(type(x), repr(x))
