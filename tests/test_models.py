"""The published shapes: against Transformers' own configurations where those are a model's, and their shards."""

from __future__ import annotations

import json

import pytest

from kvbuffer_codegen.cli.main import main
from kvbuffer_codegen.ir.forms import KernelSpec
from kvbuffer_codegen.ir.models import MODELS, SHARDS
from kvbuffer_codegen.ir.recurrences import RECURRENCES


@pytest.mark.parametrize("model", MODELS.values(), ids=lambda m: m.name)
def test_every_model_is_a_kernel_at_every_shard(model):
    assert model.source
    arguments = {a.heads for a in RECURRENCES[model.recurrence].arguments}
    assert model.ratio == 1 or "key" in arguments  # key heads that nothing reads would be a wrong entry
    for tp in SHARDS:
        if tp in model.shards:
            shard = model.shard(tp)
            assert (shard.H * tp, shard.HV * tp, shard.ratio) == (model.H, model.HV, model.ratio)
            KernelSpec("decode", RECURRENCES[model.recurrence].normal_form, shard.K, shard.V, shard.ratio, buffer=16)
        else:
            with pytest.raises(ValueError, match=rf"tp={tp}: {model.name} has .* accepted: 1, "):
                model.shard(tp)


def test_every_family_of_the_recurrences_has_its_models():
    served = {"gated_delta_rule", "kda", "kda_bounded", "mamba2", "lightning", "rwkv7"}
    assert {m.recurrence for m in MODELS.values()} == served


def linear_layers(config):
    return sum(kind not in ("full_attention", "attention", "moe", "mlp") for kind in config.layer_types)


@pytest.mark.parametrize(
    ("name", "module", "cls"),
    [
        ("qwen3-next", "qwen3_next", "Qwen3NextConfig"),
        ("qwen3.5-9b", "qwen3_5", "Qwen3_5TextConfig"),
        ("qwen3.5-35b-a3b", "qwen3_5_moe", "Qwen3_5MoeTextConfig"),
    ],
)
def test_as_transformers_configures_qwen(name, module, cls):
    """The defaults of these classes are those models' numbers."""
    configuration = pytest.importorskip(f"transformers.models.{module}.configuration_{module}")
    c, m = getattr(configuration, cls)(), MODELS[name]
    heads = (c.linear_num_key_heads, c.linear_num_value_heads)
    assert (m.layers, *heads, c.linear_key_head_dim, c.linear_value_head_dim) == (linear_layers(c), m.H, m.HV, m.K, m.V)


@pytest.mark.parametrize(
    ("name", "module", "cls"),
    [
        ("kimi-linear-48b", "kimi_linear", "KimiLinearConfig"),  # its last layer is full attention too
        ("ling-3.0-flash", "bailing_hybrid", "BailingHybridConfig"),
    ],
)
def test_as_transformers_configures_kda(name, module, cls):
    configuration = pytest.importorskip(f"transformers.models.{module}.configuration_{module}")
    c, m = getattr(configuration, cls)(), MODELS[name]
    assert (c.linear_num_heads,) * 2 + (c.linear_head_dim,) * 2 == (m.H, m.HV, m.K, m.V)
    assert linear_layers(c) - m.layers == (name == "kimi-linear-48b")


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("nemotron-3-nano-4b", "M-M-M-MM-M-M*-M-M*-M-M-M*-M-M-MM*-MMM-M-M-"),
        ("nemotron-3-nano-30b-a3b", "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"),
        (
            "nemotron-3-super-120b-a12b",
            "MEMEMEM*EMEMEMEM*EMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEM*EMEMEMEME",
        ),
    ],
)
def test_mamba_layers_are_those_of_the_published_pattern(name, pattern):
    assert MODELS[name].layers == pattern.count("M")


def test_list_and_explain_know_them(capsys):
    assert main(["list", "--models"]) == 0
    assert set(MODELS) <= set(capsys.readouterr().out.split())
    assert main(["list", "--json"]) in (0, 1)
    listed = json.loads(capsys.readouterr().out)["models"]
    assert listed["rwkv7-0.1b"]["tp"] == "1,2,4"
    assert main(["explain", "mamba2", "--tp", "8", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["shape"]["HV"] == MODELS["nemotron-3-nano-4b"].HV // 8
