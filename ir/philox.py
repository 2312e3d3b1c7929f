"""The random numbers of stochastic rounding: Philox 4x32-10 (Salmon et al., SC 2011, "Parallel random numbers: as easy
as 1, 2, 3"), a function of where a state element lies and of how often its row was written.

Key: (seed, 0). Counter: (group, value head, writes, 0), group numbering four neighbours along the contiguous axis of
the tile; word i of a block belongs to the i-th of them. Neither slot nor layer nor batch position takes part, so that
a request's states are a function of its tokens and the pool's seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .oracle import F64
from .storage import FORMATS

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
WORDS = 4  #: of 32 bits, in a block
_LOW = np.uint64(0xFFFFFFFF)


def philox(counter: Sequence[Any], key: tuple[int, int]) -> list[npt.NDArray[np.uint64]]:
    """The four words, 32 bits each, of every block; ``counter``: four integer arrays that broadcast."""
    x = [np.asarray(c).astype(np.uint64) & _LOW for c in counter]
    for i in range(ROUNDS):
        k = [np.uint64((key[j] + i * WEYL[j]) & 0xFFFFFFFF) for j in (0, 1)]
        a, b = x[0] * np.uint64(MULTIPLIERS[0]), x[2] * np.uint64(MULTIPLIERS[1])
        x = [(b >> np.uint64(32)) ^ x[1] ^ k[0], b & _LOW, (a >> np.uint64(32)) ^ x[3] ^ k[1], a & _LOW]
    return x


def offsets(dtype: str, layout: str, shape: tuple[int, int, int], seed: int, writes: int) -> F64:
    """What stochastic rounding adds to each element of states ``shape`` [HV, V, K] before the fraction is dropped, in
    [0, 1), for the write after ``writes`` others."""
    HV, V, K = shape
    lines, width = (V, K) if layout == "VK" else (K, V)
    groups = -(-width // WORDS)
    group = np.arange(lines)[:, None] * groups + np.arange(groups)
    words = philox((group, np.arange(HV)[:, None, None], writes, 0), (seed & 0xFFFFFFFF, 0))
    drawn = np.stack(np.broadcast_arrays(*words), -1).reshape(HV, lines, groups * WORDS)[..., :width]
    bits = FORMATS[dtype].random
    made = (drawn >> np.uint64(32 - bits)).astype(np.float64) / 2.0**bits
    return made if layout == "VK" else made.swapaxes(1, 2)
