"""Published shapes of linear-attention layers, and their tensor-parallel shards."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class ModelShape:
    """One model's linear layers: H key heads and HV value heads of K x V, ``layers`` of them, served with ``io``
    activations."""

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
        """The heads one of ``tp`` tensor-parallel ranks holds. Raises ``ValueError`` where heads do not divide."""
        if tp < 1 or self.H % tp or self.HV % tp:
            raise ValueError(
                f"tp={tp}: {self.name} has {self.H} key and {self.HV} value heads; accepted: a common divisor of both"
            )
        return replace(self, H=self.H // tp, HV=self.HV // tp, tp=tp)


MODELS = {
    m.name: m
    for m in (
        ModelShape(
            "qwen3-next", "gated_delta_rule", 36, 16, 32, 128, 128, "bfloat16", "Qwen3-Next-80B-A3B config.json"
        ),
        ModelShape("qwen3.5-4b", "gated_delta_rule", 24, 16, 32, 128, 128, "bfloat16", "Qwen3.5-4B config.json"),
        ModelShape(
            "qwen3.5-122b", "gated_delta_rule", 36, 16, 64, 128, 128, "bfloat16", "Qwen3.5-122B-A10B config.json"
        ),
    )
}
