"""Published shapes of linear-attention layers, and their tensor-parallel shards.

Each entry says where its numbers were published. ``K`` is what keys and queries have (Mamba-2's state size, 128), ``V``
what values have (Mamba-2's head dimension); Mamba-2's groups are key heads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

SHARDS = (1, 2, 4, 8)  #: tensor-parallel sizes that models are served with


@dataclass(frozen=True)
class ModelShape:
    """One model's linear layers: H key heads and HV value heads of K x V, ``layers`` of them, served with ``io``
    activations. ``source``: the configuration file or the paper that the numbers are from."""

    name: str
    recurrence: str
    layers: int
    H: int
    HV: int
    K: int
    V: int
    io: str
    source: str
    tp: int = 1

    @property
    def ratio(self) -> int:
        return self.HV // self.H

    def shard(self, tp: int) -> ModelShape:
        """The heads one of ``tp`` tensor-parallel ranks holds.

        Raises ``ValueError`` where heads do not divide: a key head cannot be cut in two, and value heads go with the
        key head that they read.
        """
        if tp < 1 or self.H % tp or self.HV % tp:
            raise ValueError(
                f"tp={tp}: {self.name} has {self.H} key and {self.HV} value heads, and a rank takes whole ones; "
                f"accepted: {', '.join(str(n) for n in range(1, self.H + 1) if not (self.H % n or self.HV % n))}"
            )
        return replace(self, H=self.H // tp, HV=self.HV // tp, tp=tp)

    @property
    def shards(self) -> tuple[int, ...]:
        """Those of :data:`SHARDS` that divide its heads."""
        return tuple(tp for tp in SHARDS if self.H % tp == 0 and self.HV % tp == 0)


def _models(recurrence: str, source: str, *shapes: tuple[str, int, int, int, int, int]) -> list[ModelShape]:
    """``shapes``: (name, layers, H, HV, K, V), all served in bfloat16. ``source`` may name the model with ``{}``."""
    return [
        ModelShape(name, recurrence, layers, H, HV, K, V, "bfloat16", source.format(name))
        for name, layers, H, HV, K, V in shapes
    ]


MODELS = {
    m.name: m
    for m in (
        # Three of four layers are gated delta rule: linear_num_key_heads, linear_num_value_heads and head dims.
        *_models(
            "gated_delta_rule",
            "Qwen/Qwen3-Next-80B-A3B-Instruct, config.json",
            ("qwen3-next", 36, 16, 32, 128, 128),
        ),
        *_models(
            "gated_delta_rule",
            "Qwen/{}, config.json and model card (hidden layout, linear attention heads)",
            ("qwen3.5-0.8b", 18, 16, 16, 128, 128),
            ("qwen3.5-2b", 18, 16, 16, 128, 128),
            ("qwen3.5-4b", 24, 16, 32, 128, 128),
            ("qwen3.5-9b", 24, 16, 32, 128, 128),
            ("qwen3.5-27b", 48, 16, 48, 128, 128),
            ("qwen3.5-35b-a3b", 30, 16, 32, 128, 128),
            ("qwen3.5-122b-a10b", 36, 16, 64, 128, 128),
            ("qwen3.5-397b-a17b", 45, 16, 64, 128, 128),
        ),
        # 20 of 27 layers are KDA, the others latent attention.
        *_models(
            "kda",
            "moonshotai/Kimi-Linear-48B-A3B-Instruct, config.json (linear_attn_config); arXiv 2510.26692",
            ("kimi-linear-48b", 20, 32, 32, 128, 128),
        ),
        # 35 of 42 layers (layer_group_size 6); kda_safe_gate with kda_lower_bound -5.
        *_models("kda_bounded", "inclusionAI/Ling-3.0-Flash, config.json", ("ling-3.0-flash", 35, 32, 32, 128, 128)),
        # Letters M of hybrid_override_pattern; n_groups, mamba_num_heads, ssm_state_size, mamba_head_dim.
        *_models(
            "mamba2",
            "nvidia/NVIDIA-{}, config.json",
            ("nemotron-3-nano-4b", 21, 8, 96, 128, 80),
            ("nemotron-3-nano-30b-a3b", 23, 8, 64, 128, 64),
            ("nemotron-3-super-120b-a12b", 40, 8, 128, 128, 64),
            ("nemotron-3-ultra-550b-a55b", 48, 8, 256, 128, 64),
        ),
        # Seven of eight layers, four of five in Ring-mini (layer_group_size); one query group a head.
        *_models(
            "lightning",
            "MiniMaxAI/MiniMax-Text-01 (MiniMax-M1 has the same), config.json; arXiv 2501.08313",
            ("minimax-text-01", 70, 64, 64, 128, 128),
        ),
        *_models(
            "lightning",
            "inclusionAI/{}, config.json; arXiv 2510.19338",
            ("ring-mini-linear-2.0", 16, 16, 16, 128, 128),
            ("ring-flash-linear-2.0", 28, 32, 32, 128, 128),
        ),
        # Every layer; heads of 64.
        *_models(
            "rwkv7",
            "RWKV-7 World, arXiv 2503.14456, table of model sizes",
            ("rwkv7-0.1b", 12, 12, 12, 64, 64),
            ("rwkv7-0.4b", 24, 16, 16, 64, 64),
            ("rwkv7-1.5b", 24, 32, 32, 64, 64),
            ("rwkv7-2.9b", 32, 40, 40, 64, 64),
        ),
    )
}
