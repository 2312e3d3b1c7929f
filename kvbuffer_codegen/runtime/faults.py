"""Faults: what kernels find wrong in values that only the device sees, set as bits in a row of the cursors."""

from __future__ import annotations

from torch import Tensor

from kvbuffer_codegen.ir.signature import (
    BASE,
    FAULT,
    FAULT_ACCEPTED,
    FAULT_LENGTH,
    FAULT_PARENT,
    FAULT_PATH,
    FAULT_SLOT,
    FAULT_TARGET,
)

TEXTS = {
    FAULT_SLOT: "a slot or ring out of range (kernels leave such a row alone)",
    FAULT_LENGTH: "a length out of 0..T (counts as 0), or a materialize further back than the row's records",
    FAULT_ACCEPTED: "an accepted count out of 0..t (counts as 0)",
    FAULT_PARENT: "a tree that is not topologically ordered: parents[t] out of -1..t-1 (its length counts as 0)",
    FAULT_PATH: "a path that is not a child of the history, a child of that, and so on (accepted counts as 0)",
    FAULT_TARGET: "a dst out of range, or the row's own slot (nothing is written)",
}


class FaultError(RuntimeError):
    """``faults`` maps slots (None: a row whose slot or ring is none of the pool's) to bits."""

    def __init__(self, faults: dict[int | None, int], text: str) -> None:
        self.faults = faults
        super().__init__(text)


def take(cursors: Tensor) -> FaultError | None:
    """Wait for the device; what was found since the last call, which this clears, or None."""
    bits = cursors[FAULT].tolist()
    if not any(bits):
        return None
    slots, index = len(bits) - 1, int(cursors[BASE, -1])
    cursors[FAULT].zero_()
    cursors[BASE, -1] = 0
    found = {slot if slot < slots else None: b for slot, b in enumerate(bits) if b}
    nearest = {2**31 - 1: "of 2147483647 or above", -(2**31): "of -2147483648 or below"}.get(index, str(index))
    where = {slot: f"index {nearest}" if slot is None else f"slot {slot}" for slot in found}
    lines = [f"{where[slot]}: {text}" for slot, b in found.items() for bit, text in TEXTS.items() if b & bit]
    accepted = f"slots and rings 0 to {slots - 1} or -1, lengths 0 to T, accepted 0 to the row's length"
    return FaultError(found, f"{'; '.join(lines)}; accepted: {accepted}")
