"""Qwen3-Next through a pool against Transformers' own path: tokens, logits, windows, and all that reads the cache.

The models are small and random. Weights have standard deviation 0.1: at the default 0.02 an output wrong by 0.1 % still
gives the same greedy tokens.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from kvbuffer_codegen.integrations.transformers import BufferedLayer, attach

transformers = pytest.importorskip("transformers")
# Largest difference of a logit, in standard deviations of the logits. Float32 noise between two orders of the same sums
# is 1e-5 here; an output wrong by 0.1 % moves a logit by 4e-3.
LOGITS = 1e-4
PROMPT, NEW = 14, 24


pytestmark = pytest.mark.filterwarnings("ignore:No .* kernel")  # no kernel is tuned for such dims: torch serves


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Tensors this small gain nothing from threads, and lose much where other processes hold the cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def model() -> Any:
    """Two linear layers, one full-attention layer, one linear layer; 2 key heads, 4 value heads, K = 32, V = 16."""
    transformers.logging.set_verbosity_error()
    torch.manual_seed(11)
    config = transformers.Qwen3NextConfig(
        vocab_size=512,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=4,
        layer_types=["linear_attention", "linear_attention", "full_attention", "linear_attention"],
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        linear_num_key_heads=2,
        linear_num_value_heads=4,
        linear_key_head_dim=32,
        linear_value_head_dim=16,
        num_experts=0,
        initializer_range=0.1,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=None,
    )
    return transformers.Qwen3NextForCausalLM(config).eval()


@pytest.fixture(scope="module")
def prompts() -> dict[str, Tensor]:
    """Four prompts of 14, 7, 11 and 1 tokens, padded on the left as generate() wants them."""
    ids = torch.randint(1, 512, (4, PROMPT), generator=torch.Generator().manual_seed(5))
    mask = torch.ones_like(ids)
    for row, padding in enumerate((0, 7, 3, 13)):
        mask[row, :padding] = 0
    return {"input_ids": ids * mask, "attention_mask": mask}


def generate(model: Any, prompts: dict[str, Tensor], **more: Any) -> tuple[Tensor, Tensor]:
    """Greedy tokens [B, P + NEW] and logits [NEW, B, vocabulary]."""
    out = model.generate(
        **prompts, max_new_tokens=NEW, do_sample=False, output_logits=True, return_dict_in_generate=True, **more
    )
    return out.sequences, torch.stack(out.logits)


@pytest.fixture(scope="module")
def own(model: Any, prompts: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """What Transformers itself generates."""
    return generate(model, prompts)


def distance(logits: Tensor, reference: Tensor) -> float:
    """Largest difference in standard deviations of the reference."""
    return ((logits - reference).abs().max() / reference.std()).item()


class Feeder:
    """Feeds given tokens to the model with a cache of its own, positions and masks kept for rows of unequal length."""

    def __init__(self, model: Any, mask: Tensor) -> None:
        self.model, self.mask = model, mask[:, :0]
        self.cache = transformers.DynamicCache(config=model.config)

    @torch.no_grad()
    def __call__(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """Logits [B, T, vocabulary] of ids [B, T]."""
        mask = torch.ones_like(ids) if mask is None else mask
        self.mask = torch.cat([self.mask, mask], dim=1)
        positions = (self.mask.cumsum(1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        arguments = {"attention_mask": self.mask, "position_ids": positions, "cache": self.cache, "use_cache": True}
        return self.model(ids, **arguments).logits

    def crop(self, tokens: int) -> None:
        self.cache.crop(-tokens)
        self.mask = self.mask[:, : self.mask.shape[1] - tokens]


@pytest.mark.parametrize("form", ["auto", "decode", "step", "verify"])
def test_generate_gives_the_same_tokens_and_logits(model: Any, prompts: Any, own: Any, form: Any) -> None:
    with attach(model, form=form, buffer=5) as handle:
        tokens, logits = generate(model, prompts)
    assert distance(logits, own[1]) < LOGITS
    assert torch.equal(tokens, own[0])
    assert handle.model is model


def test_a_faulty_output_fails_the_bound(model: Any, prompts: Any, own: Any) -> None:
    layer = model.model.layers[0].linear_attn
    hook = layer.register_forward_hook(lambda module, inputs, output: output * 1.001)
    try:
        with attach(model, form="decode"):
            _, logits = generate(model, prompts)
    finally:
        hook.remove()
    assert distance(logits, own[1]) > LOGITS


def test_rows_fold_in_the_ring(model: Any, prompts: Any, own: Any) -> None:
    with attach(model, form="decode", buffer=5) as handle:
        feed = Feeder(model, prompts["attention_mask"])
        feed(prompts["input_ids"], prompts["attention_mask"])
        counts = []
        for token in own[0][:, PROMPT : PROMPT + 12].split(1, dim=1):
            feed(token)
            counts.append(handle.rows(feed.cache).pending().tolist())
    assert counts == [[n] * 4 for n in (1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 1, 2)]


@pytest.mark.parametrize("accepted", [4, 3, 1, 0])
def test_windows_fed_back_give_the_same_logits(model: Any, prompts: Any, own: Any, accepted: int) -> None:
    """Every window holds `accepted` right tokens and then wrong ones, which crop() drops."""
    found: list[Tensor] = []
    with attach(model, buffer=6):
        feed = Feeder(model, prompts["attention_mask"])
        found += feed(prompts["input_ids"], prompts["attention_mask"])[:, -1:].unbind(1)
        for start in range(PROMPT, PROMPT + NEW - 4, accepted or 4):
            window = own[0][:, start : start + 4].clone()
            window[:, accepted:] = 7
            found += feed(window)[:, :accepted].unbind(1)
            feed.crop(4 - accepted)
            if accepted == 0:  # nothing was taken: the same tokens again, one by one
                for token in own[0][:, start : start + 4].split(1, dim=1):
                    found += feed(token).unbind(1)
    assert len(found) > 16
    assert distance(torch.stack(found), own[1][: len(found)]) < LOGITS


def test_rows_accept_different_numbers(model: Any, prompts: Any, own: Any) -> None:
    """Windows of 4 with 4, 2, 1 and 0 right tokens; what is rejected stays in the full-attention layer, masked."""
    taken = torch.zeros(4, dtype=torch.long)
    accepted = torch.tensor([4, 2, 1, 0])
    with attach(model, buffer=6) as handle:
        feed = Feeder(model, prompts["attention_mask"])
        feed(prompts["input_ids"], prompts["attention_mask"])
        worst = 0.0
        for _ in range(4):
            window = own[0].gather(1, PROMPT + taken[:, None] + torch.arange(4))
            logits = feed(torch.where(torch.arange(4) < accepted[:, None], window, 7))
            for row, count in enumerate(accepted.tolist()):
                reference = own[1][taken[row] + 1 : taken[row] + 1 + count, row]
                worst = max([worst, *((logits[row, :count] - reference).abs().flatten().tolist())])
            handle.commit(feed.cache, accepted)
            feed.mask[:, -4:] = (torch.arange(4) < accepted[:, None]).long()
            taken += accepted
            accepted = accepted.roll(1)
    assert taken.tolist() == [7] * 4
    assert worst < LOGITS * own[1].std().item()


def test_a_long_continuation_is_the_models_own(model: Any, prompts: Any, own: Any) -> None:
    with attach(model, form="decode", max_window=4):
        feed = Feeder(model, prompts["attention_mask"])
        feed(prompts["input_ids"], prompts["attention_mask"])
        feed(own[0][:, PROMPT : PROMPT + 3])  # a window, left open
        logits = feed(own[0][:, PROMPT + 3 : PROMPT + 12])  # longer than a window
        after = feed(own[0][:, PROMPT + 12 : PROMPT + 13])
    assert distance(logits, own[1][4:13].transpose(0, 1)) < LOGITS
    assert distance(after, own[1][13:14].transpose(0, 1)) < LOGITS


def test_a_cache_outlives_detach_and_attach(model: Any, prompts: Any, own: Any) -> None:
    feed = Feeder(model, prompts["attention_mask"])
    feed(prompts["input_ids"], prompts["attention_mask"])  # Transformers' own cache, adopted with its state
    steps = iter(range(PROMPT, PROMPT + NEW))
    found = []
    for form in ("decode", "step"):
        with attach(model, form=form):
            found += [feed(own[0][:, [next(steps)]]) for _ in range(3)]
            found += [feed(own[0][:, [next(steps), next(steps)]])]
        found += [feed(own[0][:, [next(steps)]]) for _ in range(2)]
    logits = torch.cat(found, dim=1).transpose(0, 1)
    assert distance(logits, own[1][1 : 1 + len(logits)]) < LOGITS


def test_a_copied_cache_goes_its_own_way(model: Any, prompts: Any, own: Any) -> None:
    """The way Transformers reuses a prompt: fill a cache once, deepcopy it for every continuation."""
    with attach(model, form="decode", buffer=3):
        feed = Feeder(model, prompts["attention_mask"])
        feed(prompts["input_ids"], prompts["attention_mask"])
        feed(own[0][:, PROMPT : PROMPT + 1])
        copied = copy.deepcopy(feed.cache)
        feed(own[0][:, :2])  # the first one continues otherwise, with a fold and a window
        feed(own[0][:, :4])
        feed.cache, feed.mask = copied, feed.mask[:, : PROMPT + 1]
        logits = [feed(token)[:, 0] for token in own[0][:, PROMPT + 1 : PROMPT + 6].split(1, dim=1)]
    assert distance(torch.stack(logits), own[1][2:7]) < LOGITS


@pytest.mark.parametrize("length", [3, 30])
def test_prompt_lookup_works_on_a_hybrid_model(model: Any, length: int) -> None:
    """Assisted generation drafts, verifies and crops: Transformers refuses it for these layers, a buffer does not."""
    ids = torch.randint(1, 512, (1, 6), generator=torch.Generator().manual_seed(2)).repeat(1, 5)[:, :length]
    plain = model.generate(ids, max_new_tokens=NEW, do_sample=False)
    with pytest.raises(ValueError, match="not supported with stateful"):
        model.generate(ids, max_new_tokens=NEW, do_sample=False, prompt_lookup_num_tokens=3)
    with attach(model, max_window=8):
        assert torch.equal(model.generate(ids, max_new_tokens=NEW, do_sample=False, prompt_lookup_num_tokens=3), plain)


def test_beams_are_reordered(model: Any, prompts: Any) -> None:
    arguments = {**prompts, "max_new_tokens": 12, "do_sample": False, "num_beams": 3}
    plain = model.generate(**arguments)
    with attach(model, form="decode", buffer=3):
        assert torch.equal(model.generate(**arguments), plain)


def test_a_cache_reset_starts_again(model: Any, prompts: Any, own: Any) -> None:
    with attach(model, form="decode"):
        feed = Feeder(model, prompts["attention_mask"])
        feed(prompts["input_ids"].flip(0), prompts["attention_mask"].flip(0))
        feed(own[0][:, :1])
        feed.cache.layers[2] = transformers.DynamicCache(config=model.config).layers[
            2
        ]  # a reset keeps its keys, zeroed
        feed.cache.reset()
        feed.mask = feed.mask[:, :0]
        logits = feed(prompts["input_ids"], prompts["attention_mask"])[:, -1]
    assert distance(logits, own[1][0]) < LOGITS


@pytest.fixture
def attached(model: Any) -> Iterator[Any]:
    with attach(model) as handle:
        yield handle


def test_attaching_twice_is_refused(model: Any, attached: Any) -> None:
    with pytest.raises(RuntimeError, match="attached already: detach"):
        attach(model)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"form": "fold"}, "form='fold'.*'auto'"), ({"buffer": 0}, "buffer=0"), ({"max_window": 0}, "max_window=0")],
)
def test_arguments_are_refused_by_name(model: Any, arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        attach(model, **arguments)
    assert "forward" not in model.model.layers[0].linear_attn.__dict__


def test_another_model_is_refused() -> None:
    with pytest.raises(TypeError, match="Linear has no Qwen3NextGatedDeltaNet"):
        attach(torch.nn.Linear(2, 2))


def test_crop_past_the_window_is_refused_and_nothing_changes(model: Any, prompts: Any, own: Any, attached: Any) -> None:
    feed = Feeder(model, prompts["attention_mask"])
    feed(prompts["input_ids"], prompts["attention_mask"])
    feed(own[0][:, PROMPT : PROMPT + 2])
    layer = feed.cache.layers[0]
    assert isinstance(layer, BufferedLayer)
    with pytest.raises(RuntimeError, match=r"crop\(-3\).*2 tokens"):
        layer.crop(-3)
    with pytest.raises(ValueError, match=r"accepted=5.*0\.\.2"):
        attached.commit(feed.cache, 5)
    logits = feed(own[0][:, PROMPT + 2 : PROMPT + 3])[:, 0]
    assert distance(logits, own[1][3]) < LOGITS


def test_a_foreign_cache_has_no_rows(model: Any, attached: Any) -> None:
    with pytest.raises(ValueError, match="no buffered layers"):
        attached.rows(transformers.DynamicCache(config=model.config))
