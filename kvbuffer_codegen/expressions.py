"""Integer expressions of a manifest: launch grids, arguments and sizes as functions of run-time sizes.

    expression := term (("+" | "-") term)*
    term       := unary (("*" | "//") unary)*
    unary      := "-" unary | atom
    atom       := integer | name | "(" expression ")" | ("max" | "min") "(" expression "," expression ")"

A text is parsed once into a postfix program, which both launchers run; nothing is ever given to ``eval``. Values are
64-bit signed integers: a result beyond them is an error, as is a division by zero. ``//`` rounds down, as in Python.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

MAX_LENGTH = 1000  #: characters of an expression
MAX_DEPTH = 32  #: nested parentheses, calls and signs
MAX_INTEGER = 2**63 - 1

_TOKEN = re.compile(r"\s*(?:([0-9]+)|([A-Za-z_][A-Za-z0-9_]*)|(//|[-+*(),]))", re.ASCII)
_CALLS = ("max", "min")


class ExpressionError(ValueError):
    """An expression that does not parse, names an unknown size, or leaves the range of 64-bit integers."""


class Step(NamedTuple):
    """One step of a postfix program: ``integer`` and ``name`` push ``value``, others reduce the two topmost values."""

    op: str  # integer name + - * // max min
    value: int | str = 0


Program = tuple[Step, ...]


def _floor_divide(a: int, b: int) -> int:
    if b == 0:
        raise ExpressionError("division by zero")
    return a // b


OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": _floor_divide,
    "max": max,
    "min": min,
}


def parse(text: str | int) -> Program:
    """The postfix program of ``text``; an ``int`` stands for itself. Raises :class:`ExpressionError`."""
    if isinstance(text, bool) or not isinstance(text, str | int):
        raise ExpressionError(f"an expression is a string or an integer, not {text!r}")
    text = str(text) if isinstance(text, str) or abs(text) <= MAX_INTEGER else "9" * 20
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"an expression of {len(text)} characters; at most {MAX_LENGTH} are accepted")
    return _Parser(text).program()


def names(program: Program) -> tuple[str, ...]:
    """The names that ``program`` reads, in order of first use."""
    return tuple(dict.fromkeys(str(step.value) for step in program if step.op == "name"))


def evaluate(program: Program, values: Mapping[str, int]) -> int:
    """The value of ``program`` with ``values`` for its names. Raises :class:`ExpressionError`."""
    stack: list[int] = []
    for op, value in program:
        if op == "integer":
            stack.append(int(value))
        elif op == "name":
            if value not in values:
                raise ExpressionError(f"unknown name {value!r}; known are {', '.join(sorted(values)) or 'none'}")
            stack.append(values[str(value)])
        else:
            right = stack.pop()
            stack[-1] = OPERATIONS[op](stack[-1], right)
        if not -MAX_INTEGER - 1 <= stack[-1] <= MAX_INTEGER:
            raise ExpressionError("the value does not fit in a 64-bit integer")
    return stack[0]


class _Parser:
    """Recursive descent over the grammar above, writing postfix steps as it goes."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.steps: list[Step] = []
        self.depth = 0
        self.tokens: list[tuple[str, str]] = []  # (kind, text), kind in integer name sign end
        at, end = 0, len(text.rstrip())
        while at < end:
            match = _TOKEN.match(text, at, end)
            if match is None:
                raise self.error(f"unexpected {text[at:].lstrip()[0]!r}")
            kind = ("integer", "name", "sign")[(match.lastindex or 1) - 1]
            self.tokens.append((kind, match[match.lastindex or 0]))
            at = match.end()
        self.tokens.append(("end", ""))
        self.tokens.reverse()

    def error(self, reason: str) -> ExpressionError:
        return ExpressionError(
            f"{reason} in expression {self.text!r}; accepted are integers, names, + - * // max(,) min(,)"
        )

    def program(self) -> Program:
        self.expression()
        if self.tokens[-1][0] != "end":
            raise self.error(f"unexpected {self.tokens[-1][1]!r}")
        return tuple(self.steps)

    def take(self, sign: str) -> None:
        _, text = self.tokens[-1]
        if text != sign:
            raise self.error(f"expected {sign!r}, found {text or 'the end'!r}")
        self.tokens.pop()

    def expression(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error(f"more than {MAX_DEPTH} levels")
        self.binary(self.term, ("+", "-"))
        self.depth -= 1

    def term(self) -> None:
        self.binary(self.unary, ("*", "//"))

    def binary(self, operand: Callable[[], None], signs: tuple[str, ...]) -> None:
        operand()
        while self.tokens[-1][1] in signs:
            _, sign = self.tokens.pop()
            operand()
            self.steps.append(Step(sign))

    def unary(self) -> None:
        if self.tokens[-1][1] != "-":
            return self.atom()
        self.tokens.pop()
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error(f"more than {MAX_DEPTH} levels")
        self.steps.append(Step("integer", 0))
        self.unary()
        self.steps.append(Step("-"))
        self.depth -= 1
        return None

    def atom(self) -> None:
        kind, text = self.tokens.pop()
        if kind == "integer":
            if len(text) > 19 or int(text) > MAX_INTEGER:
                raise self.error("an integer beyond 64 bits")
            self.steps.append(Step("integer", int(text)))
        elif kind == "name" and text in _CALLS:
            self.take("(")
            self.expression()
            self.take(",")
            self.expression()
            self.take(")")
            self.steps.append(Step(text))
        elif kind == "name":
            self.steps.append(Step("name", text))
        elif text == "(":
            self.expression()
            self.take(")")
        else:
            raise self.error(f"expected a value, found {text or 'the end'!r}")
