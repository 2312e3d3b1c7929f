"""The forms of a recurrence, derived from its normal form: what kernels are built from.

With n records (a_j, b_j, g_j) on top of the checkpoint S0, the state before a token is

    S' = e^{s_0} S0 + sum_j e^{s_j} a_j b_j^T,    s_j = g_{j+1} + ... + g_n, summed from the newest record backwards

so that a read costs one pass over S0 and n short products: S' @ x = e^{s_0} (S0 @ x) + sum_j e^{s_j} (b_j . x) a_j
(a log-decay over K weighs x or b_j inside the product, one over V weighs a_j). Appending a token adds (left, right,
log_decay) and changes nothing else; a fold writes S' back. KVBuffer, arXiv 2605.19049, equations 7 and 8; the
triangular recurrence inside a window needs no inverse here.
"""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import dataclass
from typing import Any

from . import expr as ex
from .expr import Expr
from .normal_form import NormalForm
from .records import DTYPES as DTYPES
from .records import RECORDS, RecordLayout, record_layout

#: Bytes of an item of states that have scales (``ir.storage``).
SCALED = {"int8": 1, "float8_e4m3fn": 1}
STATES = {**DTYPES, **SCALED}
ROUNDINGS = ("nearest", "stochastic")
#: The most tokens of a window: a chain, and the nodes of a tree.
MOST_TOKENS, MOST_NODES = 16, 64


@dataclass(frozen=True)
class Form:
    """What a form does to a row (docs/architecture.md holds the rules in words).

    folds: "full" (where the buffer would overflow), "pending" (whatever is there) or "never". layered: every tensor of
    a layer has a leading layer axis, one launch serves all. trees: commits a tree window, and nothing else does.
    """

    name: str
    text: str
    tokens: bool = False
    window: bool = False
    folds: str = "never"
    appends: bool = False
    writes_state: bool = False
    cursors_only: bool = False
    layered: bool = False
    trees: bool = False


FORMS = {
    f.name: f
    for f in (
        Form(
            "step",
            "one token, recurrent; pending records are folded first",
            tokens=True,
            folds="pending",
            writes_state=True,
        ),
        Form(
            "decode",
            "one token against checkpoint and records; appends; a full row folds",
            tokens=True,
            folds="full",
            appends=True,
        ),
        Form("flush", "fold the pending records of every row, all layers", folds="pending", layered=True),
        Form(
            "publish",
            "flush into a second slot, all layers; the row keeps its records",
            folds="pending",
            layered=True,
        ),
        Form(
            "verify",
            "a window of tokens against one read; records are provisional",
            tokens=True,
            window=True,
            folds="full",
            appends=True,
        ),
        Form("advance", "cursors after decode, step or flush, once for all layers", cursors_only=True),
        Form("commit", "cursors after verify: accept a prefix of the window", cursors_only=True),
        Form("compact", "a tree's accepted records moved together, all layers", layered=True, trees=True),
        Form("commit_path", "cursors after verify of a tree: accept a path", cursors_only=True, trees=True),
    )
}


#: What commands build: every form, and verify of trees; and what they do where nothing is said.
BUILT = (*FORMS, "verify_tree")
USUAL = tuple(name for name, form in FORMS.items() if not form.trees)


@dataclass(frozen=True)
class Definition:
    """A number computed once per token and value head; with ``reduce``, the sum over K of ``expr``."""

    name: str
    expr: Expr
    reduce: bool


@dataclass(frozen=True)
class TokenProgram:
    """One token as templates walk it: definitions in order, then vectors over their names.

    Leaves left in ``reads``, ``rights``, decays, ``lefts`` and ``output``: input (vectors), scalar (a definition's
    name), const, read, left.
    """

    definitions: tuple[Definition, ...]
    reads: tuple[Expr, ...]
    rights: tuple[Expr, ...]
    log_decay_scalar: Expr | None
    log_decay_key: Expr | None
    log_decay_value: Expr | None
    lefts: tuple[Expr, ...]
    output: Expr


def token_program(nf: NormalForm) -> TokenProgram:
    """Name every K-sum and every maximal input-side number of the normal form, each once."""
    names: dict[Expr, Expr] = {}
    definitions: list[Definition] = []

    def name(node: Expr) -> Expr | None:
        if node.axes or node.op in ("const", "size", "scalar") or not ex.input_side(node):
            return None
        if node not in names:
            if node.op == "sum":
                body, reduce = ex.rewrite(node.args[0], name), True
            else:
                body, reduce = _rewrite_args(node), False
            label = f"c{len(definitions)}"
            definitions.append(Definition(label, body, reduce))
            names[node] = ex.leaf("scalar", label, (), node.heads)
        return names[node]

    def _rewrite_args(node: Expr) -> Expr:
        """Sums and shared numbers below a number get names of their own; the rest stays in one expression."""
        if node.op in ex.LEAVES:
            return node
        return ex.apply(
            node.op, *(names.get(a) or (name(a) if _worth_a_name(a) else None) or _rewrite_args(a) for a in node.args)
        )

    def optional(node: Expr | None) -> Expr | None:
        return None if node is None else ex.rewrite(node, name)

    # A decay that does not depend on V or K is used by every token and stored: name it first.
    scalar = optional(nf.log_decay_scalar)
    reads = tuple(ex.rewrite(x, name) for x in nf.reads)
    rights = tuple(ex.rewrite(w.right, name) for w in nf.writes)
    key, value = optional(nf.log_decay_key), optional(nf.log_decay_value)
    lefts = tuple(ex.rewrite(w.left, name) for w in nf.writes)
    output = ex.rewrite(nf.output, name)
    return TokenProgram(tuple(definitions), reads, rights, scalar, key, value, lefts, output)


def _worth_a_name(node: Expr) -> bool:
    return node.op in ("sum", "exp", "log", "sigmoid", "softplus", "tanh", "rsqrt", "sqrt")


@dataclass(frozen=True)
class KernelSpec:
    """Everything a kernel's binary is specialised for, its schedule aside.

    ``ratio`` = HV / H. ``buffer`` = L, ``window`` = T (0 unless verify), ``kv_only`` = C. ``tree``: a verify whose
    window is a tree of up to T nodes. ``advance`` and the commits know no recurrence: :func:`cursor_spec` makes theirs.
    """

    form: str
    recurrence: NormalForm | None
    K: int = 0
    V: int = 0
    ratio: int = 1
    io: str = "float32"
    state: str = "float32"
    records: str = "exact"
    layout: str = "VK"
    buffer: int = 0
    window: int = 0
    kv_only: int = 0
    rounding: str = "nearest"
    tree: bool = False

    def __post_init__(self) -> None:
        def check(ok: bool, name: str, accepted: str) -> None:
            if not ok:
                raise ValueError(f"{name}={getattr(self, name)!r}: accepted: {accepted}")

        check(self.form in FORMS, "form", ", ".join(FORMS))
        check(self.rounding in ROUNDINGS, "rounding", ", ".join(ROUNDINGS))
        if FORMS[self.form].cursors_only:
            return
        check(self.recurrence is not None, "recurrence", f"a NormalForm for {self.form}")
        check(1 <= self.K <= 256, "K", "1 to 256")
        check(1 <= self.V <= 256, "V", "1 to 256")
        check(self.ratio >= 1, "ratio", "HV / H, a whole number from 1")
        check(self.io in DTYPES, "io", ", ".join(DTYPES))
        check(self.state in STATES, "state", ", ".join(STATES))
        check(self.records in RECORDS, "records", ", ".join(RECORDS))
        check(
            self.rounding == "nearest" or self.state != "float32",
            "rounding",
            "nearest for a float32 state, which is what is computed; stochastic for the others",
        )
        check(self.layout in ("VK", "KV"), "layout", "VK, KV")
        check(1 <= self.buffer <= 64, "buffer", "1 to 64")
        check(0 <= self.kv_only <= 64, "kv_only", "0 (none) to 64")
        check(self.form == "verify" or not self.tree, "tree", "False but for verify")
        most = MOST_NODES if self.tree else MOST_TOKENS
        check(
            (1 <= self.window <= most) if self.form == "verify" else self.window == 0,
            "window",
            f"1 to {most} for verify ({MOST_TOKENS} tokens of a chain, {MOST_NODES} nodes of a tree), else 0",
        )

    @functools.cached_property
    def program(self) -> TokenProgram:
        assert self.recurrence is not None
        return token_program(self.recurrence)

    @functools.cached_property
    def record_layout(self) -> RecordLayout:
        assert self.recurrence is not None
        return record_layout(self.program, self.recurrence.arguments, self.K, self.io, self.records)

    @property
    def stochastic(self) -> bool:
        """Whether folds and steps round at random (``ir.philox``); cursors then count a row's writes."""
        return self.rounding == "stochastic"

    @property
    def scaled(self) -> bool:
        """Whether the state has scales: state_rows [.., HV, V] and state_channels [.., HV, K]."""
        return self.state in SCALED

    @property
    def tokens(self) -> int:
        """Tokens a row brings at most: T of a verify window, 1 for step and decode, 0 for flush."""
        return self.window if self.form == "verify" else int(FORMS[self.form].tokens)

    def extent(self, axis: str | None) -> int:
        """Channels along "K" or "V"; 1 where there is no such axis."""
        return {"K": self.K, "V": self.V, None: 1}[axis]

    def wide(self, axis: str | None) -> tuple[int, ...]:
        """The end of a tensor's shape: (K,), (V,) or nothing."""
        return (self.extent(axis),) if axis else ()

    @property
    def history(self) -> int:
        """The most records a row that does not fold can hold while its tokens are read."""
        return max(self.buffer, self.kv_only) - 1 if FORMS[self.form].folds == "full" else 0

    def key(self) -> dict[str, Any]:
        """A JSON object that says what the kernel is; equal keys, equal kernels up to the schedule. ``rounding`` is
        there where it is stochastic."""
        nf = self.recurrence
        data = {
            name: getattr(self, name)
            for name in ("form", "K", "V", "ratio", "io", "state", "records", "layout", "buffer", "window", "kv_only")
        }
        data |= {"rounding": self.rounding} if self.stochastic else {}
        data |= {"tree": True} if self.tree else {}
        return {**data, "recurrence": nf.name if nf else "cursors", "recurrence_hash": nf.hash if nf else ""}

    @property
    def name(self) -> str:
        """What profilers show: kvb_<form>_<recurrence>_<hash8>."""
        digest = hashlib.sha256(json.dumps(self.key(), sort_keys=True).encode()).hexdigest()
        return f"kvb_{self.form}_{self.key()['recurrence']}_{digest[:8]}"


def cursor_spec(form: str, rounding: str = "nearest") -> KernelSpec:
    """The spec of ``advance``, ``commit`` or ``commit_path``, which serve every recurrence; stochastic: they count
    writes."""
    return KernelSpec(form, None, rounding=rounding)


def most_accepted(buffer: int, kv_only: int) -> int:
    """The most nodes of an accepted path, and the most records that a row ever holds: what kernels have room for."""
    return max(buffer, kv_only, MOST_TOKENS)


def ring_rows(buffer: int, kv_only: int, max_window: int) -> int:
    """The least R for which a fold never overwrites what another tile of the row still reads."""
    return max(buffer, kv_only, max_window) + max_window
