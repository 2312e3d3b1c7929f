"""States as they are stored, in torch: ``ir.storage`` on tensors. Nothing here reads the device."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from kvbuffer_codegen.ir import philox
from kvbuffer_codegen.ir.forms import SCALED, KernelSpec
from kvbuffer_codegen.ir.storage import FORMATS, HALF, LARGEST, LEAST_SCALE

#: Tensors of a state, as kernels call them; the scales where it is 8-bit.
STATE, ROWS, CHANNELS = "state", "state_rows", "state_channels"


def stored(states: Tensor, dtype: torch.dtype, offset: Tensor | None = None) -> dict[str, Tensor]:
    """float32 ``states`` [..., V, K] in ``dtype``, by tensor; what is out of its range becomes its largest value.
    ``offset``: see :func:`offsets`; default: to nearest."""
    name = str(dtype).removeprefix("torch.")
    if name in SCALED:
        return _scaled(states, dtype, name, HALF if offset is None else offset)
    if offset is not None:
        return {STATE: on_grid(states, name, offset).to(dtype)}
    largest = torch.finfo(dtype).max
    return {STATE: states.clamp(-largest, largest).to(dtype)}


def values(parts: Mapping[str, Tensor]) -> Tensor:
    """What ``parts`` of a state are worth, in float32: the inverse of :func:`stored`."""
    codes = parts[STATE].float()
    return codes * parts[ROWS].unsqueeze(-1) * parts[CHANNELS].unsqueeze(-2) if ROWS in parts else codes


def bits(x: Tensor) -> Tensor:
    """``x``, or its bytes where it is float8: torch indexes no such tensor."""
    return x.view(torch.uint8) if x.dtype is torch.float8_e4m3fn else x


def _scaled(states: Tensor, dtype: torch.dtype, name: str, offset: Tensor | float) -> dict[str, Tensor]:
    largest, top = LARGEST[name], FORMATS[name].largest
    states = torch.where(states > -largest, states, -largest).clamp(max=largest)  # NaN: as the kernels' comparisons do
    channels = _scale(states.abs().amax(-2))
    flat = states * _inverse(channels, 1.0).unsqueeze(-2)
    rows = _scale(flat.abs().amax(-1))
    codes = on_grid(flat * _inverse(rows, top).unsqueeze(-1), name, offset)
    return {STATE: codes.to(dtype), ROWS: rows * (1 / top), CHANNELS: channels}


def _scale(largest: Tensor) -> Tensor:
    return torch.where(largest > LEAST_SCALE, largest, 0.0)


def _inverse(scale: Tensor, top: float) -> Tensor:
    return torch.where(scale > 0, top / scale, 0.0)


def on_grid(x: Tensor, name: str, offset: Tensor | float = HALF) -> Tensor:
    """float32 ``x`` as values of a narrow dtype, still in float32."""
    f = FORMATS[name]
    exponent = (x.contiguous().view(torch.int32) & 0x7F800000).clamp(min=(127 + f.least) << 23)
    spacing = exponent - (f.bits << 23)
    rounded = torch.floor(x * ((254 << 23) - spacing).view(torch.float32) + offset) * spacing.view(torch.float32)
    return rounded.clamp(-f.largest, f.largest)


def offsets(spec: KernelSpec, HV: int, writes: Tensor, seed: Tensor) -> Tensor:
    """What stochastic rounding adds to states [B, HV, V, K], in [0, 1): ``ir.philox.offsets`` for rows that were
    written ``writes`` [B] times."""
    lines, width = (spec.V, spec.K) if spec.layout == "VK" else (spec.K, spec.V)
    groups, device = -(-width // philox.WORDS), writes.device
    line = torch.arange(lines, device=device)[:, None]
    head = torch.arange(HV, device=device)[:, None, None]
    zero = torch.zeros(len(writes), HV, lines, groups, dtype=torch.int64, device=device)
    group = line * groups + torch.arange(groups, device=device)
    x = [zero + group, zero + head, zero + (writes.long() & _WORD)[:, None, None, None], zero]
    for i in range(philox.ROUNDS):
        k0, k1 = (seed.long() + i * philox.WEYL[0]) & _WORD, i * philox.WEYL[1] & _WORD
        (high_a, low_a), (high_b, low_b) = (_product(x[2 * j], m) for j, m in enumerate(philox.MULTIPLIERS))
        x = [high_b ^ x[1] ^ k0, low_b, high_a ^ x[3] ^ k1, low_a]
    bits_used = FORMATS[spec.state].random
    drawn = torch.stack(x, -1).flatten(-2)[..., :width] >> (32 - bits_used)
    drawn = drawn.float() * 2.0**-bits_used
    return drawn if spec.layout == "VK" else drawn.transpose(-1, -2)


_WORD = 0xFFFFFFFF


def _product(x: Tensor, multiplier: int) -> tuple[Tensor, Tensor]:
    """(high, low) words of a 64-bit product, which int64 does not hold."""
    low_half = (x & 0xFFFF) * multiplier
    high = ((x >> 16) * multiplier + (low_half >> 16)) >> 16
    return high, (x * multiplier) & _WORD
