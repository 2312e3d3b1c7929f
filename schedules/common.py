"""What the templates of every target share: arguments, indices, a record's address, expressions in TIR."""

from __future__ import annotations

import struct
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import tilelang.language as T
from tilelang import tvm
from tilelang.language.eager.builder import Builder

from kvbuffer_codegen.ir import expr as ex
from kvbuffer_codegen.ir.forms import STATES, KernelSpec
from kvbuffer_codegen.ir.philox import MULTIPLIERS, WEYL
from kvbuffer_codegen.ir.signature import BASE, FAULT, FAULT_SLOT, ScalarArg, TensorArg, signature
from kvbuffer_codegen.ir.storage import FORMATS, HALF, LARGEST

#: TileLang's C target has no 8-bit floats.
BITS = {"float8_e4m3fn": "uint8"}
#: softplus(x) is x above this, as in torch.
SOFTPLUS_LINEAR = 20.0


def build(spec: KernelSpec, body: Callable[[Any], None], *, scalars: tuple[str, ...] = ()) -> Any:
    """The prim_func of ``spec``, its arguments declared from the signature and after them int32 ``scalars``.

    ``body`` is a ``T.macro``; it gets a namespace with every argument under its name and, where they occur, the symbols
    B P N R HV Y.
    """
    builder = Builder()
    symbols: dict[str, Any] = {}
    with builder.prim_func(spec.name):
        arguments = SimpleNamespace()
        for argument in signature(spec):
            made = declare(argument, spec, symbols) if isinstance(argument, TensorArg) else T.int32()
            setattr(arguments, argument.name, builder.arg(argument.name, made))
        for name in scalars:
            setattr(arguments, name, builder.arg(name, T.int32()))
        for name, symbol in symbols.items():
            setattr(arguments, name, symbol)
        body(arguments)
    return builder.get()


def declare(argument: TensorArg, spec: KernelSpec, symbols: dict[str, Any]) -> Any:
    """``argument`` as a strided buffer; sizes go to ``symbols``, strides are int64 variables ``<name>_s<axis>``.

    An index argument, int32 or int64, is a table of int32 words: see :func:`index_words`. float8 is declared as its
    bits, uint8: see :func:`decoded`.
    """
    dtype, shape, free = BITS.get(argument.dtype, argument.dtype), argument.shape, argument.free_strides
    if dtype == "index":
        dtype, shape = "int32", (*shape, f"{argument.name}_words")
    sizes = [_size(size, spec, symbols) for size in shape]
    strides: list[Any] = [1] * len(sizes)
    for axis in reversed(range(len(sizes))):
        if axis in free:
            strides[axis] = T.dynamic(f"{argument.name}_s{axis}", "int64")
        elif axis + 1 < len(sizes):
            strides[axis] = strides[axis + 1] * sizes[axis + 1]
    return T.StridedTensor(sizes, strides, dtype)


def _size(size: int | str, spec: KernelSpec, symbols: dict[str, Any]) -> Any:
    if isinstance(size, int):
        return size
    name, _, more = size.partition(" + ")
    if name == "H":  # one symbol fewer to keep consistent: HV is a multiple of the ratio
        return T.truncdiv(_size("HV", spec, symbols), spec.ratio)
    symbol = symbols.setdefault(name, T.dynamic(name))
    return symbol + int(more) if more else symbol


def assumptions(spec: KernelSpec, arguments: Any) -> list[Any]:
    """What holds of the free strides, for ``T.assume`` at the top of a body: else no access is 16 bytes wide."""
    facts = []
    for argument in signature(spec):
        if isinstance(argument, TensorArg):
            divisor = argument.align // (4 if argument.dtype == "index" else STATES.get(argument.dtype, 4))
            strides = getattr(arguments, argument.name).strides
            facts += [T.truncmod(strides[axis], divisor) == 0 for axis in argument.free_strides if divisor > 1]
    return facts


def inputs_of(spec: KernelSpec) -> dict[str, Any]:
    """The recurrence's arguments that the kernel takes, by name."""
    assert spec.recurrence is not None
    taken = {a.name for a in signature(spec) if not isinstance(a, ScalarArg) and a.role in ("input", "parameter")}
    return {a.name: a for a in spec.recurrence.arguments if a.name in taken}


def index_words(table: Any, *at: Any) -> tuple[Any, Any]:
    """(value, rest) of entry ``at``: its low int32 word, and 0 where the value is 0 or above, -1 where it is below.

    An int64 index is two words, little-endian, an int32 index one: the extent of the table's last axis. ``rest`` is
    something else where the value does not fit 32 bits.
    """
    words = table.shape[-1]
    low, high = table[(*at, 0)], table[(*at, words - 1)]
    return low, T.Select(words == 1, low >> 31, high)


def in_range(value: Any, rest: Any, size: Any) -> Any:
    """Whether an index from :func:`index_words` is one of 0 .. size - 1."""
    return tvm.tirx.all(rest == 0, value >= 0, value < size)


def is_padding(value: Any, rest: Any) -> Any:
    """Whether an index from :func:`index_words` is -1."""
    return tvm.tirx.all(value == -1, rest == -1)


@T.macro
def report_index(a: Any, value: Any, rest: Any) -> None:
    """A slot or ring that does not exist, unless it is -1: to the column of cursors that belongs to nobody. Of one
    that does not fit 32 bits, the nearest number is shown, never its low word."""
    if tvm.tirx.Not(is_padding(value, rest)):
        nearest = T.Select(rest < 0, T.int32(-(2**31)), T.int32(2**31 - 1))
        a.cursors[BASE, a.P] = T.Select(rest == value >> 31, value, nearest)
        a.cursors[FAULT, a.P] = FAULT_SLOT


def record_row(base: Any, j: Any, ring: Any, unsigned: bool = False) -> Any:
    """The ring row of record ``j``, oldest first (token i of the call: n + i). A record's address is made here only."""
    row = base + j  # base < ring and j <= ring: what wraps does so once, and a division would cost more
    if unsigned:  # of two numbers one is negative, hence large: one instruction
        return T.min(T.cast(row, "uint32"), T.cast(row - ring, "uint32"))
    return T.Select(row < ring, row, row - ring)


def number(value: float) -> Any:
    """``value`` as float32: the code generators print seven digits, so what needs more travels as its bits."""
    single = struct.unpack("<f", struct.pack("<f", value))[0]
    printed = struct.unpack("<f", struct.pack("<f", float(f"{single:e}")))[0]
    if printed == single or single != single:
        return T.float32(single)
    return T.reinterpret(T.uint32(struct.unpack("<I", struct.pack("<f", single))[0]), "float32")


def _softplus(x: Any) -> Any:
    return T.Select(x > SOFTPLUS_LINEAR, x, T.log1p(T.exp(T.min(x, SOFTPLUS_LINEAR))))


def _bfloat16(x: Any) -> Any:
    """In integers: a float32 cast to bfloat16 and back would be bound to a name, which TileLang misreads."""
    limit = number(ex.BFLOAT16_MAX)
    bits = T.reinterpret(T.min(T.max(x, -limit), limit), "uint32")
    rounded = bits + T.uint32(0x7FFF) + ((bits >> T.uint32(16)) & T.uint32(1))
    return T.reinterpret(rounded & T.uint32(0xFFFF0000), "float32")


#: The operations of the language in TIR, with the limits that the oracle has.
OPERATIONS: dict[str, Callable[..., Any]] = {
    "neg": lambda x: T.float32(0) - x,
    "exp": lambda x: T.exp(T.min(x, number(ex.EXP_LIMIT))),
    "log": lambda x: T.log(x),
    "sqrt": lambda x: T.sqrt(x),
    "rsqrt": lambda x: T.float32(1) / T.sqrt(x),
    "sigmoid": lambda x: T.float32(1) / (T.float32(1) + T.exp(-x)),
    "softplus": _softplus,
    "tanh": lambda x: T.tanh(x),
    "abs": lambda x: T.max(x, -x),
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "maximum": lambda a, b: T.max(a, b),
    "minimum": lambda a, b: T.min(a, b),
    "bfloat16": _bfloat16,
}


def lower(
    expr: ex.Expr,
    leaf_of: Callable[[ex.Expr], Any],
    spec: KernelSpec,
    operations: dict[str, Callable[..., Any]] = OPERATIONS,
) -> Any:
    """``expr``, which holds no sum, in float32 TIR; ``leaf_of`` gives inputs, scalars, fields, reads and lefts."""

    def leaf(node: ex.Expr) -> Any:
        if node.op == "const":
            return number(node.value)
        if node.op == "size":
            return T.float32(spec.extent(node.value))
        return leaf_of(node)

    return ex.evaluate(expr, leaf, operations)


def saturated(value: Any, dtype: str) -> Any:
    """``value`` within the finite range of ``dtype``."""
    largest = LARGEST[dtype]
    return T.min(T.max(value, number(-largest)), number(largest))


def on_grid(value: Any, dtype: str, offset: Any = None) -> Any:
    """``value``, a buffer element, as a value of a narrow ``dtype`` still in float32: ``ir.storage.on_grid``."""
    f = FORMATS[dtype]
    offset = T.float32(HALF) if offset is None else offset
    if dtype == "int8":
        rounded = T.floor(value + offset)
    else:
        exponent = T.reinterpret(value, "uint32") & T.uint32(0x7F800000)
        spacing = T.max(exponent, T.uint32((127 + f.least) << 23)) - T.uint32(f.bits << 23)
        inverse = T.reinterpret(T.uint32(254 << 23) - spacing, "float32")
        rounded = T.floor(value * inverse + offset) * T.reinterpret(spacing, "float32")
    return T.min(T.max(rounded, number(-f.largest)), number(f.largest))


def encoded(value: Any, dtype: str) -> Any:
    """A value that ``dtype``, an 8-bit one, has, as what memory holds."""
    if dtype == "int8":
        return T.cast(value, "int8")
    bits = T.reinterpret(value, "uint32")
    size = T.reinterpret(bits & T.uint32(0x7FFFFFFF), "float32")
    small = T.cast(T.cast(size * T.float32(512), "int32"), "uint32")  # subnormal: in units of 2^-9
    normal = ((bits & T.uint32(0x7FFFFFFF)) - T.uint32(120 << 23)) >> T.uint32(20)
    sign = (bits >> T.uint32(24)) & T.uint32(0x80)
    return T.cast(T.Select(size < T.float32(2.0**-6), small, normal) | sign, "uint8")


def decoded(code: Any, dtype: str) -> Any:
    """What memory holds of a state value, as float32, scales aside."""
    if dtype not in BITS:
        return T.cast(code, "float32")
    bits = T.cast(code, "uint32")
    size = bits & T.uint32(0x7F)
    small = T.reinterpret(T.cast(T.cast(size, "int32"), "float32") * T.float32(2.0**-9), "uint32")
    normal = (size << T.uint32(20)) + T.uint32(120 << 23)
    return T.reinterpret(T.Select(size < 8, small, normal) | ((bits & T.uint32(0x80)) << T.uint32(24)), "float32")


def philox_round(x: list[Any], seed: Any, i: int) -> list[Any]:
    """Round ``i`` of Philox 4x32 on four uint32 words under the key (seed, 0)."""
    keys = T.cast(seed, "uint32") + T.uint32(i * WEYL[0] % 2**32), T.uint32(i * WEYL[1] % 2**32)
    a, b = (T.cast(word, "uint64") * T.uint64(m) for word, m in zip((x[0], x[2]), MULTIPLIERS, strict=True))
    high_a, high_b = (T.cast(product >> T.uint64(32), "uint32") for product in (a, b))
    return [high_b ^ x[1] ^ keys[0], T.cast(b, "uint32"), high_a ^ x[3] ^ keys[1], T.cast(a, "uint32")]


def offset_of(word: Any, dtype: str) -> Any:
    """What stochastic rounding to ``dtype`` adds, from a random word: in [0, 1)."""
    bits = FORMATS[dtype].random
    return T.cast(T.cast(word >> T.uint32(32 - bits), "int32"), "float32") * T.float32(2.0**-bits)
