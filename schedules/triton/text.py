"""Lines of a kernel, and expressions as Triton text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from kvbuffer_codegen.ir import expr as ex
from kvbuffer_codegen.ir.expr import Expr

#: What every file of kernels begins with.
INDEX = '''\
@triton.jit
def index_of(table, row, words, size):
    """(value or the nearest int32, is it one of 0 .. size - 1, is it -1) of an int32 or int64 index, as int32 words."""
    low = tl.load(table + row)
    high = tl.load(table + row + words - 1)
    sign = low >> 31
    rest = tl.where(words == 1, sign, high)
    nearest = tl.where(rest < 0, -2147483648, 2147483647)
    value = tl.where(rest == sign, low, nearest)
    return value, (rest == 0) & (low >= 0) & (low < size), (rest == -1) & (low == -1)
'''
#: Functions that Triton's language has not, or not to float32's precision.
FUNCTIONS = f'''\
@triton.jit
def exp(x):
    """Saturates below float32's largest value."""
    return tl.exp(tl.minimum(x, {ex.EXP_LIMIT}))


@triton.jit
def softplus(x):
    """max(x, 0) + log(1 + e), e = exp(-|x|), as 2 atanh(e / (2 + e)): no digit of a small e is lost."""
    e = tl.exp(-tl.abs(x))
    s = e / (2.0 + e)
    z = s * s
    series = z * (1 / 7 + z * (1 / 9 + z * (1 / 11 + z * (1 / 13 + z * (1 / 15)))))
    series = 1.0 + z * (1 / 3 + z * (1 / 5 + series))
    return tl.maximum(x, 0.0) + 2.0 * s * series


@triton.jit
def tanh(x):
    e = tl.exp(-2.0 * tl.abs(x))
    far = tl.where(x < 0, -1.0, 1.0) * (1.0 - e) / (1.0 + e)
    z = x * x
    near = x * (1.0 + z * (-1 / 3 + z * (2 / 15 + z * (-17 / 315 + z * (62 / 2835)))))
    return tl.where(tl.abs(x) < 0.25, near, far)


@triton.jit
def bfloat16(x):
    """To nearest even in bfloat16, within its finite range."""
    return tl.clamp(x, -{ex.BFLOAT16_MAX}, {ex.BFLOAT16_MAX}).to(tl.bfloat16).to(tl.float32)
'''

_CALLS = {
    "exp": "exp",
    "log": "tl.log",
    "sqrt": "tl.sqrt_rn",
    "rsqrt": "1.0 / tl.sqrt_rn",
    "sigmoid": "tl.sigmoid",
    "softplus": "softplus",
    "tanh": "tanh",
    "bfloat16": "bfloat16",
    "abs": "tl.abs",
    "maximum": "tl.maximum",
    "minimum": "tl.minimum",
}


class Lines:
    """Python text under construction."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.level = 0

    def add(self, *lines: str) -> None:
        self.text += [f"{'    ' * self.level}{line}" if line else "" for line in lines]

    def __str__(self) -> str:
        return "\n".join(self.text) + "\n"


class Values:
    """Names of values in one straight piece of a kernel, and the text of expressions over them.

    A node that several expressions share is computed once, where it is first needed; ``leaf`` gives the text of a
    leaf. ``shared`` are the expressions of the piece.
    """

    def __init__(self, lines: Lines, prefix: str, leaf: Callable[[Expr], str], shared: Iterable[Expr | None]) -> None:
        self.lines, self.prefix, self.leaf = lines, prefix, leaf
        self.names: dict[Expr, str] = {}
        roots = [e for e in shared if e is not None]
        uses = Counter(roots) + Counter(a for node in ex.walk(*roots) for a in node.args)
        self.often = {node for node, n in uses.items() if n > 1 and node.op not in ex.LEAVES}

    def of(self, expr: Expr) -> str:
        """``expr`` as text that may stand in any place of an expression."""
        if expr in self.names:
            return self.names[expr]
        if expr.op == "const":
            return repr(expr.value) if expr.value >= 0 else f"({expr.value!r})"
        if expr.op == "size":
            return f"width_{expr.value}"
        if expr.op in ex.LEAVES:
            return self.leaf(expr)
        text = self._apply(expr.op, [self.of(a) for a in expr.args])
        if expr not in self.often:
            return text
        self.names[expr] = f"{self.prefix}{len(self.names)}"
        self.lines.add(f"{self.names[expr]} = {_bare(text)}")
        return self.names[expr]

    def bare(self, expr: Expr) -> str:
        """``expr`` as the right side of an assignment."""
        return _bare(self.of(expr))

    def over_k(self, expr: Expr) -> str:
        """``expr`` with zeros in the lanes past K, whatever it is of zeros."""
        return f"tl.where(in_k, {self.bare(expr)}, 0.0)"

    def over_v(self, expr: Expr) -> str:
        """``expr`` as a vector over the program's rows of V."""
        return self.bare(expr) if "V" in expr.axes else f"{self.of(expr)} + tl.zeros([BLOCK_V], tl.float32)"

    @staticmethod
    def _apply(op: str, args: list[str]) -> str:
        infix = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
        if op in infix:
            return f"({args[0]} {infix[op]} {args[1]})"
        if op == "neg":
            return f"(-{args[0]})"
        text = f"{_CALLS[op]}({', '.join(map(_bare, args))})"
        return f"({text})" if op == "rsqrt" else text


def _bare(text: str) -> str:
    """Without the parentheses around the whole."""
    depth = 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0 and (i + 1 < len(text) or c != ")"):
            return text
    return text[1:-1] if text.startswith("(") else text
