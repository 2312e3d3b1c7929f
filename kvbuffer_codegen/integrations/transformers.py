"""Qwen3-Next of Hugging Face Transformers on generated kernels.

    handle = attach(model)          # weights, full-attention layers and prefill stay the model's own
    model.generate(...)             # linear layers decode through a Pool of slots, ring and cursors
    handle.detach()

The seat is the cache layer. A hook at function level is stateless, but a ring of records and its cursors live from one
token to the next: each linear layer of a `Cache` is replaced by a `BufferedLayer` over rows of one `Pool` per cache,
and the forward of each `Qwen3NextGatedDeltaNet` is shadowed by an attribute of the instance. What a forward does then:

* no state yet, or more tokens than a window holds: the model's own forward; its final state is loaded into the pool;
* one token: `pool.decode` (or `step`), and `pool.advance` after the last linear layer;
* 2 .. max_window tokens: `pool.verify`. The window stays open: `cache.crop(-n)` drops its last n tokens,
  `handle.commit(cache, accepted)` takes another number in each row, and the next forward takes it whole.

With past recording on (`cache.activate_past_recording()`, as assisted generation does it), every forward leaves a
window open, so that `crop` works where Transformers' own linear layers refuse.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, get_args

import torch
from torch import Tensor
from transformers.cache_utils import Cache, LinearAttentionLayer

from kvbuffer_codegen.runtime import Pool


@contextmanager
def _kernels_that_run_here() -> Iterator[None]:
    """A model's module takes flash-linear-attention's Triton kernels when it is imported, also where no GPU is and they
    fail at the first token: there the package is hidden meanwhile."""
    if torch.cuda.is_available():
        yield
        return
    held = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "fla"}
    sys.modules.update({"fla": None})  # type: ignore[dict-item]  # what cannot be imported
    try:
        yield
    finally:
        del sys.modules["fla"]
        sys.modules.update(held)


with _kernels_that_run_here():
    from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextGatedDeltaNet

Form = Literal["auto", "decode", "step", "verify"]
RECURRENCE = "gated_delta_rule"
# What a cache layer of Transformers knows of its convolution.
CONV_FIELDS = (
    "conv_states",
    "is_conv_states_initialized",
    "has_previous_state",
    "conv_kernel_size",
    "device",
    "dtype",
)


class Rows:
    """The rows of one cache in a pool of their own: shared by its linear layers, which a forward calls in order.

    `window` is the number of tokens of the open window, 0 where none is open.
    """

    def __init__(self, pool: Pool, layers: int, batch: int, max_window: int, device: torch.device) -> None:
        self.pool, self.layers, self.max_window, self.window = pool, layers, max_window, 0
        # Of each layer of the open window: its convolution state [B, C, width], and that with the new columns after it.
        self.conv_windows: list[tuple[Tensor, Tensor]] = []
        self.slot_list = [pool.alloc() for _ in range(batch)]
        self.slots = torch.tensor(self.slot_list, dtype=torch.int32, device=device)
        self._snapshot: Tensor | None = None

    def load(self, index: int, states: Tensor) -> None:
        """Layer `index` starts from `states` [B, HV, V, K], rings empty. Load all layers, in order."""
        self.pool.load(self.slots, states, layer=index)
        if index == self.layers - 1:
            self._snapshot = None  # not before: the model's own forward loads a layer before it reads the next

    def pending(self) -> Tensor:
        """Records of each row that are not folded into its state yet, int32 [B]."""
        return self.pool.pending[self.slots]

    def states(self) -> Tensor:
        """Committed states of all layers, [layers, B, HV, V, K], with pending records folded in; the rows stay."""
        if self._snapshot is None:
            self._snapshot = torch.stack([self.pool.materialize(slot) for slot in self.slot_list], dim=1)
        return self._snapshot

    def run(self, index: int, windowed: bool, inputs: dict[str, Tensor]) -> Tensor:
        """One layer of a token step (inputs [B, ...]) or of a window (inputs [B, T, ...])."""
        self._snapshot = None
        last = index == self.layers - 1
        if windowed:
            tokens = inputs["v"].shape[1]
            out = self.pool.verify(
                index, self.slots, lengths=torch.full_like(self.slots, tokens), **self._widened(inputs)
            )
            self.window = tokens if last else self.window
            return out[:, :tokens]
        out = self.pool.decode(index, self.slots, **inputs)
        if last:
            self.pool.advance(self.slots)
        return out

    def _widened(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Window inputs padded to max_window tokens, so that one kernel serves windows of every length."""
        missing = self.max_window - inputs["v"].shape[1]
        return {
            name: torch.cat([x, x.new_zeros(len(x), missing, *x.shape[2:])], dim=1) if x.dim() > 1 and missing else x
            for name, x in inputs.items()
        }

    def commit(self, accepted: int | Tensor) -> None:
        """Closes the open window with its first `accepted` tokens (an int, or an integer tensor [B])."""
        if not isinstance(accepted, Tensor):
            if not 0 <= accepted <= self.window:
                raise ValueError(
                    f"accepted={accepted}: the open window has {self.window} tokens; give 0..{self.window}"
                )
            accepted = torch.full_like(self.slots, accepted)
        elif accepted.shape != self.slots.shape:
            raise ValueError(
                f"accepted has shape {tuple(accepted.shape)}; give one number for each of {len(self.slots)}"
            )
        self._snapshot = None
        self.pool.commit(self.slots, accepted)
        inside = (accepted >= 0) & (accepted <= self.window)  # as the pool reads it: a count out of range is 0
        first = torch.where(inside, accepted, 0).long()[:, None, None]
        for state, full in self.conv_windows:  # the columns that end with each row's last accepted token
            columns = first + torch.arange(state.shape[-1], device=state.device)
            state.copy_(full.gather(2, columns.expand(-1, full.shape[1], -1)))
        self.window, self.conv_windows = 0, []

    def settle(self) -> None:
        """Takes the open window, if there is one, whole."""
        if self.window:
            self.commit(self.window)

    def reorder(self, order: list[int]) -> None:
        """Row b becomes a copy of what row order[b] was (beam search)."""
        for index, states in enumerate(self.states()[:, order]):
            self.load(index, states)

    def reset(self) -> None:
        """Empties states, rings and cursors; ends a step or window that was broken off between layers, too."""
        self.window, self.conv_windows, self._snapshot = 0, [], None
        self.pool.reset(self.slots)


class BufferedLayer(LinearAttentionLayer):
    """A linear layer's place in a `Cache`: convolution state here, recurrent state in `rows.pool`.

    `recurrent_states[0]` is computed when asked for, in Transformers' layout [B, HV, K, V], so that whatever else reads
    the cache (the model's own forward, after `detach` too) finds the true state.
    """

    is_compileable = False  # the order of layers and the open window are kept in Python

    def __init__(self, rows: Rows, index: int, keeps_windows: bool) -> None:
        super().__init__()
        self.rows, self.index, self.keeps_windows = rows, index, keeps_windows

    @property
    def recurrent_states(self) -> dict[int, Tensor | None]:
        known = self.has_previous_state[0]
        return {0: self.rows.states()[self.index].transpose(-1, -2) if known else None}

    @recurrent_states.setter
    def recurrent_states(self, value: object) -> None:
        """The base class's constructor sets an empty dict: there is nothing to keep."""

    def start_empty(self, hidden_states: Tensor, module: Any) -> None:
        """Sets the convolution state of no tokens at all; the rows of a pool start at zero by themselves."""
        zeros = hidden_states.new_zeros(hidden_states.shape[0], module.conv_dim, module.conv_kernel_size)
        self.lazy_initialization(conv_states=zeros)
        self.has_previous_state[0] = True

    def update_recurrent_state(self, recurrent_states: Tensor, state_idx: int = 0, **kwargs: Any) -> Tensor:
        """Loads a prefill's final state [B, HV, K, V] and empties the ring."""
        self.rows.load(self.index, recurrent_states.transpose(-1, -2))
        return recurrent_states

    def activate_past_recording(self) -> None:
        """From now on every forward leaves a window open for `crop`."""
        self.keeps_windows = True

    @property
    def is_croppable(self) -> bool:
        return self.keeps_windows

    def crop(self, tokens_to_remove: int) -> None:
        """Drops the last -tokens_to_remove tokens of the open window and accepts the others.

        `Cache.crop` calls every layer; the first one answers for all. Raises RuntimeError where no window is open.
        """
        rows, removed = self.rows, abs(tokens_to_remove)
        if self.index > 0 or (removed == 0 and not rows.window):
            return
        if removed > rows.window:
            raise RuntimeError(
                f"crop(-{removed}): only the {rows.window} tokens of the open window can be dropped. "
                "Feed 2 .. max_window tokens in one forward, or call cache.activate_past_recording() first"
            )
        rows.commit(rows.window - removed)

    def reorder_cache(self, beam_idx: Tensor) -> None:
        if self.index == 0:
            self.rows.settle()
            self.rows.reorder(beam_idx.tolist())
        super().reorder_cache(beam_idx)

    def offload(self) -> None:
        """Nothing leaves the device: the pool's rows are in use at every token."""

    def prefetch(self) -> None:
        """Nothing was offloaded."""

    def reset(self) -> None:
        if self.index == 0:
            self.rows.reset()
        super().reset()


class Attachment:
    """What `attach` returns; as a context manager it detaches on exit."""

    def __init__(self, model: Any, modules: list[Any], form: Form, pool: dict[str, Any]) -> None:
        self.model, self.form, self._modules, self._pool = model, form, modules, pool
        self.live: weakref.WeakSet[Rows] = weakref.WeakSet()
        for index, module in enumerate(modules):
            module.forward = _LayerForward(self, module, index)
        # Assisted generation is refused to stateful models, whose caches cannot be cropped: these can.
        model._is_stateful = False

    def __enter__(self) -> Attachment:
        return self

    def __exit__(self, *exc: object) -> None:
        self.detach()

    def detach(self) -> None:
        """Gives the layers their own forward back. Caches in use stay valid: open windows are taken whole."""
        for rows in self.live:
            rows.settle()
        for module in self._modules:
            module.__dict__.pop("forward", None)
        self.model.__dict__.pop("_is_stateful", None)

    def keeps_windows(self, layer: BufferedLayer) -> bool:
        """Whether a forward of one token, or of a whole prompt, leaves a window open too."""
        return layer.keeps_windows or self.form == "verify"

    def rows(self, cache: Cache) -> Rows:
        """The pool, slots and open window behind a cache; ValueError for one that no attached model has filled."""
        for layer in cache.layers:
            if isinstance(layer, BufferedLayer):
                return layer.rows
        raise ValueError("cache has no buffered layers: give one that a forward of the attached model has filled")

    def commit(self, cache: Cache, accepted: int | Tensor) -> None:
        """Ends the open window of `cache` with the first `accepted` tokens of each row (int, or integer tensor [B]).

        Linear layers only: what full-attention layers hold of rejected tokens is the caller's to mask or crop
        (`cache.crop(-n)` does both where every row rejects the same number).
        """
        self.rows(cache).commit(accepted)

    def adopt(self, cache: Cache, hidden_states: Tensor) -> Rows:
        """Puts `BufferedLayer`s into a cache at its first forward, with the states that it already holds."""
        first = cache.layers[self._modules[0].layer_idx]
        if isinstance(first, BufferedLayer):
            return first.rows
        batch, device = hidden_states.shape[0], hidden_states.device
        pool = Pool(RECURRENCE, slots=batch, io=hidden_states.dtype, device=device, **self._pool)
        rows = Rows(pool, len(self._modules), batch, self._pool["max_window"], device)
        for index, module in enumerate(self._modules):
            old = cache.layers[module.layer_idx]
            cache.layers[module.layer_idx] = new = BufferedLayer(rows, index, keeps_windows=old.record_past)
            for name in CONV_FIELDS:
                setattr(new, name, getattr(old, name))
            if old.recurrent_states[0] is not None:
                rows.load(index, old.recurrent_states[0].transpose(-1, -2))
        return rows


class _LayerForward:
    """Shadows one module's forward; the module's own serves prefill and calls without a cache."""

    def __init__(self, handle: Attachment, module: Any, index: int) -> None:
        self.handle, self.module, self.index = handle, module, index
        self.library = sys.modules[type(module).__module__]  # its conv functions may be hub kernels: look them up late

    def __call__(
        self, hidden_states: Tensor, cache: Cache | None = None, attention_mask: Tensor | None = None, **kwargs: Any
    ) -> Tensor:
        own: Callable[..., Tensor] = type(self.module).forward
        if cache is None:
            return own(self.module, hidden_states, cache=None, attention_mask=attention_mask, **kwargs)
        rows = self.handle.adopt(cache, hidden_states)
        if self.index == 0:
            self.handle.live.add(rows)
            rows.settle()
        layer: Any = cache.layers[self.module.layer_idx]
        tokens, window = hidden_states.shape[1], rows.max_window
        if layer.has_previous_state[0]:
            if tokens <= window:
                return self._buffered(rows, layer, hidden_states, attention_mask)
            if self.handle.keeps_windows(layer):
                raise ValueError(
                    f"a forward of {tokens} tokens where windows are kept, but only max_window={window} can be "
                    "taken back: draft fewer tokens, or attach(model, max_window=...) with more"
                )
        elif self.handle.keeps_windows(layer):
            # The prompt and its first drafts come in one forward: its end becomes a window.
            head = max(tokens - window, 0)
            if head == 0:
                layer.start_empty(hidden_states, self.module)
                return self._buffered(rows, layer, hidden_states, attention_mask)
            mask = tail = None
            if attention_mask is not None:
                mask, tail = attention_mask[:, :head], attention_mask[:, head:]
            out = own(self.module, hidden_states[:, :head], cache=cache, attention_mask=mask, **kwargs)
            return torch.cat([out, self._buffered(rows, layer, hidden_states[:, head:], tail)], dim=1)
        return own(self.module, hidden_states, cache=cache, attention_mask=attention_mask, **kwargs)

    def _buffered(self, rows: Rows, layer: BufferedLayer, hidden_states: Tensor, mask: Tensor | None) -> Tensor:
        """Tokens [B, T, hidden] after a state, T <= max_window: the module's own forward around another kernel."""
        module, library, tokens = self.module, self.library, hidden_states.shape[1]
        hidden_states = library.apply_mask_to_padding_states(hidden_states, mask)
        q, k, v, z, b, a = module.fix_query_key_value_ordering(
            module.in_proj_qkvz(hidden_states), module.in_proj_ba(hidden_states)
        )
        mixed = torch.cat([x.flatten(2) for x in (q, k, v)], dim=-1).transpose(1, 2)
        weight, state = module.conv1d.weight.squeeze(1), layer.conv_states[0]
        windowed = tokens > 1 or self.handle.keeps_windows(layer)
        if windowed:
            # The state itself stands still until the window closes.
            full = torch.cat([state, mixed], dim=-1)
            rows.conv_windows.append((state, full))
            mixed = library.causal_conv1d_fn(full, weight, module.conv1d.bias, activation=module.activation)
            mixed = mixed[..., -tokens:]
        else:
            mixed = library.causal_conv1d_update(mixed, state, weight, module.conv1d.bias, module.activation)
        mixed = mixed.transpose(1, 2).contiguous()
        heads = (module.num_k_heads, module.num_k_heads, module.num_v_heads)
        widths = (module.key_dim, module.key_dim, module.value_dim)
        q, k, v = (x.unflatten(-1, (h, -1)) for x, h in zip(mixed.split(widths, dim=-1), heads, strict=True))
        inputs = {"q": q, "k": k, "v": v, "a": a, "b": b}
        if not windowed:
            inputs = {name: x[:, 0] for name, x in inputs.items()}
        inputs |= {"A_log": module.A_log.float(), "dt_bias": module.dt_bias.float()}
        with torch.no_grad():  # a kernel has no backward: what is decoded through a cache is never trained on
            out = rows.run(self.index, windowed, inputs)
        out = module.norm(out.reshape(-1, module.head_v_dim), z.reshape(-1, module.head_v_dim))
        return module.out_proj(out.view(*hidden_states.shape[:2], -1))


def attach(
    model: torch.nn.Module,
    *,
    buffer: int = 16,
    max_window: int = 4,
    form: Form = "auto",
    state: torch.dtype = torch.float32,
    **pool: Any,
) -> Attachment:
    """Decode the linear layers of a Qwen3-Next model through generated kernels.

    model: any module that holds `Qwen3NextGatedDeltaNet` layers; its weights are not touched.
    buffer: records that a row keeps before it folds them (tokens). max_window: the most tokens of one verify window.
    form: what one token runs: "auto" (the dispatcher's choice), "decode" (buffered), "step" (recurrent), "verify" (a
        window, so that any token can be taken back).
    state: dtype of the stored state. pool: more arguments of `Pool`, as records=.
    Raises TypeError when the model has no such layer, ValueError for a form or number that is not accepted, and
    RuntimeError when it is attached already.
    """
    if form not in get_args(Form):
        raise ValueError(f"form={form!r} is not accepted; give one of {', '.join(map(repr, get_args(Form)))}")
    for name, value in (("buffer", buffer), ("max_window", max_window)):
        if value < 1:
            raise ValueError(f"{name}={value}: give a number of tokens, 1 or more")
    modules: list[Any] = [m for m in model.modules() if isinstance(m, Qwen3NextGatedDeltaNet)]
    if not modules:
        raise TypeError(f"{type(model).__name__} has no Qwen3NextGatedDeltaNet layer: give a Qwen3-Next model")
    if any(isinstance(m.__dict__.get("forward"), _LayerForward) for m in modules):
        raise RuntimeError("the model is attached already: detach() the first handle before attaching another")
    first = modules[0]
    arguments = {
        "layers": len(modules),
        "heads": (first.num_k_heads, first.num_v_heads),
        "dims": (first.head_k_dim, first.head_v_dim),
        "state": state,
        "buffer": buffer,
        "max_window": max_window,
        "form": "auto" if form == "verify" else form,
    }
    return Attachment(model, modules, form, arguments | pool)
