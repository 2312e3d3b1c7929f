"""States as they are stored, in torch: ``ir.storage`` on tensors. Nothing here reads the device."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from kvbuffer_codegen.ir.forms import SCALED
from kvbuffer_codegen.ir.storage import FORMATS, HALF, LARGEST, LEAST_SCALE

#: Tensors of a state, as kernels call them; the scales where it is 8-bit.
STATE, ROWS, CHANNELS = "state", "state_rows", "state_channels"


def stored(states: Tensor, dtype: torch.dtype) -> dict[str, Tensor]:
    """float32 ``states`` [..., V, K] in ``dtype``, by tensor; what is out of its range becomes its largest value."""
    name = str(dtype).removeprefix("torch.")
    if name in SCALED:
        return _scaled(states, dtype, name)
    largest = torch.finfo(dtype).max
    return {STATE: states.clamp(-largest, largest).to(dtype)}


def values(parts: Mapping[str, Tensor]) -> Tensor:
    """What ``parts`` of a state are worth, in float32: the inverse of :func:`stored`."""
    codes = parts[STATE].float()
    return codes * parts[ROWS].unsqueeze(-1) * parts[CHANNELS].unsqueeze(-2) if ROWS in parts else codes


def bits(x: Tensor) -> Tensor:
    """``x``, or its bytes where it is float8: torch indexes no such tensor."""
    return x.view(torch.uint8) if x.dtype is torch.float8_e4m3fn else x


def _scaled(states: Tensor, dtype: torch.dtype, name: str) -> dict[str, Tensor]:
    largest, top = LARGEST[name], FORMATS[name].largest
    states = torch.where(states > -largest, states, -largest).clamp(max=largest)  # NaN: as the kernels' comparisons do
    channels = _scale(states.abs().amax(-2))
    flat = states * _inverse(channels, 1.0).unsqueeze(-2)
    rows = _scale(flat.abs().amax(-1))
    codes = on_grid(flat * _inverse(rows, top).unsqueeze(-1), name)
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
