"""What one token leaves in the ring: derived, not fixed.

Exact records (``records="exact"``): a right vector is stored as the io-dtype inputs and float32 numbers from which it
can be recomputed exactly (a key and 1 / its norm), or in float32 where that costs fewer bytes; left vectors and
log-decays in float32; what depends on parameters alone is not stored. ``"bf16"`` narrows the left vectors to bfloat16;
``"hilo"`` keeps each as a bfloat16 and the bfloat16 of what that leaves. Rights and log-decays stay exact in either:
rounding a normalised key costs more accuracy than everything else together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import expr as ex
from .expr import Expr
from .language import Argument

if TYPE_CHECKING:
    from .forms import TokenProgram

#: Bytes of an item, by dtype of inputs, outputs and records.
DTYPES = {"float32": 4, "bfloat16": 2, "float16": 2}
RECORDS = ("exact", "bf16", "hilo")


@dataclass(frozen=True)
class Field:
    """One tensor of the ring. ``expr`` gives a token's value over the leaves of its token program; ``dtype``:
    "float32", "bfloat16" or "io"."""

    name: str
    expr: Expr
    dtype: str
    heads: str
    axis: str | None

    def bytes(self, K: int, V: int, ratio: int, io: str) -> float:
        """Bytes a token and value head costs."""
        wide = {"K": K, "V": V, None: 1}[self.axis]
        return wide * DTYPES[self.stored(io)] / (ratio if self.heads == "key" else 1)

    def stored(self, io: str) -> str:
        """The dtype in memory where inputs are ``io``."""
        return io if self.dtype == "io" else self.dtype

    @property
    def leaf(self) -> Expr:
        return ex.leaf("field", self.name, (self.axis,) if self.axis else (), self.heads)


@dataclass(frozen=True)
class Right:
    """A stored right vector: ``scale`` (a number, or None for 1) times ``vector`` (over K), over field leaves and
    parameters."""

    scale: Expr | None
    vector: Expr

    @property
    def expr(self) -> Expr:
        return self.vector if self.scale is None else ex.apply("mul", self.scale, self.vector)


@dataclass(frozen=True)
class RecordLayout:
    """The ring's tensors in argument order, and how a record is rebuilt from them."""

    fields: tuple[Field, ...]
    lefts: tuple[Expr, ...]
    rights: tuple[Right, ...]
    log_decay_scalar: Expr | None
    log_decay_key: Expr | None
    log_decay_value: Expr | None

    def bytes(self, K: int, V: int, ratio: int, io: str) -> float:
        """Bytes of one record per value head."""
        return sum(f.bytes(K, V, ratio, io) for f in self.fields)


def record_layout(
    program: TokenProgram, arguments: Sequence[Argument], K: int, io: str, records: str = "exact"
) -> RecordLayout:
    """The layout of records for io dtype ``io`` (module docstring)."""
    builder = _Builder(program, arguments, K, io)
    lefts = tuple(builder.left(r, records) for r in range(len(program.lefts)))
    rights = tuple(builder.right(r, right) for r, right in enumerate(program.rights))
    decays = [
        None if e is None else builder.store(name, e)
        for name, e in (
            ("log_decay", program.log_decay_scalar),
            ("log_decay_key", program.log_decay_key),
            ("log_decay_value", program.log_decay_value),
        )
    ]
    return RecordLayout(tuple(builder.fields.values()), lefts, rights, *decays)


class _Builder:
    def __init__(self, program: TokenProgram, arguments: Sequence[Argument], K: int, io: str):
        # No sum over K is part of how a record is rebuilt: what needs one is stored, even if it is of parameters.
        self.definitions = {d.name: d.expr for d in program.definitions if not d.reduce}
        self.parameters = {a.name for a in arguments if a.parameter}
        self.K, self.io = K, io
        self.fields: dict[str, Field] = {}

    def store(self, name: str, value: Expr, dtype: str = "float32") -> Expr:
        """A field leaf for ``value``, or ``value`` itself where it depends on parameters alone."""
        if self.constant(value):
            return self.expanded(value)
        axis = next(iter(value.axes), None)
        name = f"record_{name}"
        while name in self.fields and self.fields[name].expr != value:
            name += "_"  # an argument called left0, or k0 beside k: Key[2]
        made = Field(name, value, dtype, "key" if value.heads == "key" else "value", axis)
        return self.fields.setdefault(made.name, made).leaf

    def left(self, r: int, records: str) -> Expr:
        vector = ex.leaf("left", r, "V", "value")
        if records == "exact":
            return self.store(f"left{r}", vector)
        if records == "bf16":
            return self.store(f"left{r}", vector, "bfloat16")
        high = ex.apply("bfloat16", vector)
        low = ex.apply("sub", vector, high)
        parts = self.store(f"left{r}_high", high, "bfloat16"), self.store(f"left{r}_low", low, "bfloat16")
        return ex.apply("add", *parts)

    def expanded(self, value: Expr) -> Expr:
        """``value`` with the names of definitions, sums aside, replaced by what they stand for."""
        return ex.rewrite(
            value,
            lambda e: (
                self.expanded(self.definitions[e.value]) if e.op == "scalar" and e.value in self.definitions else None
            ),
        )

    def constant(self, value: Expr) -> bool:
        leaves = [n for n in ex.walk(self.expanded(value)) if n.op in ("input", "scalar", "read", "left")]
        return all(n.op == "input" and n.value[0] in self.parameters for n in leaves)

    def right(self, r: int, right: Expr) -> Right:
        scale, vector = _factor(right)
        inputs = [n for n in ex.walk(vector) if n.op == "input" and n.axes and n.value[0] not in self.parameters]
        numbers = [n for n in ex.walk(vector) if not n.axes and n.op in ("scalar", "input") and not self.constant(n)]
        inputs_bytes = (
            sum(self.K * DTYPES[self.io] for _ in inputs)
            + 4 * len(numbers)
            + 4 * (scale is not None and not self.constant(scale))
        )
        if inputs_bytes >= 4 * self.K:
            return Right(None, self.store(f"right{r}", right))
        stored: dict[Expr, Expr] = {n: self.store(_label(n), n, "io") for n in inputs} | {
            n: self.store(f"{_label(n)}_{r}", n) for n in numbers
        }
        vector = self.expanded(ex.rewrite(vector, stored.get))
        return Right(None if scale is None else self.store(f"scale{r}", scale), vector)


def _label(node: Expr) -> str:
    if node.op == "scalar":
        return str(node.value)
    name, index = node.value
    return name if index is None else f"{name}{index}"


def _factor(vector: Expr) -> tuple[Expr | None, Expr]:
    """(number, vector over K) whose product is ``vector``."""
    if vector.op == "neg":
        scale, rest = _factor(vector.args[0])
        return ex.apply("neg", scale or ex.const(1.0)), rest
    if vector.op in ("mul", "div"):
        a, b = vector.args
        if vector.op == "mul" and not a.axes:
            a, b = b, a
        if not b.axes:
            scale, rest = _factor(a)
            return (ex.apply(vector.op, scale or ex.const(1.0), b)), rest
    return None, vector
