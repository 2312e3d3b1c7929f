"""Runs CPU kernels on NumPy arrays through ctypes, and says in float64 what one call must do.

What a call must do is derived from the very bytes it finds (state, records, cursors, rounded inputs), so a tolerance
covers the arithmetic of that one call and nothing before it.
"""

from __future__ import annotations

import ctypes
import functools
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kvbuffer_codegen import expressions
from kvbuffer_codegen.compiler.build import emit
from kvbuffer_codegen.compiler.toolchain import compile_source, find_compiler
from kvbuffer_codegen.ir import forms, storage
from kvbuffer_codegen.ir import signature as sg
from kvbuffer_codegen.ir.forms import FORMS, KernelSpec
from kvbuffer_codegen.ir.forms_numpy import Row, StoredRow
from kvbuffer_codegen.ir.signature import BASE, COUNT, FAULT, KV_ONLY, WINDOW, WRITES, TensorArg, signature
from kvbuffer_codegen.schedules import space
from kvbuffer_codegen.schedules.space import Schedule
from kvbuffer_codegen.schedules.targets import target

CPU = target("cpu")
NUMPY = {"float32": np.float32, "float16": np.float16, "bfloat16": np.uint16, "int32": np.int32}
NUMPY |= {"int8": np.int8, "float8_e4m3fn": np.uint8}


def to_bfloat16(x: Any) -> Any:
    """float -> the bits of bfloat16, to nearest even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(x), 0x7FC0, rounded).astype(np.uint16)


def encode(x: Any, dtype: str) -> Any:
    if dtype in forms.SCALED:  # poison
        return np.full(np.shape(x), 77, NUMPY[dtype])
    return to_bfloat16(x) if dtype == "bfloat16" else np.asarray(x).astype(NUMPY[dtype])


def decode(x: Any, dtype: str) -> Any:
    """Stored values as float64."""
    if dtype == "float8_e4m3fn":
        return torch.from_numpy(x).view(torch.float8_e4m3fn).double().numpy()
    if dtype == "bfloat16":
        return (x.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return x.astype(np.float64)


def codes_of(values: Any, dtype: str) -> Any:
    """What memory holds of values that an 8-bit dtype has."""
    made = torch.from_numpy(values).to(getattr(torch, dtype))
    return made.view(torch.int8 if dtype == "int8" else torch.uint8).numpy()


def rounded(x: Any, dtype: str) -> Any:
    return decode(encode(x, dtype), dtype)


class CpuKernel:
    """A compiled kernel; called with arrays and integers by argument name."""

    def __init__(self, spec: KernelSpec, schedule: Schedule | None = None):
        self.spec = spec
        self.lowered = emit(spec, schedule or space.default(spec, CPU), CPU)
        binary = compile_source(self.lowered.source, find_compiler(CPU))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{spec.name}.so"
            path.write_bytes(binary.data)
            self.entry = getattr(ctypes.CDLL(str(path)), self.lowered.entry)
        self.arguments = signature(spec)

    def sizes(self, given: dict[str, Any]) -> dict[str, int]:
        """Run-time integers by name, from shapes and strides."""
        sizes: dict[str, int] = {}
        for argument in self.arguments:
            if not isinstance(argument, TensorArg):
                sizes[argument.name] = given[argument.name]
                continue
            x = given[argument.name]
            item = 4 if argument.dtype == "index" else x.itemsize
            sizes[f"{argument.name}_words"] = x.itemsize // 4
            sizes |= {f"{argument.name}_s{axis}": stride // item for axis, stride in enumerate(x.strides)}
            for size, extent in zip(argument.shape, x.shape, strict=True):
                if isinstance(size, str):
                    size, _, more = size.partition(" + ")
                    extent -= int(more or 0)
                    assert sizes.setdefault(size, extent) == extent, (argument.name, size)
        return sizes

    def __call__(self, **given: Any) -> None:
        sizes = self.sizes(given)
        values = []
        for argument in self.lowered.arguments:
            if "pointer" in argument:
                values.append(given[argument["pointer"]].ctypes.data)
            else:
                value = expressions.evaluate(expressions.parse(argument["integer"]), sizes)
                values.append(value % 2**64)
        cells = expressions.evaluate(expressions.parse(self.lowered.grid[0]), sizes)
        packed = (ctypes.c_uint64 * len(values))(*values)
        self.entry(packed, (ctypes.c_int64 * 3)(cells, 1, 1))


@functools.cache
def kernel(spec: KernelSpec, schedule: Schedule | None = None) -> CpuKernel:
    """Each kernel is built once in a run of the tests."""
    return CpuKernel(spec, schedule)


# -- one call on random memory ---------------------------------------------------------------------------------------

#: Largest error of a float32 result, in units of the largest value beside it: sums of at most 256 products, eight times
#: over (read, history, window), 2^-24 * 256 * 8 at the worst, of which random signs leave a tenth.
ARITHMETIC = 1.2e-5
#: Relative: half a unit in the last place of a rounding to nearest, as much again for one that falls the other way.
ROUNDING = {"float32": 2.0**-23, "bfloat16": 2.0**-8, "float16": 2.0**-11}
#: The same of a left vector in the ring, by records; a pair holds 16 bits.
LEFTS = {"exact": 2.0**-23, "bf16": 2.0**-8, "hilo": 2.0**-16}
#: Least share of a narrow state's values that a model in float64 rounds to the same side.
ALIKE = 0.97
#: A state rounded to the other side moves a read by one unit in the last place of a few of its K terms.
FLIPPED = {"float32": 0.0, "bfloat16": 2.0**-9, "float16": 2.0**-12, "int8": 2.0**-8, "float8_e4m3fn": 2.0**-5}


class RoundedRow(StoredRow):
    """The float64 row with the state in its storage format. An 8-bit state that a kernel has left is taken as it is,
    as its codes may have been rounded either way; ``exact`` is what was stored last, ``model`` what became of it."""

    left: Any = None
    exact: Any = None
    model: Any = None

    def stored(self, state: Any) -> Any:
        self.exact, self.model = state, super().stored(state)
        return self.model if self.left is None else self.left()


def strided(shape: tuple[int, ...], dtype: str, wide: bool, fill: float = np.nan) -> tuple[Any, Any]:
    """(whole, view): an array with gaps along every axis whose stride is free, filled with poison."""
    last = shape[-1] + 16 if wide else 2 * shape[-1]
    whole_shape = (*(n + 1 for n in shape[:-1]), last)
    is_int = dtype == "int32"
    whole = np.full(whole_shape, 77, np.int32) if is_int else encode(np.full(whole_shape, fill), dtype)
    view = whole[tuple(slice(0, n) for n in shape)] if wide else whole[tuple(slice(0, n) for n in shape[:-1])][..., ::2]
    return whole, view


def index(values: Any, dtype: Any) -> Any:
    """An index tensor with a stride of three items."""
    whole = np.full(3 * len(values), 10**6, dtype)
    whole[::3] = values
    return whole[::3]


class Case:
    """Random memory and inputs for one call, the call's arguments, and what it must leave behind."""

    def __init__(
        self, spec: KernelSpec, H: int = 2, B: int = 6, seed: int = 0, index_dtype: Any = np.int64, gates: Any = None
    ):
        self.spec, self.H, self.HV, self.B = spec, H, H * spec.ratio, B
        self.random = np.random.default_rng(seed)
        self.P, self.N = B + 2, B + 3
        self.T = max(spec.tokens, 1)
        self.L, self.C = spec.buffer, spec.kv_only
        self.R = max(self.L, self.C, 4, self.T) + self.T + 1
        self.gates = gates or (lambda token: token)
        self.arguments = [a for a in signature(spec) if isinstance(a, TensorArg)]
        self.whole: dict[str, Any] = {}
        self.given: dict[str, Any] = {}
        sizes = {"B": B, "P": self.P, "N": self.N, "R": self.R, "H": H, "HV": self.HV, "Y": 1, "P + 1": self.P + 1}
        self.writes = np.random.default_rng(seed).integers(0, 2**31, self.P + 1)  # of each slot, and the seed
        for a in self.arguments:
            if a.dtype != "index":
                shape = tuple(sizes[n] if isinstance(n, str) else n for n in a.shape)
                wide = a.free_strides[-1:] != (len(shape) - 1,)
                if a.role == "cursors":
                    self.whole[a.name] = self.given[a.name] = np.zeros(shape, np.int32)
                else:
                    self.whole[a.name], self.given[a.name] = strided(shape, a.dtype, wide)
        self.slots = self.random.permutation(self.P)[:B]
        self.rings = self.random.permutation(self.N)[:B]
        self.lengths = self.random.integers(0, self.T + 1, B) if spec.form == "verify" else np.ones(B, int)
        self.lengths[:2] = self.T
        self.parameters = self._fill_parameters()
        self.counts, self.flags = self._occupancies()
        self._fill_rows()
        if B > 2:  # padding between live rows
            self.slots[B // 2] = -1
        self._fill_inputs()
        self.given |= {"slots": index(self.slots, index_dtype), "rings": index(self.rings, index_dtype)}
        if spec.form == "verify":
            self.given["lengths"] = index(self.lengths, index_dtype)
        self.before = {name: x.copy() for name, x in self.whole.items()}

    def _occupancies(self) -> tuple[Any, Any]:
        """Records and kv_only flags per row: empty, full (so that the row folds), and between."""
        counts = self.random.integers(0, self.L + 1, self.B)
        counts[: min(self.B, 3)] = [self.L, 0, max(self.L - 1, 0)][: self.B]
        flags = (self.random.random(self.B) < 0.5) if self.C else np.zeros(self.B, bool)
        if self.C:
            flags[:4] = [False, True, True, False][: self.B]
            for b in np.flatnonzero(flags):
                counts[b] = self.random.integers(0, self.C + 1)
            counts[2:3] = self.C
        return counts, flags

    def values(self, argument: Any, lead: tuple[int, ...]) -> Any:
        heads = self.H if argument.heads == "key" else self.HV
        count = (argument.count,) if argument.count else ()
        axis = {"K": (self.spec.K,), "V": (self.spec.V,), None: ()}[argument.axis]
        x = self.random.standard_normal((*lead, *count, heads, *axis))
        return rounded(x, "float32" if argument.parameter else self.spec.io)

    def token(self) -> dict[str, Any]:
        inputs = {a.name: self.values(a, ()) for a in self.spec.recurrence.arguments if not a.parameter}
        return {name: rounded(x, self.spec.io) for name, x in self.gates(inputs).items()}

    def _fill_parameters(self) -> dict[str, Any]:
        parameters = {a.name: self.values(a, ()) for a in self.spec.recurrence.arguments if a.parameter}
        parameters = self.gates(parameters)
        for name, x in parameters.items():
            if name in self.given:
                self.given[name][...] = x
        return parameters

    def _fill_rows(self) -> None:
        """State and records of the live rows; everything else stays poison."""
        spec, g = self.spec, self.given
        self.bases = self.random.integers(0, self.R, self.B)
        if spec.stochastic:
            g["cursors"][WRITES] = self.writes
        for b in range(self.B):
            slot, ring = self.slots[b], self.rings[b]
            g["cursors"][[BASE, COUNT, KV_ONLY], slot] = self.bases[b], self.counts[b], self.flags[b]
            state = 0.5 * self.random.standard_normal((self.HV, spec.V, spec.K))
            row = Row(spec, state, self.parameters)
            for j in range(self.counts[b]):
                _, record = row._token(self.token(), [])
                for f in spec.record_layout.fields:
                    value = record[f.name] if f.axis else record[f.name][:, 0]
                    value = np.broadcast_to(value, (self.HV, *value.shape[1:]))
                    value = value[:: spec.ratio] if f.heads == "key" else value
                    with np.errstate(over="ignore"):
                        self.at(f.name, ring, (self.bases[b] + j) % self.R)[...] = encode(value, self.dtype(f))
            if not self.flags[b]:
                if spec.scaled:
                    made = storage.scaled(state, spec.state)
                    state = codes_of(made.codes, spec.state)
                    self.layer("state_rows")[slot], self.layer("state_channels")[slot] = made.rows, made.channels
                tile = state if spec.layout == "VK" else state.swapaxes(1, 2)
                self.layer("state")[slot] = tile if spec.scaled else encode(tile, spec.state)

    def _fill_inputs(self) -> None:
        self.tokens = [[self.token() for _ in range(self.T)] for _ in range(self.B)]
        if not FORMS[self.spec.form].tokens:
            return
        for b, t in np.ndindex(self.B, self.T):
            if self.slots[b] >= 0 and t < self.lengths[b]:
                for name, x in self.tokens[b][t].items():
                    self.given[name][(b, t) if self.spec.form == "verify" else b] = encode(x, self.spec.io)

    def layer(self, name: str) -> Any:
        return self.given[name][0] if self.spec.form == "flush" else self.given[name]

    def at(self, name: str, ring: int, row: int) -> Any:
        return self.layer(name)[ring, row]

    def dtype(self, f: Any) -> str:
        return f.stored(self.spec.io)

    def record(self, b: int, j: int, ring_of: dict[str, Any] | None = None) -> dict[str, Any]:
        """Record ``j`` of row ``b`` as memory holds it, per value head, float64."""
        made = {}
        for f in self.spec.record_layout.fields:
            x = decode(
                np.ascontiguousarray(self.at(f.name, self.rings[b], (self.bases[b] + j) % self.R)), self.dtype(f)
            )
            x = x if f.axis else x[:, None]
            made[f.name] = np.repeat(x, self.HV // len(x), axis=0)
        return made

    def state(self, b: int) -> Any:
        slot = self.slots[b]
        x = decode(np.ascontiguousarray(self.layer("state")[slot]), self.spec.state)
        x = x if self.spec.layout == "VK" else x.swapaxes(1, 2)
        if not self.spec.scaled:
            return x
        rows, channels = self.layer("state_rows")[slot], self.layer("state_channels")[slot]
        return storage.Scaled(x, rows.astype(np.float64), channels.astype(np.float64)).values

    def row(self, b: int) -> RoundedRow:
        row = RoundedRow(self.spec, None if self.flags[b] else self.state(b), self.parameters)
        row.seed, row.writes = int(self.writes[-1]), int(self.writes[self.slots[b]])
        row.HV, row.records = self.HV, [self.record(b, j) for j in range(self.counts[b])]
        return row

    def run(self, schedule: Schedule | None = None) -> Case:
        """Call the kernel and check everything it left behind."""
        rows = [self.row(b) if self.slots[b] >= 0 else None for b in range(self.B)]
        kernel(self.spec, schedule)(**self.given)
        self.check([row and self.expect(b, row) for b, row in enumerate(rows)])
        return self

    def expect(self, b: int, row: RoundedRow) -> tuple[Any, Any, list[dict[str, Any]]]:
        """Outputs, state (None where it is not written) and appended records of row ``b``, as it was before the
        call."""
        form, t = self.spec.form, self.lengths[b]
        outputs, records = [], []
        if self.spec.scaled and form != "step":
            row.left = lambda: self.state(b)
        if form == "flush":
            row.flush()
        elif form == "step":
            outputs = [row.step(self.tokens[b][0])]
        elif form == "decode":
            outputs = [row.decode(self.tokens[b][0])]
            records = row.records[-1:]
        else:
            outputs, records = row.verify(self.tokens[b][:t]), row.window
        return outputs, (row.exact, row.model) if row.folds or form == "step" else None, records

    def check(self, expected: list[Any]) -> None:
        spec = self.spec
        allowed = {name: np.zeros(x.shape, bool) for name, x in self.given.items() if name in self.whole}
        views = dict(allowed)
        for b, wanted in enumerate(expected):
            if FORMS[spec.form].tokens:
                self._check_outputs(b, wanted)
            if wanted is None:
                continue
            _, state, records = wanted
            lead = (0,) if spec.form == "flush" else ()
            if state is not None:
                for name in ("state", "state_rows", "state_channels") if spec.scaled else ("state",):
                    views[name][(*lead, self.slots[b])] = True
                self._check_state(b, *state)
            for i, record in enumerate(records):
                at = (self.rings[b], (self.bases[b] + self.counts[b] + i) % self.R)
                got = self.record(b, self.counts[b] + i)
                for f in spec.record_layout.fields:
                    views[f.name][(*lead, *at)] = True
                    if f.dtype == "io":
                        assert np.array_equal(got[f.name], record[f.name]), f.name
                    elif f.dtype == "float32":
                        assert_close(
                            got[f.name], record[f.name], f"{f.name} of row {b}, token {i}", 2.0**-23, self._loose(b)
                        )
                row = self.row(b)
                for r, left in enumerate(spec.record_layout.lefts):
                    vectors = row._field(got, left), row._field(record, left)
                    assert_close(*vectors, f"left {r} of row {b}, token {i}", LEFTS[spec.records], self._loose(b))
        self._check_cursors(expected)
        self._check_untouched(views)

    def _check_state(self, b: int, exact: Any, model: Any) -> None:
        """The state as stored against what was stored: at most half a unit off (a whole one at random), and where a
        step has folded a code or two that went the other way; scales as chosen from it; nearly all values as the model
        has them."""
        spec, got = self.spec, self.state(b)
        if spec.state != "float32":
            alike = np.isclose(got, model, rtol=1e-5, atol=1e-6 * np.abs(exact).max()).mean()
            assert alike > ALIKE, f"state of row {b}: {alike:.0%} as the model rounds it"
        if not spec.scaled:
            limit, units = storage.LARGEST[spec.state], 1 + spec.stochastic
            rounding = units * ROUNDING[spec.state]
            assert_close(got, np.clip(exact, -limit, limit), f"state of row {b}", rounding, self._loose(b))
            return
        made = storage.scaled(exact, spec.state)
        scales = self.layer("state_rows")[self.slots[b]], self.layer("state_channels")[self.slots[b]]
        assert_close(scales[0], made.rows, f"row scales of row {b}", 2.0**-22, self._loose(b))
        assert_close(scales[1], made.channels, f"channel scales of row {b}", 2.0**-22, self._loose(b))
        units = (1 + spec.stochastic) * (1 + 2 * (spec.form == "step" and self.counts[b] > 0))
        spacing = np.maximum(np.abs(made.codes) / 8, 2.0**-9) if spec.state == "float8_e4m3fn" else 1.0
        allowed = units * 0.501 * spacing * made.rows[..., :, None] * made.channels[..., None, :]
        off = np.abs(got - exact) - allowed
        assert np.max(off) <= ARITHMETIC * np.abs(exact).max(), (
            f"state of row {b}: off by {np.max(off)} beyond rounding"
        )

    def _loose(self, b: int) -> float:
        return ARITHMETIC + FLIPPED[self.spec.state]

    def _check_outputs(self, b: int, wanted: Any) -> None:
        out = self.given["out"][b] if self.spec.form == "verify" else self.given["out"][b][None]
        got = decode(np.ascontiguousarray(out), self.spec.io)
        outputs = wanted[0] if wanted else []
        for t, output in enumerate(outputs):
            assert_close(got[t], output, f"output of row {b}, token {t}", ROUNDING[self.spec.io], self._loose(b))
        assert np.array_equal(got[len(outputs) :], np.zeros_like(got[len(outputs) :])), (
            f"row {b}: no zeros past its tokens"
        )

    def _check_cursors(self, expected: list[Any]) -> None:
        wanted = self.before["cursors"].copy()
        if self.spec.form == "verify":
            for b in range(self.B):
                if self.slots[b] >= 0:
                    wanted[WINDOW, self.slots[b]] = self.lengths[b]
        assert np.array_equal(self.given["cursors"], wanted), "cursors"

    def _check_untouched(self, written: dict[str, Any]) -> None:
        """Every byte that a call may not write is as before, gaps included."""
        for name, whole in self.whole.items():
            if name in ("out", "cursors"):
                continue
            before, after = self.before[name].copy(), whole.copy()
            for x in (before, after):
                view = np.lib.stride_tricks.as_strided(x, self.given[name].shape, self.given[name].strides)
                view[written[name]] = 0
            assert before.tobytes() == after.tobytes(), f"{name}: written outside its rows"


def assert_close(got: Any, wanted: Any, what: str, relative: float, scaled: float) -> None:
    """|got - wanted| <= relative * |wanted| + scaled * (the largest finite wanted value beside it)."""
    wanted = np.broadcast_to(wanted, got.shape)
    finite = np.isfinite(wanted) & (np.abs(wanted) < 3.4e38)
    assert np.array_equal(np.isnan(got), np.isnan(wanted)), f"{what}: NaN"
    scale = np.max(np.abs(wanted[finite]), initial=1e-3)
    error = np.abs(got - wanted, where=finite, out=np.zeros_like(wanted)) - relative * np.abs(
        np.where(finite, wanted, 0)
    )
    assert np.max(error, initial=0) <= scaled * scale, (
        f"{what}: error {np.max(error) / scale:.2e} of the largest, allowed {scaled:.2e}"
    )
    assert np.all(got[~finite] <= -3.4e38), f"{what}: infinities"


__all__ = ["FAULT", "Case", "CpuKernel", "decode", "encode", "kernel", "sg"]
