"""Kernels that may be started while the one before them ends (CUDA C++ programming guide: programmatic dependent
launch).

The blocks of such a grid are placed as room becomes free. The first thing each does is to wait until the kernel in
front has ended and its writes can be seen, so nothing is read early: what is saved is the time between two kernels.
The last thing a block does is to give the next kernel leave. To give it at once would fill the multiprocessors that
end first with blocks of the next kernel: 7.8 us against 6.5 (float16 decode, 8 rows, H200).
"""

from __future__ import annotations

from typing import Any

import tilelang.language as T
from tilelang import tvm


def overlapped(device: Any) -> Any:
    """The device function with the wait in front and the leave behind."""
    wait, leave = tvm.tirx.Evaluate(T.pdl_sync()), tvm.tirx.Evaluate(T.pdl_trigger())
    return device.with_body(tvm.tirx.SeqStmt([wait, device.body, leave]))
