"""Every shipped recurrence against code that other people wrote: fla-core's naive loops and Transformers' torch
paths, in float32.

fla-core's package imports triton; its naive files need torch and einops alone, so they are loaded as files.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util

import numpy as np
import pytest
import torch

from kvbuffer_codegen.ir import oracle
from kvbuffer_codegen.ir.recurrences import RECURRENCES

T, H, HV, K, V = 12, 2, 4, 8, 6
#: float32 references over a dozen tokens; a wrong gate, scale or order of operations is off by more than 1e-3.
LIMIT = 2e-5


def naive(path, name):
    """A function of fla-core's ``fla/ops/<path>.py``."""
    file = next(f for f in importlib.metadata.files("fla-core") if str(f) == f"fla/ops/{path}.py")
    spec = importlib.util.spec_from_file_location("naive_reference", file.locate())
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def draw(recurrence, seed=0):
    rng = np.random.default_rng(seed)
    data = {}
    for a in recurrence.arguments:
        heads, wide = (H if a.heads == "key" else HV), {"K": (K,), "V": (V,), None: ()}[a.axis]
        lead = () if a.parameter else (T,)
        data[a.name] = rng.standard_normal((*lead, *((a.count,) if a.count else ()), heads, *wide))
    for name in ("log_decay", "lower_bound"):
        if name in data:
            data[name] = -np.abs(data[name])
    if "slope" in data:
        data["slope"] = -np.log(1 - 2.0 ** (-5 - np.arange(HV)))
    return data, rng.standard_normal((HV, V, K))


class Case:
    """Inputs of a recurrence as the references take them: [1, T, HV, .] float32, key heads repeated."""

    def __init__(self, name):
        recurrence = RECURRENCES[name]
        self.data, self.state = draw(recurrence)
        self.outputs, self.states = oracle.run(recurrence, self.data, self.state)
        self.initial = torch.tensor(self.state.swapaxes(-1, -2)[None], dtype=torch.float32)

    def __getattr__(self, name):
        x = torch.tensor(self.data[name], dtype=torch.float32)
        if x.dim() >= 2 and x.shape[-2] == H and x.shape[0] == T and x.shape[-1] == K:
            x = x.repeat_interleave(HV // H, -2)
        return x[None]

    def compare(self, output, state=None, heads_first=False):
        got = output[0].transpose(0, 1) if heads_first else output[0]
        np.testing.assert_allclose(
            got.double().numpy(), self.outputs, rtol=LIMIT, atol=LIMIT * np.abs(self.outputs).max()
        )
        if state is not None:
            want = self.states[-1].swapaxes(-1, -2)
            np.testing.assert_allclose(state[0].double().numpy(), want, rtol=LIMIT, atol=LIMIT * np.abs(want).max())


def norm(x):
    return x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6)


def first(*tensors):
    """[1, T, HV, ...] -> [1, HV, T, ...]"""
    return [x.transpose(1, 2) for x in tensors]


def delta_gate(c):
    return -c.A_log.exp() * torch.nn.functional.softplus(c.a + c.dt_bias)


def test_linear_attention():
    c = Case("linear_attention")
    f = naive("linear_attn/naive", "naive_recurrent_linear_attn")
    c.compare(*f(c.q, c.k, c.v, initial_state=c.initial, output_final_state=True))


def test_retnet():
    c = Case("retnet")
    c.outputs, _ = oracle.run(RECURRENCES["retnet"], c.data, c.state * 0)  # the reference starts empty
    c.compare(naive("retention/naive", "naive_retention")(*first(c.q, c.k, c.v)), heads_first=True)


def test_lightning():
    c = Case("lightning")
    f = naive("simple_gla/naive", "naive_recurrent_simple_gla")
    slope = -c.slope[:, None].expand(1, T, HV)
    c.compare(*f(c.q, c.k, c.v, slope, initial_state=c.initial, output_final_state=True))


def test_simple_gla():
    c = Case("simple_gla")
    f = naive("simple_gla/naive", "naive_recurrent_simple_gla")
    c.compare(*f(c.q, c.k, c.v, c.log_decay, initial_state=c.initial, output_final_state=True))


def test_gla():
    c = Case("gla")
    f = naive("gla/naive", "naive_recurrent_gla")
    c.compare(*f(c.q, c.k, c.v, c.log_decay, initial_state=c.initial, output_final_state=True))


def test_delta_rule():
    c = Case("delta_rule")
    f = naive("delta_rule/naive", "delta_rule_recurrence")
    c.compare(*f(*first(norm(c.q), norm(c.k), c.v, c.beta), initial_state=c.initial), heads_first=True)


def test_gated_delta_rule():
    c = Case("gated_delta_rule")
    f = naive("gated_delta_rule/naive", "naive_recurrent_gated_delta_rule")
    beta, gate = c.b.sigmoid(), delta_gate(c)
    c.compare(*f(norm(c.q), norm(c.k), c.v, beta, gate, initial_state=c.initial, output_final_state=True))


def test_gated_delta_rule_as_transformers_decodes():
    modeling = pytest.importorskip("transformers.models.qwen3_next.modeling_qwen3_next")
    f = getattr(modeling.torch_recurrent_gated_delta_rule, "__wrapped__", modeling.torch_recurrent_gated_delta_rule)
    c = Case("gated_delta_rule")
    out, state = f(
        c.q,
        c.k,
        c.v,
        g=delta_gate(c),
        beta=c.b.sigmoid(),
        initial_state=c.initial,
        output_final_state=True,
        use_qk_l2norm_in_kernel=True,
    )
    c.compare(out, state)


@pytest.mark.parametrize("name", ["kda", "kda_bounded"])
def test_kda(name):
    c = Case(name)
    if name == "kda":
        gate = -c.A_log.exp()[..., None] * torch.nn.functional.softplus(c.a + c.dt_bias[:, None])
    else:
        gate = c.lower_bound[..., None] * torch.sigmoid(c.A_log.exp()[..., None] * (c.a + c.dt_bias[:, None]))
    f = naive("kda/naive", "naive_recurrent_kda")
    c.compare(*f(norm(c.q), norm(c.k), c.v, gate, c.b.sigmoid(), initial_state=c.initial, output_final_state=True))


@pytest.mark.parametrize("count", [2, 3])
def test_gated_delta_product(count):
    c = Case(f"gated_delta_product_{count}")
    k = norm(c.k).reshape(1, T * count, HV, K)
    v, beta = c.v.reshape(1, T * count, HV, V), c.b.sigmoid().reshape(1, T * count, HV)
    f = naive("gated_delta_product/naive", "naive_recurrent_gated_delta_product")
    out = f(
        norm(c.q),
        k,
        v,
        delta_gate(c),
        beta,
        K**-0.5,
        initial_state=c.initial,
        output_final_state=True,
        num_householder=count,
    )
    c.compare(*out)


def test_rwkv6():
    c = Case("rwkv6")
    f = naive("rwkv6/recurrent_naive", "naive_recurrent_rwkv6")
    r, k, v, w = first(c.r, c.k, c.v, -c.w.exp())
    c.compare(*f(r, k, v, w, c.u[0], scale=1.0, initial_state=c.initial, output_final_state=True), heads_first=True)


def test_rwkv7():
    c = Case("rwkv7")
    kappa = c.kappa / c.kappa.norm(dim=-1, keepdim=True)
    gate = -np.exp(-0.5) * torch.sigmoid(c.w)
    r, k, v, alpha, beta, gate = first(c.r * K**0.5, c.k, c.v, -kappa, kappa * c.a, gate)  # the reference scales r
    f = naive("generalized_delta_rule/dplr/naive", "dplr_recurrence")
    c.compare(*f(r, k, v, alpha, beta, gate, initial_state=c.initial), heads_first=True)


def unwrapped(module, name):
    """A function of ``transformers.models.<module>`` that runs in torch, whatever kernels are installed."""
    modeling = pytest.importorskip(f"transformers.models.{module}.modeling_{module}")
    function = getattr(modeling, name)
    return getattr(function, "__wrapped__", function)


def test_kda_as_transformers_decodes():
    c = Case("kda")
    gate = -c.A_log.exp()[..., None] * torch.nn.functional.softplus(c.a + c.dt_bias[:, None])
    f = unwrapped("kimi_linear", "recurrent_kimi_delta_attention")
    more = {"initial_state": c.initial, "output_final_state": True, "use_qk_l2norm_in_kernel": True}
    c.compare(*f(c.q, c.k, c.v, gate, c.b.sigmoid(), **more))


def test_kda_bounded_as_ling_gates_it():
    """Ling-3.0's gate module, its projection aside, in front of the same recurrence."""
    modeling = pytest.importorskip("transformers.models.bailing_hybrid.modeling_bailing_hybrid")
    from transformers import BailingHybridConfig

    c = Case("kda_bounded")
    sizes = {"hidden_size": HV * K, "linear_num_heads": HV, "linear_head_dim": K}
    gate = modeling.BailingHybridForgetGate(BailingHybridConfig(**sizes))
    gate.f_proj = torch.nn.Identity()
    gate.A_log.data, gate.dt_bias.data = c.A_log[0], c.dt_bias[0].flatten()
    c.data["lower_bound"][:] = gate.lower_bound
    c.outputs, c.states = oracle.run(RECURRENCES["kda_bounded"], c.data, c.state)
    with torch.no_grad():
        decay = gate(c.a.flatten(2))
    f = unwrapped("bailing_hybrid", "recurrent_kimi_delta_attention")
    more = {"initial_state": c.initial, "output_final_state": True, "use_qk_l2norm_in_kernel": True}
    c.compare(*f(c.q, c.k, c.v, decay, c.b.sigmoid(), **more))


@pytest.mark.parametrize("name", ["mamba2", "mamba2_gated"])
def test_mamba2(name):
    """Token by token, with groups, raw dt, D and z: what Transformers runs where mamba-ssm is not installed."""
    c = Case(name)
    f = unwrapped("mamba2", "mamba2_selective_state_update")
    given = {n: torch.tensor(x, dtype=torch.float32) for n, x in c.data.items()}
    state = torch.tensor(c.state, dtype=torch.float32)[None]
    wide = {"A": -given["A_log"].exp()[:, None, None], "D": given["D"][:, None], "dt_bias": given["dt_bias"][:, None]}
    outputs = []
    for t in range(T):
        x, dt, B, C = (given[n][t][None] for n in ("v", "dt", "k", "q"))
        z = given["z"][t][None] if name == "mamba2_gated" else None
        outputs.append(f(state, x, dt[..., None], B=B, C=C, dt_softplus=True, z=z, **wide))
    c.compare(torch.stack(outputs, 1), state.transpose(-1, -2))


def test_mamba2_as_transformers_prefills():
    """The chunked form, over the whole sequence at once."""
    c = Case("mamba2")
    f = unwrapped("mamba2", "mamba2_chunk_scan")
    given = {n: torch.tensor(x, dtype=torch.float32) for n, x in c.data.items()}
    x, dt, B, C = (given[n][None] for n in ("v", "dt", "k", "q"))
    more = {"D": given["D"], "dt_bias": given["dt_bias"], "dt_softplus": True, "return_final_states": True}
    state = torch.tensor(c.state, dtype=torch.float32)[None]
    output, state = f(x, dt, -given["A_log"].exp(), B, C, 4, initial_states=state, **more)
    c.compare(output, state.transpose(-1, -2))


def test_lightning_as_minimax_runs_it():
    """MiniMax's own layer between its projections; it leaves q unscaled, since a norm follows."""
    modeling = pytest.importorskip("transformers.models.minimax.modeling_minimax")
    from transformers import MiniMaxConfig

    torch.manual_seed(0)
    kinds = {"num_hidden_layers": 2, "layer_types": ["linear_attention", "full_attention"]}
    layer = modeling.MiniMaxLightningAttention(
        MiniMaxConfig(hidden_size=HV * K, num_attention_heads=HV, block_size=5, **kinds), 0
    )
    layer.norm, layer.out_proj = torch.nn.Identity(), torch.nn.Identity()
    layer.output_gate = torch.nn.Threshold(1e9, 1e4)  # open for every input
    hidden = torch.randn(1, T, HV * K)
    with torch.no_grad():
        output, _ = layer(hidden, None, None)
        q, k, v = layer.act_fn(layer.qkv_proj(hidden)).view(T, HV, 3, K).unbind(2)
    data = {"q": q.numpy(), "k": k.numpy(), "v": v.numpy(), "slope": layer.slope_rate.flatten().numpy()}
    wanted, _ = oracle.run(RECURRENCES["lightning"], data, np.zeros((HV, K, K)))
    got = output.view(T, HV, K).double().numpy() * K**-0.5
    np.testing.assert_allclose(got, wanted, rtol=LIMIT, atol=LIMIT * np.abs(wanted).max())


#: What is held against code of its family with the gate written out here, since no code of its very own installs.
WRITTEN_OUT = {
    "rwkv7": "fla-core has no naive RWKV-7: its naive DPLR recurrence, of which RWKV-7 is a case",
}


def test_every_recurrence_has_a_reference():
    tested = {"kda", "kda_bounded", "mamba2", "mamba2_gated", "gated_delta_product_2", "gated_delta_product_3"}
    tested |= {name.removeprefix("test_") for name in globals() if name.startswith("test_")} & set(RECURRENCES)
    assert tested == set(RECURRENCES)
    assert set(WRITTEN_OUT) < tested
