"""One simple schedule for every form: a program holds a tile of a state, adds its records, and runs its tokens.

A program owns BLOCK_V rows of V of one value head of one row of the batch, all of K, in float32 registers:

    S = e^{s_0} S0 + sum_j e^{s_j} left_j (x) right_j        the sum first, from the newest record backwards
    r_i = S @ reads[i];  lefts, output;  S = e^{log_decay} S + sum_r left_r (x) right_r        token by token

What happens to a row: docs/architecture.md. Numbers are constants of the parameter list (``ir.portable``).
"""

from __future__ import annotations

from dataclasses import dataclass

from kvbuffer_codegen.ir import expr as ex
from kvbuffer_codegen.ir.expr import Expr
from kvbuffer_codegen.ir.forms import FORMS, KernelSpec
from kvbuffer_codegen.ir.language import Argument
from kvbuffer_codegen.ir.portable import function_name, parameters
from kvbuffer_codegen.ir.records import Field
from kvbuffer_codegen.ir.signature import (
    BASE,
    COUNT,
    FAULT,
    FAULT_LENGTH,
    FAULT_SLOT,
    KV_ONLY,
    SKIPPED,
    WINDOW,
    TensorArg,
    signature,
)
from kvbuffer_codegen.schedules.triton.text import Lines, Values


@dataclass
class Kernel:
    """The text of one form's kernel."""

    spec: KernelSpec

    def __post_init__(self) -> None:
        assert self.spec.recurrence is not None
        self.lines = Lines()
        self.arguments = {a.name: a for a in self.spec.recurrence.arguments}
        self.fields = {f.name: f for f in self.spec.record_layout.fields}
        self.form = FORMS[self.spec.form]

    def text(self) -> str:
        lines = self.lines
        lines.add("@triton.jit", f"def {function_name(self.spec)}(")
        lines.level += 1
        for p in parameters(self.spec):
            lines.add(f"{p.name}: tl.constexpr," if p.kind == "constant" else f"{p.name},")
        lines.level -= 1
        lines.add("):")
        lines.level += 1
        self.place()
        self.row()
        if self.form.window:
            self.length()
        if not self.form.tokens:
            lines.add("if n == 0:", "    return")
        lines.add("")
        self.parameters()
        self.tile()
        self.history()
        self.fold()
        if self.form.tokens:
            self.tokens()
        return str(lines)

    # --- addresses

    def at(self, name: str, *indices: str) -> str:
        """Address of the first element of tensor ``name`` at the indices of its leading axes ("" for one that is added
        later), in front of which flush has its layer."""
        first = () if self.spec.form != "flush" or self.shared(name) else ("layer",)
        terms = [f"{index} * {name}_s{axis}" for axis, index in enumerate((*first, *indices)) if index]
        return " + ".join([f"{name}_ptr", *terms])

    def shared(self, name: str) -> bool:
        """Whether a flush has one for all layers."""
        return next(a.shape[0] != "Y" for a in signature(self.spec) if isinstance(a, TensorArg) and a.name == name)

    def record(self, f: Field) -> str:
        """Address of a field of the record in ring row ``at``."""
        return f"{f.name} + at * {f.name}_s{1 + int(self.spec.form == 'flush')}"

    def vector(self, base: str, axis: str | None) -> tuple[str, str]:
        """(address, mask) of a vector over ``axis``, or of a number."""
        if axis is None:
            return base, ""
        return f"{base} + {axis.lower()}", f"in_{axis.lower()}"

    def load(self, target: str, base: str, axis: str | None) -> None:
        address, mask = self.vector(base, axis)
        masked = f", mask={mask}, other=0.0" if mask else ""
        self.lines.add(f"{target} = tl.load({address}{masked}).to(tl.float32)")

    def head(self, heads: str) -> str:
        return "key_head" if heads == "key" else "head"

    # --- pieces of a kernel, in order

    def place(self) -> None:
        """Which row, head and rows of V the program works on."""
        self.lines.add(
            "cell = tl.program_id(0)",
            "tiles: tl.constexpr = (V + BLOCK_V - 1) // BLOCK_V",
            "tile = cell % tiles",
            "head = (cell // tiles % HV).to(tl.int64)",
            "key_head = head // RATIO",
        )
        if self.spec.form == "flush":
            self.lines.add(
                "row = (cell // tiles // HV % B).to(tl.int64)", "layer = (cell // tiles // HV // B).to(tl.int64)"
            )
        else:
            self.lines.add("row = (cell // tiles // HV).to(tl.int64)")
        self.lines.add(
            "first = (head == 0) & (tile == 0)  # this program reports for the row",
            "k = tl.arange(0, BLOCK_K)",
            "v = tile * BLOCK_V + tl.arange(0, BLOCK_V)",
            "in_k = k < K",
            "in_v = v < V",
            "width_K = tl.full((), K, tl.float32)",
            "width_V = tl.full((), V, tl.float32)",
            "",
        )

    def row(self) -> None:
        """Slot, ring and cursors of the row; one that does not exist ends here."""
        self.lines.add(
            "slot, known, no_slot = index_of(slots_ptr, row * slots_s0, slots_words, P)",
            "ring, ringed, no_ring = index_of(rings_ptr, row * rings_s0, rings_words, N)",
            "slot = slot.to(tl.int64)",
            "ring = ring.to(tl.int64)",
            "if not (known & ringed):",
            "    report = first & (tl.where(known, no_ring, no_slot) == 0)",
            f"    tl.store({self.cursor(WINDOW, 'slot')}, {SKIPPED}, mask=first & known)",
            f"    tl.store({self.cursor(BASE, 'P')}, tl.where(known, ring, slot), mask=report)",
            f"    tl.store({self.cursor(FAULT, 'P')}, {FAULT_SLOT}, mask=report)",
        )
        if self.form.tokens:
            self.zero_outputs()
        self.lines.add(
            "    return",
            f"base = tl.load({self.cursor(BASE, 'slot')})",
            f"n = tl.minimum(tl.load({self.cursor(COUNT, 'slot')}), R)",
            "has_state = n >= 0  # every row, but for those that a kernel with kv_only finds marked",
            "if HAS_KV_ONLY:",
            f"    has_state = tl.load({self.cursor(KV_ONLY, 'slot')}) == 0",
        )

    @staticmethod
    def cursor(row: int, column: str) -> str:
        return f"cursors_ptr + {row} * cursors_s0 + {column}"

    def zero_outputs(self) -> None:
        out = self.out("t" if self.form.window else "")
        indent = "        " if self.form.window else "    "
        if self.form.window:
            self.lines.add("    for t in range(WINDOW):")
        self.lines.add(f"{indent}tl.store({out} + v, tl.zeros([BLOCK_V], tl.float32), mask=in_v)")

    def out(self, t: str) -> str:
        return self.at("out", "row", t, "head") if t else self.at("out", "row", "head")

    def length(self) -> None:
        """The row's own tokens; a row without one ends here."""
        self.lines.add(
            "length, good, _ = index_of(lengths_ptr, row * lengths_s0, lengths_words, WINDOW + 1)",
            "length = tl.where(good, length, 0)",
            f"tl.store({self.cursor(WINDOW, 'slot')}, length, mask=first)",
            f"faults = {self.cursor(FAULT, 'slot')}",
            f"tl.store(faults, tl.load(faults) | {FAULT_LENGTH}, mask=first & (good == 0))",
            "if length == 0:",
        )
        self.zero_outputs()
        self.lines.add("    return")

    def parameters(self) -> None:
        """Parameters of the recurrence that the kernel takes, loaded once."""
        taken = {p.argument for p in parameters(self.spec)}
        for a in self.arguments.values():
            if a.parameter and a.name in taken:
                self.load_argument(a, "")

    def load_argument(self, a: Argument, t: str) -> None:
        front = [] if a.parameter else ["row", t] if t else ["row"]
        for part in range(max(a.count, 1)):
            count = [str(part)] if a.count else []
            name = self.leaf(ex.leaf("input", (a.name, part if a.count else None)))
            self.load(name, self.at(a.name, *front, *count, self.head(a.heads)), a.axis)

    def leaf(self, node: Expr) -> str:
        if node.op == "input":
            name, part = node.value
            return f"x{'' if part is None else part}_{name}"
        return {"scalar": f"n_{node.value}", "field": f"f_{node.value}"}.get(node.op, f"{node.op}{node.value}")

    def tile(self) -> None:
        """The checkpoint in float32; of a row that has none, zeros, unread."""
        base = self.at("state", "slot", "head")
        stride = f"state_s{2 + int(self.spec.form == 'flush')}"
        self.lines.add(
            f"checkpoint = {base}",
            "if KEY_MAJOR:",
            f"    checkpoint = checkpoint + k[None, :] * {stride} + v[:, None]",
            "else:",
            f"    checkpoint = checkpoint + v[:, None] * {stride} + k[None, :]",
            "inside = in_v[:, None] & in_k[None, :]",
            "S = tl.load(checkpoint, mask=inside & has_state, other=0.0).to(tl.float32)",
            "",
        )

    def history(self) -> None:
        """Records added to the checkpoint, each weighed by the decays after it."""
        layout, lines = self.spec.record_layout, self.lines
        decays = {"s": layout.log_decay_scalar, "k": layout.log_decay_key, "v": layout.log_decay_value}
        start = {"s": "0.0", "k": "tl.zeros([BLOCK_K], tl.float32)", "v": "tl.zeros([BLOCK_V], tl.float32)"}
        lines.add(*(f"{f.name} = {self.at(f.name, 'ring', '', self.head(f.heads))}" for f in self.fields.values()))
        lines.add(*(f"since_{axis} = {start[axis]}" for axis, e in decays.items() if e is not None))
        lines.add("total = tl.zeros([BLOCK_V, BLOCK_K], tl.float32)", "for j in range(n):  # the newest record first")
        lines.level += 1
        lines.add("at = ((base + n - 1 - j) % R).to(tl.int64)")
        for f in self.fields.values():
            self.load(f"f_{f.name}", self.record(f), f.axis)
        values = Values(lines, "h", self.leaf, [*layout.lefts, *(r.expr for r in layout.rights), *decays.values()])
        key = "".join(f" * tl.exp(since_{axis})" for axis in "sk" if decays[axis] is not None)
        for left, right in zip(layout.lefts, layout.rights, strict=True):
            lines.add(f"left = {values.over_v(left)}{' * tl.exp(since_v)' if decays['v'] is not None else ''}")
            lines.add(f"right = {values.over_k(right.expr)}{key}")
            lines.add("total += left[:, None] * right[None, :]")
        self.add_decays(values, decays)
        lines.level -= 1
        lines.add(f"S = total + S{self.weights(decays)}", "")

    @staticmethod
    def weights(decays: dict[str, Expr | None]) -> str:
        """Factors of the checkpoint, shaped as a tile."""
        shape = {"s": "", "k": "[None, :]", "v": "[:, None]"}
        return "".join(f" * tl.exp(since_{axis}){shape[axis]}" for axis, e in decays.items() if e is not None)

    def add_decays(self, values: Values, decays: dict[str, Expr | None]) -> None:
        for axis, e in decays.items():
            if e is not None:
                text = {"s": values.bare, "k": values.over_k, "v": values.over_v}[axis](e)
                self.lines.add(f"since_{axis} += {text}")

    def fold(self) -> None:
        """Rows that fold read what they stored."""
        lines = self.lines
        if self.form.folds == "full":
            tokens = "length" if self.form.window else "1"
            lines.add("capacity = tl.where(has_state, BUFFER, KV_CAPACITY)", f"if (n > 0) & (n + {tokens} > capacity):")
            lines.level += 1
        lines.add("stored = tl.clamp(S, -LARGEST, LARGEST).to(state_ptr.dtype.element_ty)")
        if not self.form.writes_state:
            self.store_tile()
        if self.form.tokens:
            lines.add("S = stored.to(tl.float32)")
        lines.level = 1

    def store_tile(self) -> None:
        """A small tile has copies in several warps: all must have read it before one of them overwrites it."""
        self.lines.add("tl.debug_barrier()", "tl.store(checkpoint, stored, mask=inside)")

    def tokens(self) -> None:
        lines, t = self.lines, "t" if self.form.window else ""
        lines.add("")
        if t:
            lines.add("for t in range(WINDOW):")
            lines.level += 1
        for a in self.arguments.values():
            if not a.parameter:
                self.load_argument(a, t)
        values = self.token_values()
        self.store_output(values, t)
        if self.form.appends:
            self.append(values, t)
        if t or self.form.writes_state:
            self.step_state(values)
        if t:
            lines.level -= 1
        if self.form.writes_state:
            lines.add("stored = tl.clamp(S, -LARGEST, LARGEST).to(state_ptr.dtype.element_ty)")
            self.store_tile()

    def token_values(self) -> Values:
        """Definitions, reads and left vectors of one token."""
        program, lines = self.spec.program, self.lines
        decays = [program.log_decay_scalar, program.log_decay_key, program.log_decay_value]
        exprs = [*(d.expr for d in program.definitions), *program.reads, *program.rights, *decays, *program.lefts]
        exprs += [program.output, *(f.expr for f in self.fields.values())] if self.form.appends else [program.output]
        values = Values(lines, "e", self.leaf, exprs)
        for d in program.definitions:
            text = f"tl.sum({values.over_k(d.expr)}, 0)" if d.reduce else values.bare(d.expr)
            lines.add(f"n_{d.name} = {text}")
        for i, x in enumerate(program.reads):
            lines.add(f"x = {values.over_k(x)}", f"read{i} = tl.sum(S * x[None, :], 1)")
        for r, left in enumerate(program.lefts):
            lines.add(f"left{r} = {values.over_v(left)}")
        return values

    def store_output(self, values: Values, t: str) -> None:
        text = values.over_v(self.spec.program.output)
        result = f"tl.where({t} < length, {text}, 0.0)" if t else text
        self.lines.add(f"tl.store({self.out(t)} + v, {result}, mask=in_v)")

    def append(self, values: Values, t: str) -> None:
        """The token's record: what all tiles of a head share is stored by the first."""
        live = f" & ({t} < length)" if t else ""
        self.lines.add(f"at = ((base + n{' + t' if t else ''}) % R).to(tl.int64)")
        for f in self.fields.values():
            owner = "" if f.axis == "V" else "(tile == 0)"
            owner += " & (head % RATIO == 0)" if f.heads == "key" else ""
            address, inside = self.vector(self.record(f), f.axis)
            mask = " & ".join(part for part in (inside, owner) if part) + live
            narrow = f.dtype == "bfloat16" and f.expr.op != "bfloat16"
            text = f"bfloat16({values.bare(f.expr)})" if narrow else values.bare(f.expr)
            self.lines.add(f"tl.store({address}, {text}, mask={mask})")

    def step_state(self, values: Values) -> None:
        """The state after the token."""
        program, lines = self.spec.program, self.lines
        terms = []
        if program.log_decay_scalar is not None:
            terms.append(f"tl.exp({values.bare(program.log_decay_scalar)})")
        if program.log_decay_key is not None:
            terms.append(f"tl.exp({values.over_k(program.log_decay_key)})[None, :]")
        if program.log_decay_value is not None:
            terms.append(f"tl.exp({values.over_v(program.log_decay_value)})[:, None]")
        if terms:
            lines.add(f"S = S * {' * '.join(terms)}")
        for r, right in enumerate(program.rights):
            lines.add(f"right = {values.over_k(right)}", f"S += left{r}[:, None] * right[None, :]")
