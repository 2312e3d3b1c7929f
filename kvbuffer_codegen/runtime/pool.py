"""A pool of recurrent states with their buffers: slots, layers and the order of calls of a decoding engine.

    pool = Pool("gated_delta_rule", layers=36, slots=256, heads=(16, 32), dims=(128, 128), io=torch.bfloat16)
    slot = pool.alloc()
    pool.load(slot, states)                              # the prefill's final states, or reset and ingest
    for layer in range(36):
        out = pool.decode(layer, slots, q=q, k=k, v=v, a=a, b=b, A_log=A_log, dt_bias=dt_bias)
    pool.advance(slots)                                  # once for all layers

Calls on the way of a token (decode, step, verify, advance, commit) neither read the device nor branch on what is
there, and allocate nothing where `out` is given: they capture in a CUDA graph and trace under
`torch.compile(fullgraph=True)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from kvbuffer_codegen.ir.forms import MOST_TOKENS, KernelSpec, ring_rows
from kvbuffer_codegen.ir.language import Recurrence
from kvbuffer_codegen.ir.normal_form import NormalForm
from kvbuffer_codegen.ir.signature import ADVANCE_FORMS, COUNT, FAULT, WINDOW, TensorArg, signature
from kvbuffer_codegen.runtime import faults, ops
from kvbuffer_codegen.runtime.arguments import (
    TORCH_DTYPES,
    batch_of,
    channel_counts,
    dtype_name,
    flags,
    head_counts,
    normal_form,
    pool_device,
    several,
    tensors,
    whole,
    words,
)
from kvbuffer_codegen.runtime.errors import shown
from kvbuffer_codegen.runtime.lookup import Lookup
from kvbuffer_codegen.runtime.memory import Memory
from kvbuffer_codegen.runtime.order import Order, OrderError
from kvbuffer_codegen.runtime.reference_trees import bad_parents


class Pool:
    """States and buffers of ``slots`` requests over ``layers`` layers, and the kernels that work on them.

    recurrence: a name that ships, a ``Recurrence`` or a ``NormalForm``. heads: (H key heads, HV value heads). dims:
    (K, V). io: dtype of inputs and outputs (float32, bfloat16, float16). state: dtype of the stored state, one of
    these, or int8 or float8_e4m3fn with a float32 scale per value row and per key channel. records: "exact", or left
    vectors of the buffer in bfloat16 ("bf16") or as two of them each ("hilo"). rounding: "nearest", or "stochastic"
    where folds and steps write a 16-bit or 8-bit state, by ``seed`` (32 bits) and how often a row was written since its
    reset or load: the same seed and tokens give the same bits in any slot and batch. buffer: L, the records
    at which a row folds. max_window: most tokens of one verify, 1 to 64; a chain has up to 16, a tree of drafts up to
    64. kv_only: C, 0 for none: rows start without a checkpoint and keep up to C records before their first fold.
    layout: "VK" or "KV", how states lie in memory; states given and returned are [.., HV, V, K] in either case. form:
    what :meth:`decode` runs, "auto", "decode" or "step". strict: a kernel must be among the listed artifacts, else
    LookupError; otherwise a missing one falls back to torch with a warning. batch_invariant: one kernel per form
    whatever the batch. debug: every call checks for faults, repeated slots and open windows (syncs).

    ``slots`` of a call: int32 or int64 [B]; ``rings`` likewise, default
    ``slots``; -1 in either leaves the row alone. ``inputs``: the recurrence's arguments by name: [B, ...] in decode
    and step, [B, T, ...] in verify; parameters as the recurrence declares them. Raises ValueError, IndexError or
    TypeError for arguments, OrderError for calls out of order, always before anything is launched or touched. One
    pool serves one thread.
    """

    def __init__(
        self,
        recurrence: str | Recurrence | NormalForm,
        *,
        layers: int,
        slots: int,
        heads: tuple[int, int],
        dims: tuple[int, int],
        io: torch.dtype | str = torch.bfloat16,
        state: torch.dtype | str = torch.float32,
        buffer: int = 16,
        max_window: int = 8,
        kv_only: int = 0,
        layout: str = "VK",
        records: str = "exact",
        rounding: str = "nearest",
        seed: int = 0,
        device: torch.device | str | None = None,
        form: str = "auto",
        strict: bool = False,
        batch_invariant: bool = False,
        debug: bool = False,
    ) -> None:
        for name, number in (("layers", layers), ("slots", slots), ("buffer", buffer), ("max_window", max_window)):
            whole(number, name, 1)
        words(layout=layout, records=records, rounding=rounding, form=form)
        flags(strict=strict, batch_invariant=batch_invariant, debug=debug)
        self.heads = H, HV = head_counts(heads)
        self.dims = K, V = channel_counts(dims)
        self.recurrence = normal_form(recurrence)
        fields: dict[str, Any] = {
            "recurrence": self.recurrence,
            "K": K,
            "V": V,
            "ratio": HV // H,
            "io": dtype_name(io, "io"),
            "state": dtype_name(state, "state"),
            "records": records,
            "layout": layout,
            "buffer": buffer,
            "kv_only": whole(kv_only, "kv_only"),
            "rounding": rounding,
        }
        if type(seed) is not int or not -(2**31) <= seed < 2**31:
            raise ValueError(f"seed={shown(seed)}; accepted: a whole number of 32 bits, -2147483648 to 2147483647")
        flush = KernelSpec("flush", **fields)  # refuses what no kernel can be
        try:
            KernelSpec("verify", window=max_window, tree=max_window > MOST_TOKENS, **fields)
        except ValueError as error:  # window: the rest is the same
            raise ValueError(f"max_{error}") from None
        self.layers, self.slots, self.device = layers, slots, pool_device(device)
        self.io, self.state = TORCH_DTYPES[flush.io], TORCH_DTYPES[flush.state]
        self.buffer, self.max_window, self.kv_only, self.debug = buffer, max_window, kv_only, debug
        self.rows = ring_rows(buffer, kv_only, max_window)
        self._lookup = Lookup(fields, self.device, self.heads, form, strict, batch_invariant)
        self._memory = Memory(flush, layers, slots, self.heads, self.rows, self.device, seed)
        self._cursors, self._layers = self._memory.cursors, self._memory.layers
        self._order = Order(layers)
        self._parents: Tensor | None = None  # of the open window, where it is a tree
        self._arguments = tuple(a.name for a in self.recurrence.arguments)
        self._per_token = next(a.name for a in self.recurrence.arguments if not a.parameter)
        self._flush_arguments = tuple(
            a.name for a in signature(flush) if isinstance(a, TensorArg) and a.role == "parameter"
        )
        with torch.inference_mode(False):
            self._full = torch.arange(max_window + 1, dtype=torch.int32, device=self.device)
        self._free = list(reversed(range(slots)))
        self._live: set[int] = set()

    # --- a token

    def decode(
        self, layer: int, slots: Tensor, *, out: Tensor | None = None, rings: Tensor | None = None, **inputs: Tensor
    ) -> Tensor:
        """One token of every row in one layer: outputs [B, HV, V]. Runs the form that is faster here for this batch
        (``Pool(form=)`` fixes it): buffered decode, which appends a record and folds full rows, or step."""
        form = self._order.token_form or self._lookup.token_form(batch_of(slots))
        return self._token(form, layer, slots, out, rings, inputs)

    def step(
        self, layer: int, slots: Tensor, *, out: Tensor | None = None, rings: Tensor | None = None, **inputs: Tensor
    ) -> Tensor:
        """One token, recurrent: pending records are folded and the state is written. Outputs [B, HV, V]."""
        return self._token("step", layer, slots, out, rings, inputs)

    def verify(
        self,
        layer: int,
        slots: Tensor,
        *,
        lengths: Tensor | None = None,
        parents: Tensor | None = None,
        out: Tensor | None = None,
        rings: Tensor | None = None,
        **inputs: Tensor,
    ) -> Tensor:
        """A window of T tokens of every row (the last accepted one and T - 1 drafts), T <= max_window: outputs
        [B, T, HV, V]. Its records count only from :meth:`commit` on.

        lengths: int32 or int64 [B], each row's own number of tokens, 0..T; default T. Outputs past it are zero.
        parents: int32 or int64 [B, T], makes the window a tree of up to 64 nodes: node t follows node parents[b, t], a
        node before it, or with -1 the committed history, and sees its ancestors alone. Without it a window is a chain
        of up to 16. Give every layer the same, and leave it as it is until commit. A tree that is not ordered so is a
        ValueError on a CPU; on a GPU it is a fault, and the row's length counts as 0.
        """
        if (self._parents is None) != (parents is None) and not self._order.between:
            began = "a chain" if self._parents is None else "a tree"
            raise OrderError(
                f"verify of layer {layer}: this window began as {began}; give every layer the same parents"
            )
        if parents is not None:
            self._check_tree(slots, lengths, parents)
        made = self._token("verify", layer, slots, out, rings, inputs, lengths, parents)
        self._parents = parents
        return made

    def advance(self, slots: Tensor) -> None:
        """Apply a token step, decode or step, for all layers: call it once after the last layer."""
        form = self._order.before_closing("advance", batch_of(slots))
        self._advance(slots, form)
        self._close()

    def commit(self, slots: Tensor, accepted: Tensor, path: Tensor | None = None, rings: Tensor | None = None) -> None:
        """Accept the first ``accepted`` (int32 or int64 [B]) tokens of every row's window, for all layers; it closes.

        path: int32 or int64 [B, D], for trees: the nodes to accept, a child of the history, a child of that, and so on;
        what lies behind the first ``accepted`` is not read. Their records are moved together: ``rings`` as in verify.
        A path that is none, or longer than max(buffer, kv_only, 16), counts as 0 accepted and sets a fault.
        A count out of 0..t counts as 0 and sets a fault. A row without a window (reset meanwhile, say) is left alone,
        whatever its count.
        """
        self._order.before_closing("commit", batch_of(slots))
        tensors(accepted=accepted)
        if (path is None) != (self._parents is None):
            window = "a chain; accepted: None" if self._parents is None else "a tree; accepted: its nodes, [B, D]"
            raise OrderError(f"commit: path is {'missing' if path is None else 'given'} and the window was {window}")
        if path is None:
            self._commit(slots, accepted)
        else:
            tensors(path=path, rings=slots if rings is None else rings)
            self._commit_path(slots, slots if rings is None else rings, accepted, path, self._parents)
        self._parents = None
        self._close()

    # --- the life of a row

    def alloc(self) -> int:
        """A slot that nobody has, reset: no state, no records. Raises RuntimeError where none is left."""
        if not self._free:
            raise RuntimeError(f"all {self.slots} slots are taken; free one, or make the pool with more slots")
        slot = self._free.pop()
        self._live.add(slot)
        index = self._memory.indices(slot)
        self._memory.reset(index, index)
        return slot

    def free(self, slot: int) -> None:
        """Give a slot back; pending records and an open window are dropped with it. Raises ValueError where it was not
        taken."""
        if type(slot) is not int or slot not in self._live:
            raise ValueError(f"slot={shown(slot)} is not taken; accepted: what alloc returned and free has not had yet")
        self._live.remove(slot)
        self._free.append(slot)

    def reset(self, slots: int | Sequence[int] | Tensor, rings: int | Sequence[int] | Tensor | None = None) -> None:
        """Empty rows: state and records become zero, faults are cleared, pending records and an open window are
        dropped; rows are kv_only again where the pool has that.

        It also gives up a step that was broken off between layers: reset every row of that step, as some layers have
        folded or written and others have not. After a step that all layers ran, the other rows can still be committed.
        """
        index = self._memory.indices(slots)
        ring = index if rings is None else self._memory.indices(rings, "rings")
        if len(ring) != len(index):
            raise ValueError(f"rings has {len(ring)} rows, slots {len(index)}; accepted: one ring for each slot")
        self._memory.reset(index, ring)
        self._order.give_up()

    def load(
        self,
        slots: int | Sequence[int] | Tensor,
        states: Tensor,
        layer: int | None = None,
        layout: Literal["VK", "KV"] = "VK",
    ) -> None:
        """Set the states of a row, [layers, HV, V, K] of any float dtype (a prefill's final states), or of n rows,
        [layers, n, HV, V, K]. Pending records and an open window are dropped, a kv_only row becomes an ordinary one,
        values out of the state dtype's range saturate. layout: "KV" where the given states are [.., HV, K, V], as
        prefill kernels of FLA and Transformers return them; how the pool keeps them is its own.

        layer: set that layer's states only, [HV, V, K] or [n, HV, V, K], as a prefill that goes through the layers has
        them. Load every layer of a row, each before it runs; within a step too, so that a prompt's end can be a window.
        """
        if layer is None:
            self._order.between_steps("load", window_ok=True)
        else:
            self._order.before_load(layer)
        index = self._memory.indices(slots)
        axes = {} if layer is not None else {"layers": self.layers}
        axes |= {} if isinstance(slots, int) else {"n": len(index)}
        if layout not in ("VK", "KV"):
            raise ValueError(f"layout={layout!r}; accepted: VK (states [.., HV, V, K]), KV (states [.., HV, K, V])")
        axes |= {"HV": self.heads[1], **{axis: self.dims["KV".index(axis)] for axis in layout}}
        shape = tuple(axes.values())
        if not isinstance(states, Tensor) or states.shape != shape or not states.is_floating_point():
            given = f"{states.dtype} {tuple(states.shape)}" if isinstance(states, Tensor) else f"of type {type(states)}"
            raise ValueError(f"states is {given}; accepted: a float tensor [{', '.join(axes)}] = {shape}")
        if states.device != self.device:
            raise ValueError(f"states is on {states.device}; accepted: {self.device}, use .to()")
        states = states if layout == "VK" else states.transpose(-1, -2)
        self._memory.load(index, states.unsqueeze(-4) if isinstance(slots, int) else states, layer)

    def ingest(self, slot: int, **inputs: Tensor) -> Tensor:
        """Feed a row N tokens of all layers at once, as verify windows with full commits: outputs [layers, N, HV, V].

        Every input has a leading layer axis: [layers, N, ...], parameters [layers, ...]. A model, whose layer l + 1
        needs the output of layer l, calls verify and commit window by window instead; that is all this does. Pending
        records stay and are folded as the buffer fills; a kv_only row stays one up to its capacity.
        """
        self._order.between_steps("ingest")
        self._in_order(self._arguments, inputs)
        parameters = {a.name for a in self.recurrence.arguments if a.parameter}
        tokens = inputs[self._per_token].shape[1] if inputs[self._per_token].dim() > 1 else 0
        for name, x in inputs.items():
            lead = (self.layers,) if name in parameters else (self.layers, tokens)
            if x.shape[: len(lead)] != lead:
                axes = "[layers, ...]" if name in parameters else f"[layers, N, ...], N as in {self._per_token},"
                raise ValueError(f"{name} has shape {tuple(x.shape)}; accepted: {axes} beginning with {lead}")
        slots, T = self._row(slot, "slot"), min(self.max_window, MOST_TOKENS)
        out = torch.empty(self.layers, tokens, self.heads[1], self.dims[1], dtype=self.io, device=self.device)
        for start in range(0, tokens, T):
            length = min(T, tokens - start)
            lengths = torch.full((1,), length, dtype=torch.int32, device=self.device)
            for layer in range(self.layers):
                window = {
                    name: x[layer] if name in parameters else _window(x[layer, start : start + length], T)
                    for name, x in inputs.items()
                }
                out[layer, start : start + length] = self.verify(layer, slots, lengths=lengths, **window)[0, :length]
            self.commit(slots, lengths)
        return out

    def fork(self, src: int | Sequence[int] | Tensor, dst: int | Sequence[int] | Tensor) -> None:
        """Copy rows: state, pending records and cursors, so ``dst`` continues exactly where ``src`` is. What ``dst``
        held is gone. A ``src`` with an open window copies nothing: commit it first. Both index state and rings."""
        self._order.between_steps("fork", window_ok=True)
        sources, targets = self._memory.indices(src, "src"), self._memory.indices(dst, "dst")
        if len(sources) != len(targets):
            raise ValueError(f"dst has {len(targets)} slots, src {len(sources)}; accepted: one dst for each src")
        self._memory.fork(sources, targets)

    copy = fork

    def flush(
        self, slots: Tensor, dst: Tensor | None = None, rings: Tensor | None = None, **parameters: Tensor
    ) -> None:
        """Fold the pending records of rows, however many, into their states, all layers in one launch; kv_only rows
        that hold records become ordinary ones. ``parameters``: those that stored decays need, [layers, ...] (none for
        most recurrences).

        dst: int32 or int64 [B], second slots: the folded states go there, each an ordinary row without records from
        then on, and the rows stay exactly as they are, so that a prefix can be published while its request goes on. -1:
        that row is left alone. A dst out of range or equal to its row's slot sets a fault; one that is another row's
        slot or given twice is looked for in debug mode only, and leaves that slot's content undefined.
        """
        self._order.between_steps("flush")
        ordered = self._in_order(self._flush_arguments, parameters)
        form = "flush" if dst is None else "publish"
        name, memory = self._lookup.kernel(form, batch_of(slots)), self._memory
        rings = slots if rings is None else rings
        tensors(rings=rings, dst=slots if dst is None else dst)
        if self.debug:
            self._check_slots(slots, rings)
            if dst is not None:
                self._check_targets(slots, dst)
        ops.flush(name, memory.state, memory.records, self._cursors, slots, rings, ordered, dst)
        if dst is None:
            self._advance(slots, "flush")
        if self.debug:
            self.check()

    def materialize(self, slot: int, back: int = 0, ring: int | None = None, **parameters: Tensor) -> Tensor:
        """The row's states ``back`` committed tokens ago, float32 [layers, HV, V, K]; nothing is changed, pending
        records stay. ``back`` reaches to the last fold: further back gives NaN and a fault. ``parameters`` as in
        :meth:`flush`."""
        self._order.between_steps("materialize")
        self._in_order(self._flush_arguments, parameters)
        most = self.rows - self.max_window
        if isinstance(back, bool) or not isinstance(back, int) or not 0 <= back <= most:
            raise ValueError(f"back={shown(back)}; accepted: 0 to {most}, the most records that a row holds")
        slots = self._row(slot, "slot")
        rings = slots if ring is None else self._row(ring, "ring")
        return self._memory.materialize(slots, rings, back, parameters)[:, 0]

    # --- the pool

    @property
    def nbytes(self) -> int:
        """Bytes of device memory that the pool holds: states, rings, cursors."""
        return self._memory.nbytes

    @property
    def pending(self) -> Tensor:
        """int32 [slots]: committed records of each slot that are not folded into its state yet."""
        return self._cursors[COUNT, :-1]

    @property
    def faults(self) -> Tensor:
        """int32 [slots + 1]: bits that kernels set for wrong values; the last entry is for indices out of range."""
        return self._cursors[FAULT]

    def check(self) -> None:
        """Wait for the device and raise :class:`~kvbuffer_codegen.runtime.faults.FaultError` for what kernels found
        wrong since the last check, which clears it. The one call that syncs."""
        error = faults.take(self._cursors)
        if error is not None:
            raise error

    def warmup(
        self,
        batch: int | Sequence[int] = 1,
        windows: Sequence[int] | None = None,
        trees: Sequence[int] = (),
        publish: bool = False,
    ) -> None:
        """Load the kernels of every form for these batch sizes, verify for these window lengths (default: max_window,
        at most 16), for trees of these numbers of nodes, with their commit, and flush into second slots where
        ``publish``; and run each once on rows of -1, so that a graph capture loads nothing. Rows are not touched."""
        self._order.between_steps("warmup")
        sizes = several(batch, "batch")
        most = min(self.max_window, MOST_TOKENS)
        lengths_of, trees_of = several(most if windows is None else windows, "windows", 1), several(trees, "trees", 1)
        if max(lengths_of, default=1) > most:
            raise ValueError(f"windows={shown(windows)}; accepted: each from 1 to max_window={most}")
        if max(trees_of, default=1) > self.max_window:
            raise ValueError(f"trees={shown(trees)}; accepted: each from 1 to max_window={self.max_window}")
        for size in sizes:
            nobody = torch.full((size,), -1, dtype=torch.int32, device=self.device)
            for form in ("decode", "step"):
                self._launch(form, 0, nobody, nobody, self._blank((size,)), self._empty((size,)))
                self._advance(nobody, form)
            for T in lengths_of:
                self._warm_window(nobody, T, None)
            for T in trees_of:
                parents = torch.full((size, T), -1, dtype=torch.int32, device=self.device)
                self._warm_window(nobody, T, parents)
                self._commit_path(nobody, nobody, torch.zeros_like(nobody), parents, parents)
            self._commit(nobody, torch.zeros_like(nobody))
            parameters = dict(zip(self._arguments, self._blank((size,)), strict=True))
            layered = {n: parameters[n].expand(self.layers, *parameters[n].shape) for n in self._flush_arguments}
            self.flush(nobody, **layered)
            if publish:
                self.flush(nobody, nobody, **layered)

    def _warm_window(self, nobody: Tensor, T: int, parents: Tensor | None) -> None:
        size = len(nobody)
        out, lengths = self._empty((size, T)), self._lengths(T, size)
        self._launch("verify", 0, nobody, nobody, self._blank((size, T)), out, T, lengths, parents)

    # --- inside

    def _token(
        self,
        form: str,
        layer: int,
        slots: Tensor,
        out: Tensor | None,
        rings: Tensor | None,
        inputs: dict[str, Tensor],
        lengths: Tensor | None = None,
        parents: Tensor | None = None,
    ) -> Tensor:
        batch, window = batch_of(slots), 0
        self._order.before_layer(form, layer, batch)
        ordered = self._in_order(self._arguments, inputs)
        if form == "verify":
            window = self._window_of(inputs[self._per_token], parents is not None)
            lengths = self._lengths(window, batch) if lengths is None else lengths
        rings = slots if rings is None else rings
        if out is None:
            out = self._empty((batch, window) if window else (batch,))
        tensors(rings=rings, out=out, lengths=slots if lengths is None else lengths)
        if self.debug:
            self._check_slots(slots, rings)
        self._launch(form, layer, slots, rings, ordered, out, window, lengths, parents)
        self._order.after_layer(form, layer, batch)
        if self.debug:
            self.check()
        return out

    def _launch(
        self,
        form: str,
        layer: int,
        slots: Tensor,
        rings: Tensor,
        inputs: list[Tensor],
        out: Tensor,
        window: int = 0,
        lengths: Tensor | None = None,
        parents: Tensor | None = None,
    ) -> None:
        state, records = self._layers[layer]
        name = self._lookup.kernel(form, slots.shape[0], window, parents is not None)
        if form == "verify":
            ops.verify(name, state, records, self._cursors, slots, rings, lengths, inputs, out, parents)
        elif form == "decode":
            ops.decode(name, state, records, self._cursors, slots, rings, inputs, out)
        else:
            ops.step(name, state, records, self._cursors, slots, rings, inputs, out)

    def _close(self) -> None:
        self._order.close()
        if self.debug:
            self.check()

    def _advance(self, slots: Tensor, form: str) -> None:
        name = self._lookup.kernel("advance", batch_of(slots))
        ops.advance(name, self._cursors, slots, ADVANCE_FORMS[form], self.buffer, self.kv_only, self.rows)

    def _commit(self, slots: Tensor, accepted: Tensor) -> None:
        name = self._lookup.kernel("commit", batch_of(slots))
        ops.commit(name, self._cursors, slots, accepted, self.buffer, self.kv_only, self.rows)

    def _commit_path(
        self, slots: Tensor, rings: Tensor, accepted: Tensor, path: Tensor, parents: Tensor | None
    ) -> None:
        move, count = (self._lookup.kernel(form, batch_of(slots)) for form in ("compact", "commit_path"))
        ops.compact(move, self._memory.records, self._cursors, slots, rings, accepted, path, parents)
        sizes = (self.buffer, self.kv_only, self.rows)
        ops.commit_path(count, self._cursors, slots, accepted, path, parents, *sizes)

    def _check_tree(self, slots: Tensor, lengths: Tensor | None, parents: Tensor) -> None:
        """What the host sees of a tree: all of it on a CPU, where the first layer of a step looks."""
        batch_of(slots)
        tensors(parents=parents, lengths=slots if lengths is None else lengths)
        if parents.dim() != 2 or parents.is_floating_point():
            raise ValueError(
                f"parents is {parents.dtype} of shape {tuple(parents.shape)}; accepted: int32 or int64 [B, T]"
            )
        if parents.device.type != "cpu" or not self._order.between or torch.compiler.is_compiling():
            return
        plain = {(parents.shape[:1], parents.device, torch.strided, dtype) for dtype in (torch.int32, torch.int64)}
        rows = [x for x in (slots, lengths) if x is not None]
        if any((x.shape, x.device, x.layout, x.dtype) not in plain for x in rows):
            return  # the kernel refuses it by name
        wrong = bad_parents(parents, slots, lengths)
        if wrong is not None:
            b, t = wrong
            raise ValueError(
                f"parents[{b}, {t}] is {int(parents[b, t])}; accepted: -1 (the committed history), or a node before "
                f"{t}; number the nodes of a tree so that parents come first"
            )

    def _in_order(self, names: tuple[str, ...], given: dict[str, Tensor]) -> list[Tensor]:
        if len(given) == len(names):
            try:
                listed = [given[name] for name in names]
            except KeyError:
                pass
            else:
                if not all(isinstance(x, Tensor) for x in listed):
                    tensors(**given)
                return listed
        wrong = [f"{n} is missing" for n in names if n not in given]
        wrong += [f"{n} is not an argument" for n in given if n not in names]
        raise TypeError(f"inputs of {self.recurrence.name}: {', '.join(wrong)}; accepted: {', '.join(names) or 'none'}")

    def _window_of(self, x: Tensor, tree: bool) -> int:
        T = x.shape[1] if x.dim() > 1 else 0
        if not 1 <= T <= self.max_window:
            raise ValueError(
                f"{self._per_token} has shape {tuple(x.shape)}; accepted: [B, T, ...] with T of 1 to "
                f"max_window={self.max_window}; split the window, or make the pool with a larger max_window"
            )
        if T > MOST_TOKENS and not tree:
            raise ValueError(
                f"{self._per_token} has shape {tuple(x.shape)}; accepted: [B, T, ...] with T of 1 to {MOST_TOKENS} for "
                "a chain; split the window, or give the parents of a tree"
            )
        return T

    def _lengths(self, T: int, batch: int) -> Tensor:
        return self._full.as_strided((batch,), (0,), T)

    def _empty(self, shape: tuple[int, ...]) -> Tensor:
        return torch.empty(*shape, self.heads[1], self.dims[1], dtype=self.io, device=self.device)

    def _blank(self, lead: tuple[int, ...]) -> list[Tensor]:
        """Zeros for every argument of the recurrence."""
        sizes = {"K": self.dims[0], "V": self.dims[1], "key": self.heads[0], "value": self.heads[1]}
        made = []
        for a in self.recurrence.arguments:
            shape = (() if a.parameter else lead) + ((a.count,) if a.count else ()) + (sizes[a.heads],)
            dtype = torch.float32 if a.parameter else self.io
            made.append(torch.zeros(*shape, *((sizes[a.axis],) if a.axis else ()), dtype=dtype, device=self.device))
        return made

    def _row(self, index: int, name: str) -> Tensor:
        if type(index) is not int or index < 0:
            raise IndexError(f"{name}={shown(index)}; accepted: one row, 0 to {self.slots - 1}")
        return self._memory.indices(index, name)

    def _check_targets(self, slots: Tensor, dst: Tensor) -> None:
        sources, targets = set(slots.tolist()), [d for d in dst.tolist() if d >= 0]
        wrong = sorted({d for d in targets if d in sources or targets.count(d) > 1})
        if wrong:
            raise ValueError(f"dst holds {', '.join(map(str, wrong))}; accepted: each slot once, and none of slots")

    def _check_slots(self, slots: Tensor, rings: Tensor) -> None:
        for name, index in (("slots", slots), ("rings", rings)):
            listed = [s for s in index.flatten().long().tolist() if 0 <= s < self.slots]  # kernels check the dtype
            twice = sorted({s for s in listed if listed.count(s) > 1})
            if twice:
                raise ValueError(
                    f"{name} holds {', '.join(map(str, twice))} more than once; accepted: each once in a batch"
                )
        if self._order.between:
            windows = self._cursors[WINDOW].tolist()
            still = [s for s in slots.long().tolist() if 0 <= s < self.slots and windows[s]]
            if still:
                raise ValueError(f"slots {still} have an open window; accepted after commit, or reset of these rows")


def _window(x: Tensor, T: int) -> Tensor:
    """[1, T, ...]: the tokens of ``x`` and zeros after them."""
    padding = (0, 0) * (x.dim() - 1) + (0, T - x.shape[0])
    return torch.nn.functional.pad(x, padding).unsqueeze(0)
