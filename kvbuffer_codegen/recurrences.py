"""Recurrences by name: those that ship, and functions in files of the user's own (``path.py:function``).

A recurrence file is Python and runs as such. Manifests never do: :func:`of_normal_form` makes a recurrence of what
one holds.
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path
from typing import Any

from kvbuffer_codegen.ir import expr as ex
from kvbuffer_codegen.ir import language
from kvbuffer_codegen.ir.language import Recurrence
from kvbuffer_codegen.ir.normal_form import NormalForm
from kvbuffer_codegen.ir.recurrences import RECURRENCES


class RecurrenceError(ValueError):
    """A recurrence that cannot be found or loaded: one line that says what was given and what is accepted."""


def load_recurrence(text: str) -> Recurrence:
    """The recurrence called ``text``, or the one that ``path.py:function`` names, traced.

    Raises :class:`RecurrenceError`; where the function lies outside the class, with the reason that the tracer gives.
    """
    recurrence = _from_file(text) if ":" in text or text.endswith(".py") else RECURRENCES.get(text)
    if recurrence is None:
        raise RecurrenceError(
            f"recurrence {text!r} is unknown; accepted: {', '.join(RECURRENCES)}, or path.py:function"
        )
    try:
        recurrence.normal_form  # noqa: B018  (traces, so that what is illegal is refused here)
    except language.LegalityError as error:
        raise RecurrenceError(one_line(error)) from None
    except Exception as error:  # the user's own code: a name that is not there, an `if` on an input
        raise RecurrenceError(
            f"recurrence {text} raised {_raised(error, recurrence.function.__code__.co_filename)}"
        ) from None
    return recurrence


def of_normal_form(nf: NormalForm, source: str = "") -> Recurrence:
    """The recurrence that ``nf`` came from: ``source`` (as for :func:`load_recurrence`) or a shipped one where its
    normal form is the same, else a function that evaluates ``nf`` itself.
    """
    candidates = [load_recurrence(source)] if source else []
    candidates += [RECURRENCES[nf.name]] if nf.name in RECURRENCES else []
    same = [r for r in candidates if r.normal_form.hash == nf.hash]
    return same[0] if same else Recurrence(nf.name, _evaluator(nf), nf.arguments)


def _from_file(text: str) -> Recurrence:
    path_text, _, function = text.rpartition(":")
    path = Path(path_text)
    if not path_text.endswith(".py") or not function.isidentifier():
        raise RecurrenceError(
            f"recurrence {text!r} is not path.py:function; accepted: {', '.join(RECURRENCES)}, or path.py:function"
        )
    if not path.is_file():
        raise RecurrenceError(
            f"recurrence file {path} is not there; accepted: a Python file with a function under @recurrence"
        )
    name = f"kvbuffer_codegen_recurrence_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise RecurrenceError(f"recurrence file {path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # annotations of the recurrence are looked up in it
    try:
        spec.loader.exec_module(module)
    except language.LegalityError as error:
        raise RecurrenceError(one_line(error)) from None
    except (Exception, SystemExit) as error:
        raise RecurrenceError(f"recurrence file {path} raised {_raised(error, str(path))}") from None
    found = getattr(module, function, None)
    if not isinstance(found, Recurrence):
        there = [n for n, value in vars(module).items() if isinstance(value, Recurrence)]
        listing = ", ".join(there) or "none (decorate one with @recurrence)"
        raise RecurrenceError(f"{path} has no recurrence {function!r}; it has: {listing}")
    return found


def _evaluator(nf: NormalForm) -> Any:
    """A function of one token, in the language of recurrences, that computes ``nf``."""
    binary = {"add", "sub", "mul", "div", "maximum", "minimum"}
    ops: dict[str, Any] = {name: (lambda x, y, op=name: _binary(op, x, y)) for name in binary}
    ops |= {name: (lambda x, op=name: _unary(op, x)) for name in (*ex.UNARY, "sum")}

    def function(S: Any, *inputs: Any) -> Any:
        by_name = dict(zip((a.name for a in nf.arguments), inputs, strict=True))
        values: dict[ex.Expr, Any] = {}
        reads: list[Any] = []
        lefts: list[Any] = []
        widths: dict[str, Any] = {
            a.axis: by_name[a.name][0] if a.count else by_name[a.name] for a in nf.arguments if a.axis
        }

        def leaf(node: ex.Expr) -> Any:
            if node.op == "const":
                return node.value
            if node.op == "size":
                return language.width(widths[node.value])
            if node.op in ("read", "left"):
                return (reads if node.op == "read" else lefts)[node.value]
            name, index = node.value
            return by_name[name] if index is None else by_name[name][index]

        def value(node: ex.Expr) -> Any:
            return ex.evaluate(node, leaf, ops, values)

        reads += [S @ value(x) for x in nf.reads]
        for write in nf.writes:
            lefts.append(value(write.left))
        for decay in (nf.log_decay_scalar, nf.log_decay_key, nf.log_decay_value):
            S = S if decay is None else language.exp(value(decay)) * S
        for left, write in zip(lefts, nf.writes, strict=True):
            S = S + language.outer(left, value(write.right))
        return S, value(nf.output)

    return function


def _binary(op: str, x: Any, y: Any) -> Any:
    """One of the two may be a Python number."""
    return x.binary(op, y) if isinstance(x, language.Quantity) else y.binary(op, x, True)


def _unary(op: str, x: Any) -> Any:
    return x.unary(op) if isinstance(x, language.Quantity) else ex.apply(op, ex.const(x)).value


def _raised(error: BaseException, file: str) -> str:
    """The error and the last line of ``file`` on its way."""
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    where = f", at line {own[-1].lineno}: {own[-1].line}" if own else ""
    return f"{type(error).__name__}: {one_line(error)}{where}"


def one_line(error: BaseException) -> str:
    """An error's first line, with the rest, indented by whoever raised it, behind it."""
    return "; ".join(line.strip() for line in str(error).splitlines() if line.strip())
