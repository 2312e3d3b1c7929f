"""The tensors of a pool, and what happens to rows between steps: reset, load, fork, materialize."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from kvbuffer_codegen.ir.forms import KernelSpec
from kvbuffer_codegen.ir.signature import FAULT, FAULT_LENGTH, KV_ONLY, WINDOW, WRITES, cursor_rows
from kvbuffer_codegen.runtime.arguments import TORCH_DTYPES
from kvbuffer_codegen.runtime.errors import shown
from kvbuffer_codegen.runtime.reference import Tiles, note_strangers, put, rows_of, set_fault
from kvbuffer_codegen.runtime.storage import CHANNELS, ROWS, STATE, bits, stored


class Memory:
    """State [layers, P, HV, V, K] (KV: [.., K, V]), an 8-bit one with scales [layers, P, HV, V] and [layers, P, HV, K],
    one tensor per record field [layers, P, R, heads, (axis)], and int32 cursors [5 or 6, P + 1] (``ir.signature``), all
    on ``device``. ``seed``: of stochastic rounding, int32.

    ``records``: the scales, then the record fields. ``layers[i]``: layer i's state and records, as kernels take them.
    Indices are int64 tensors on the device; one that is out of range writes nothing, and is recorded as a fault where
    it is not -1. Nothing here reads the device, and nothing is recorded for a backward pass.
    """

    @torch.inference_mode(False)  # tensors made in inference mode could not be written outside it
    def __init__(
        self,
        spec: KernelSpec,
        layers: int,
        slots: int,
        heads: tuple[int, int],
        rows: int,
        device: torch.device,
        seed: int = 0,
    ):
        H, HV = heads
        tile = (spec.V, spec.K) if spec.layout == "VK" else (spec.K, spec.V)
        self.spec, self.slots, self.ring_rows = spec, slots, rows
        self.state = _padded((layers, slots, HV, *tile), TORCH_DTYPES[spec.state], device)
        widths = {ROWS: spec.V, CHANNELS: spec.K} if spec.scaled else {}
        self.scales = {name: _padded((layers, slots, HV, n), torch.float32, device) for name, n in widths.items()}
        self.fields = {}
        for f in spec.record_layout.fields:
            shape = (layers, slots, rows, H if f.heads == "key" else HV)
            dtype = TORCH_DTYPES[f.stored(spec.io)]
            make = _padded if f.axis else _zeros
            self.fields[f.name] = make((*shape, *spec.wide(f.axis)), dtype, device)
        self.by_slot = {STATE: self.state, **self.scales}
        self.records = [*self.scales.values(), *self.fields.values()]
        self.cursors = torch.zeros(cursor_rows(spec), slots + 1, dtype=torch.int32, device=device)
        if spec.stochastic:
            self.cursors[WRITES, -1] = seed
        self.cursors[KV_ONLY, :-1] = int(spec.kv_only > 0)
        self.layers = [(self.state[i], [x[i] for x in self.records]) for i in range(layers)]

    @property
    def nbytes(self) -> int:
        return sum(t.untyped_storage().nbytes() for t in (self.state, *self.records, self.cursors))

    def indices(self, slots: int | Sequence[int] | Tensor, name: str = "slots") -> Tensor:
        """``slots`` as int64 [n] on the device; numbers are checked here and copied without a sync."""
        if isinstance(slots, Tensor):
            plain = slots.layout is torch.strided and slots.device == self.cursors.device
            if not plain or slots.dim() != 1 or slots.dtype not in (torch.int32, torch.int64):
                raise ValueError(
                    f"{name} is {slots.dtype} of shape {tuple(slots.shape)}, {slots.layout}, on {slots.device}; "
                    f"accepted: int32 or int64 of one axis on {self.cursors.device}, an int, or a list of ints"
                )
            return slots.long()
        if not isinstance(slots, int | Sequence) or isinstance(slots, str | bytes):
            raise TypeError(f"{name}={shown(slots)}; accepted: an int, a list of ints, or an int32 or int64 tensor")
        numbers = [slots] if isinstance(slots, int) else list(slots)
        for number in numbers:
            if isinstance(number, bool) or not isinstance(number, int) or not -1 <= number < self.slots:
                raise IndexError(f"{name}={shown(number)}; accepted: 0 to {self.slots - 1}, or -1 for none")
        made = [torch.full((1,), number, dtype=torch.int64, device=self.cursors.device) for number in numbers]
        return torch.cat(made) if made else torch.empty(0, dtype=torch.int64, device=self.cursors.device)

    @torch.no_grad()
    def reset(self, slots: Tensor, rings: Tensor) -> None:
        """Zero state, ring, cursors and faults; kv_only rows again where the pool has them."""
        slot, ring, valid = self._resolve(slots, rings)
        if not len(slot):
            return
        by_slot = [(x, slot) for x in self.by_slot.values()]
        for tensor, index in (*by_slot, *((field, ring) for field in self.fields.values())):
            rows = bits(tensor).transpose(0, 1)
            put(
                rows,
                (index,),
                torch.zeros((), dtype=rows.dtype, device=rows.device).expand(len(slot), *rows.shape[1:]),
                valid,
            )
        cursors = torch.zeros(len(slot), len(self.cursors), dtype=torch.int32, device=slot.device)
        cursors[:, KV_ONLY] = int(self.spec.kv_only > 0)
        put(self.cursors.T, (slot,), cursors, valid)

    @torch.no_grad()
    def load(self, slots: Tensor, states: Tensor, layer: int | None = None) -> None:
        """States [layers, n, HV, V, K] of any float dtype, saturated to the pool's, or [n, HV, V, K] of one layer; the
        rows' rings are left empty."""
        slot, _, valid = self._resolve(slots, slots)
        if not len(slot):
            return
        for name, x in stored(states.float(), self.state.dtype).items():
            x = x.transpose(-1, -2) if name == STATE and self.spec.layout == "KV" else x
            if layer is None:
                put(self.by_slot[name].transpose(0, 1), (slot,), x.transpose(0, 1), valid)
            else:
                put(self.by_slot[name][layer], (slot,), x, valid)
        put(
            self.cursors.T,
            (slot,),
            torch.zeros(len(slot), len(self.cursors), dtype=torch.int32, device=slot.device),
            valid,
        )

    def fork(self, sources: Tensor, targets: Tensor) -> None:
        """Copy state, ring and cursors, as they were before the call; a source with an open window copies nothing."""
        source, _, valid = self._resolve(sources, sources)
        target, _, into = self._resolve(targets, targets)
        if not len(source):
            return
        mask = valid & into & (self.cursors[WINDOW][source] == 0)
        for tensor in (self.state, *self.records):
            rows = bits(tensor).transpose(0, 1)
            put(rows, (target,), rows[source], mask)
        for kept in (self.cursors[:FAULT], self.cursors[WRITES:]):
            put(kept.T, (target,), kept[:, source].T, mask)

    @torch.no_grad()
    def materialize(self, slots: Tensor, rings: Tensor, back: int, parameters: Mapping[str, Tensor]) -> Tensor:
        """States [layers, n, HV, V, K], float32, without their newest ``back`` records; NaN and a fault where a row has
        fewer."""
        result = []
        for layer, (state, records) in enumerate(self.layers):
            given = {
                STATE: state,
                **dict(zip((*self.scales, *self.fields), records, strict=True)),
                "cursors": self.cursors,
                "slots": slots,
            }
            given |= {"rings": rings, **{name: x[layer] for name, x in parameters.items()}}
            rows = rows_of(given, self.spec)
            set_fault(self.cursors, rows.slot, rows.valid & (rows.count < back), FAULT_LENGTH)
            short = (rows.count < back)[:, None, None, None]
            rows.count.sub_(back)
            result.append(torch.where(short, float("nan"), Tiles(self.spec, given, rows).exact))
        return torch.stack(result)

    def _resolve(self, slots: Tensor, rings: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(slot, ring, valid), with 0 for slot and ring where a row is invalid."""
        valid = torch.ones_like(slots, dtype=torch.bool)
        for index in (slots, rings):
            inside = (index >= 0) & (index < self.slots)
            if len(index):
                note_strangers(self.cursors, index, ~inside & (index != -1))
            valid &= inside
        return torch.where(valid, slots, 0), torch.where(valid, rings, 0), valid


def _zeros(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.zeros(shape, dtype=dtype, device=device)


def _padded(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Zeros whose innermost rows begin at multiples of 16 bytes."""
    width = -(-shape[-1] * dtype.itemsize // 16) * 16 // dtype.itemsize
    return torch.zeros(*shape[:-1], width, dtype=dtype, device=device)[..., : shape[-1]]
