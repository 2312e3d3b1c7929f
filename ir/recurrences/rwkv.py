"""RWKV-6 (arXiv 2404.05892, equation 19) and RWKV-7 (arXiv 2503.14456, equation 16).

RWKV-6 reads the state before the token and adds the token with a bonus ``u``; its decay is exp(-exp(w)) per channel.
RWKV-7 erases what it
read at ``kappa`` and writes along ``kappa * a``; its decay is exp(-e^{-1/2} sigmoid(w)) per channel.
Published shapes: 12 to 40 heads of 64 x 64.
"""

from __future__ import annotations

import math
from typing import Any

from ..language import Channel, HeadChannel, State, Value, dot, exp, l2norm, outer, recurrence, sigmoid


@recurrence
def rwkv6(S: State, r: Channel, k: Channel, v: Value, w: Channel, u: HeadChannel) -> Any:
    out = S @ r + dot(u * k, r) * v
    S = exp(-exp(w)) * S + outer(v, k)
    return S, out


@recurrence
def rwkv7(S: State, r: Channel, k: Channel, v: Value, w: Channel, a: Channel, kappa: Channel) -> Any:
    kappa = l2norm(kappa, eps=1e-12)
    erased = S @ kappa
    S = exp(-math.exp(-0.5) * sigmoid(w)) * S
    S = S - outer(erased, kappa * a) + outer(v, k)
    return S, S @ r
