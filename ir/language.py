"""The language in which one token of a recurrence is written.

    @recurrence
    def gated_delta_rule(S: State, q: Key, k: Key, v: Value, log_decay: Scalar, beta: Scalar):
        S = exp(log_decay) * S
        u = beta * (v - S @ k)
        S = S + outer(u, k)
        return S, S @ q

The function sees one value head: ``S`` is its V x K tile, a ``Key`` is a vector over K, a ``Value`` one over V. It
is run twice, on symbols (to trace the normal form) and on float64 arrays (the oracle), so it is plain Python: loops
over ``Key[2]`` unroll. Axes are named: an expression that puts K beside V is an error at that line, even where K == V.
"""

from __future__ import annotations

import abc
import functools
import inspect
import linecache
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from . import expr as ex

if TYPE_CHECKING:
    from .normal_form import NormalForm


#: Names that kernels and pools give to arguments of their own, and sizes that kernels know by one letter.
RESERVED = ("state", "cursors", "slots", "rings", "lengths", "accepted", "parents", "path", "layer", "out", "cell")
SIZES = ("B", "P", "N", "R", "H", "HV", "Y", "K", "V", "T")


class LegalityError(ValueError):
    """What was written is outside the class of recurrences that kernels can be derived for; the message quotes the
    line."""


def source_line() -> str:
    """``file:line: text`` of the innermost frame outside this package's tracing code."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "") in _TRACING:
        frame = frame.f_back
    path, line = frame.f_code.co_filename, frame.f_lineno
    return f"{path}:{line}: {linecache.getline(path, line).strip()}"


_PACKAGE = __name__.rpartition(".")[0]
_TRACING = {f"{_PACKAGE}.{module}" for module in ("language", "normal_form", "oracle", "expr")}


def refuse(reason: str, accepted: str) -> LegalityError:
    """The error for the line being run: why it is refused, and what would be accepted."""
    return LegalityError(f"{source_line()}\n  {reason}\n  accepted: {accepted}")


class Quantity(abc.ABC):
    """What an argument or an intermediate is, to the person who writes a recurrence: it has arithmetic.

    ``binary`` and ``unary`` are given by the two interpretations, symbols (normal_form.py) and float64 arrays
    (oracle.py).
    """

    kind: ClassVar[str] = ""
    count: ClassVar[int] = 0

    def __class_getitem__(cls, count: int) -> Any:
        if not isinstance(count, int) or count < 1:
            raise LegalityError(
                f"{source_line()}\n  {cls.__name__}[{count!r}]: the count of vectors a token is a positive integer"
            )
        return type(cls.__name__, (cls,), {"count": count})

    @abc.abstractmethod
    def binary(self, op: str, other: Any, swapped: bool = False) -> Any:
        """``op`` of this and ``other``, in the other order where ``swapped``."""

    @abc.abstractmethod
    def unary(self, op: str) -> Any:
        """``op`` of this."""

    def __add__(self, other: Any) -> Any:
        return self.binary("add", other)

    def __radd__(self, other: Any) -> Any:
        return self.binary("add", other, True)

    def __sub__(self, other: Any) -> Any:
        return self.binary("sub", other)

    def __rsub__(self, other: Any) -> Any:
        return self.binary("sub", other, True)

    def __mul__(self, other: Any) -> Any:
        return self.binary("mul", other)

    def __rmul__(self, other: Any) -> Any:
        return self.binary("mul", other, True)

    def __truediv__(self, other: Any) -> Any:
        return self.binary("div", other)

    def __rtruediv__(self, other: Any) -> Any:
        return self.binary("div", other, True)

    def __matmul__(self, other: Any) -> Any:
        return self.binary("read", other)

    def __neg__(self) -> Any:
        return self.unary("neg")

    def __pow__(self, power: Any) -> Any:
        if power == -0.5:
            return self.unary("rsqrt")
        if power == 0.5:
            return self.unary("sqrt")
        if power == -1:
            return 1.0 / self
        if isinstance(power, int) and power > 0:
            return functools.reduce(lambda a, b: a * b, [self] * power)
        raise refuse(f"{power!r} is not a power that kernels compute", "positive integers, -1, 0.5 and -0.5")

    def __getitem__(self, index: int) -> Any:
        raise refuse("this is one vector, not several", "an index on an argument declared with a count, as Key[2]")


class State(Quantity):
    """The V x K tile of one value head; first argument of every recurrence."""

    kind = "State"


class Key(Quantity):
    """A vector over K per key head and token (queries are keys too)."""

    kind = "Key"


class Channel(Quantity):
    """A vector over K per value head and token."""

    kind = "Channel"


class Value(Quantity):
    """A vector over V per value head and token."""

    kind = "Value"


class Scalar(Quantity):
    """A number per value head and token."""

    kind = "Scalar"


class KeyScalar(Quantity):
    """A number per key head and token."""

    kind = "KeyScalar"


class HeadScalar(Quantity):
    """A parameter: one number per value head, float32."""

    kind = "HeadScalar"


class HeadChannel(Quantity):
    """A parameter: a vector over K per value head, float32."""

    kind = "HeadChannel"


class HeadValue(Quantity):
    """A parameter: a vector over V per value head, float32."""

    kind = "HeadValue"


#: kind -> (axis or None, which heads, is it a parameter)
KINDS: dict[str, tuple[str | None, str, bool]] = {
    "Key": ("K", "key", False),
    "Channel": ("K", "value", False),
    "Value": ("V", "value", False),
    "Scalar": (None, "value", False),
    "KeyScalar": (None, "key", False),
    "HeadScalar": (None, "value", True),
    "HeadChannel": ("K", "value", True),
    "HeadValue": ("V", "value", True),
}


@dataclass(frozen=True)
class Argument:
    """One declared input. ``count`` is 0 for one vector or number a token, n for ``Kind[n]``."""

    name: str
    kind: str
    count: int = 0

    @property
    def axis(self) -> str | None:
        return KINDS[self.kind][0]

    @property
    def heads(self) -> str:
        return KINDS[self.kind][1]

    @property
    def parameter(self) -> bool:
        return KINDS[self.kind][2]


@dataclass(frozen=True)
class Recurrence:
    """A named, declared function of one token; ``normal_form`` traces it once."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Argument, ...]

    @functools.cached_property
    def normal_form(self) -> NormalForm:
        from .normal_form import trace

        return trace(self)


def recurrence(function: Callable[..., Any]) -> Recurrence:
    """Declare a recurrence. Raises :class:`LegalityError` where the signature does not say the kind of every
    argument."""
    path, line = function.__code__.co_filename, function.__code__.co_firstlineno
    where = f"{path}:{line}: def {function.__name__}"
    try:
        words = {c.__name__: c for c in Quantity.__subclasses__() if c.kind}
        hints = inspect.get_annotations(function, globals={**words, **function.__globals__}, eval_str=True)
    except NameError as error:
        raise LegalityError(f"{where}\n  unknown kind: {error}\n  accepted: State, {', '.join(KINDS)}") from None
    parameters = list(inspect.signature(function).parameters)
    arguments = []
    for position, name in enumerate(parameters):
        kind: Any = hints.get(name)
        known = isinstance(kind, type) and issubclass(kind, Quantity) and kind is not Quantity
        if not known or (kind.kind == "State") != (position == 0):
            expected = "State" if position == 0 else ", ".join(KINDS)
            reason = f"argument {name!r} is declared as {kind!r}"
            raise LegalityError(f"{where}\n  {reason}\n  accepted there: {expected} (nothing is guessed from names)")
        if name in (*RESERVED, *SIZES) or name.startswith("record_"):
            reason = f"argument {name!r} has a name that kernels use themselves"
            accepted = f"names other than {', '.join((*RESERVED, *SIZES))}, record_*"
            raise LegalityError(f"{where}\n  {reason}\n  accepted: {accepted}")
        if position:
            arguments.append(Argument(name, kind.kind, kind.count))
    if len(parameters) < 2:
        raise LegalityError(f"{where}\n  a recurrence takes the state and at least one input")
    return Recurrence(function.__name__, function, tuple(arguments))


def _unary(op: str, x: Any) -> Any:
    """``op`` of a quantity, or of a Python number."""
    return x.unary(op) if isinstance(x, Quantity) else ex.apply(op, ex.const(x)).value


def _binary(op: str, x: Any, y: Any) -> Any:
    if isinstance(x, Quantity):
        return x.binary(op, y)
    return y.binary(op, x, True) if isinstance(y, Quantity) else ex.apply(op, ex.const(x), ex.const(y)).value


def exp(x: Any) -> Any:
    """e^x, saturating at float32's largest value instead of overflowing to infinity."""
    return _unary("exp", x)


def log(x: Any) -> Any:
    return _unary("log", x)


def sqrt(x: Any) -> Any:
    return _unary("sqrt", x)


def rsqrt(x: Any) -> Any:
    return _unary("rsqrt", x)


def sigmoid(x: Any) -> Any:
    return _unary("sigmoid", x)


def softplus(x: Any) -> Any:
    """log(1 + e^x), linear above 20 as in PyTorch."""
    return _unary("softplus", x)


def tanh(x: Any) -> Any:
    return _unary("tanh", x)


def absolute(x: Any) -> Any:
    return _unary("abs", x)


def silu(x: Any) -> Any:
    return x * sigmoid(x)


def maximum(x: Any, y: Any) -> Any:
    return _binary("maximum", x, y)


def minimum(x: Any, y: Any) -> Any:
    return _binary("minimum", x, y)


def dot(x: Any, y: Any) -> Any:
    """Sum over K of x * y: an input-side number."""
    return (x * y).unary("sum")


def outer(left: Any, right: Any) -> Any:
    """left (over V) times right (over K): what a token writes into the state."""
    return left.binary("outer", right)


def width(x: Any) -> Any:
    """How many channels x has (K or V), known when a kernel is compiled."""
    return x.unary("width")


def l2norm(x: Any, eps: float = 1e-6) -> Any:
    """x / sqrt(sum x^2 + eps) over K."""
    return x * rsqrt(dot(x, x) + eps)
