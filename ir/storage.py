"""What a state dtype makes of a tile, in NumPy: the model that kernels are held against.

An 8-bit state keeps codes and two float32 scales, written anew with every fold:

    S[v, k] ~ code[v, k] * row[v] * channel[k]
    channel[k] = max over v of |S[v, k]|,    row[v] = max over k of |S[v, k]| / channel[k] / largest code

so that no code is out of range, a row or channel of zeros stays exactly zero, and a few strong key channels do not take
the precision of the others: row scales alone are 2 to 4 times worse there. What exceeds the range of a format becomes
its largest value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .oracle import F64, bfloat16

#: Scales of less are zero: their inverses would overflow.
LEAST_SCALE = 1e-30
#: To nearest: what is added to a value in units of its spacing before the fraction is dropped.
HALF = 0.5


@dataclass(frozen=True)
class Format:
    """Spacing 2^(max(floor(log2 |x|), ``least``) - ``bits``) between neighbours of x, up to ``largest``; ``random``:
    bits that stochastic rounding adds below it, as many as a float32 sum holds."""

    bits: int
    least: int
    largest: float
    random: int = 16


FORMATS = {
    "bfloat16": Format(7, -119, 3.3895313892515355e38),
    "float16": Format(10, -14, 65504.0, random=13),
    "int8": Format(6, 6, 127.0),
    "float8_e4m3fn": Format(3, -6, 448.0),
}
#: The largest magnitude of a state value, by dtype; 8-bit: with its scales, a power of two below overflow.
LARGEST = {"float32": 3.4028234663852886e38, "int8": 2.0**127, "float8_e4m3fn": 2.0**127} | {
    name: FORMATS[name].largest for name in ("bfloat16", "float16")
}


def on_grid(x: F64, dtype: str, offset: F64 | float = HALF) -> F64:
    """``x`` as a value of ``dtype``: the fraction of its spacing plus ``offset``, in [0, 1), rounded down."""
    f = FORMATS[dtype]
    with np.errstate(divide="ignore"):
        exponent = np.maximum(np.floor(np.log2(np.abs(x))), f.least)
    spacing = np.exp2(exponent - f.bits)
    return np.clip(np.floor(x / spacing + offset) * spacing, -f.largest, f.largest)


@dataclass(frozen=True)
class Scaled:
    """An 8-bit tile: ``codes`` [..., V, K] as numbers, ``rows`` [..., V], ``channels`` [..., K]."""

    codes: F64
    rows: F64
    channels: F64

    @property
    def values(self) -> F64:
        return self.codes * self.rows[..., :, None] * self.channels[..., None, :]


def scaled(tile: F64, dtype: str, offset: F64 | float = HALF) -> Scaled:
    """``tile`` [..., V, K] in an 8-bit ``dtype``."""
    tile = np.clip(tile, -LARGEST[dtype], LARGEST[dtype])
    channels = _scale(np.abs(tile).max(-2))
    flat = np.divide(tile, channels[..., None, :], out=np.zeros_like(tile), where=channels[..., None, :] > 0)
    rows = _scale(np.abs(flat).max(-1))
    flat = np.divide(flat, rows[..., :, None], out=np.zeros_like(tile), where=rows[..., :, None] > 0)
    top = FORMATS[dtype].largest
    return Scaled(on_grid(flat * top, dtype, offset), (rows / top).astype(np.float32).astype(np.float64), channels)


def _scale(largest: F64) -> F64:
    return np.where(largest > LEAST_SCALE, largest, 0.0).astype(np.float32).astype(np.float64)


def stored(tile: Any, dtype: str, offset: F64 | float | None = None) -> F64:
    """The values that remain of ``tile`` [..., V, K] in ``dtype``, by default to nearest (16-bit: ties to even)."""
    tile = np.asarray(tile, np.float64)
    if dtype in ("int8", "float8_e4m3fn"):
        return scaled(tile, dtype, HALF if offset is None else offset).values
    tile = np.clip(tile, -LARGEST[dtype], LARGEST[dtype])
    if offset is not None:
        return on_grid(tile, dtype, offset)
    if dtype == "bfloat16":
        return bfloat16(tile)
    return tile.astype({"float32": np.float32, "float16": np.float16}[dtype]).astype(np.float64)
