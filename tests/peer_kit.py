"""A run beside peers as ``benchmarks/peers.py`` records it, with numbers of the size that an H200 gives."""

from __future__ import annotations

from typing import Any

#: name, state, T: microseconds by batch.
PEERS: dict[tuple[str, str, int], dict[int, float]] = {
    ("fla fused_recurrent", "fp32", 1): {1: 4.03, 8: 11.8, 32: 36.4, 128: 132.8},
    ("fla + gather/scatter", "fp32", 1): {1: 11.7, 8: 44.4, 32: 123.5, 128: 473.7},
    ("sglang packed decode", "fp32", 1): {1: 5.8, 8: 12.4, 32: 39.8, 128: 141.1},
    ("vllm packed decode", "fp32", 1): {1: 5.77, 8: 12.4, 32: 39.8, 128: 141.0},
    ("flashinfer decode", "fp32", 1): {1: 4.58, 32: 36.9, 128: 136.3},
    ("sglang ReplaySSM decode L=16", "fp32", 1): {1: 8.03, 8: 12.9, 32: 34.8, 128: 100.8},
    ("sglang ReplaySSM decode L=16 sync", "fp32", 1): {1: 8.02, 8: 11.4, 32: 30.5, 128: 99.2},
    ("sglang packed decode", "bf16", 1): {1: 3.97, 32: 22.8},
    ("flashinfer decode", "bf16", 1): {1: 3.23, 32: 22.0, 128: 77.8},
    ("sglang verify + snapshots", "fp32", 4): {1: 8.0, 8: 34.1, 32: 128.7, 128: 518.0},
    ("sglang verify + raw-window fold", "fp32", 4): {1: 11.1, 8: 26.0, 32: 97.6, 128: 353.0},
    ("sglang ReplaySSM circular L=16", "fp32", 4): {1: 11.5, 8: 18.6, 32: 52.4, 128: 190.0},
    ("sglang ReplaySSM circular L=32", "fp32", 4): {1: 11.9, 8: 18.3, 32: 54.0, 128: 185.0},
    ("vllm selective_state_update", "fp32", 1): {1: 3.4, 32: 37.2},
    ("vllm Mamba2 ReplaySSM L=16", "fp32", 1): {1: 6.1, 32: 28.7},
}
#: case: form, buffer, microseconds by batch, megabytes a row.
OURS: dict[str, tuple[str, int, dict[int, float], float]] = {
    "decode fp32": ("decode", 16, {1: 5.0, 8: 11.0, 32: 28.4, 128: 87.0}, 2.449),
    "step fp32": ("step", 16, {1: 4.14, 8: 12.1, 32: 38.3, 128: 136.2}, 4.219),
    "decode fp16": ("decode", 16, {1: 4.4, 8: 8.6, 32: 23.4, 128: 73.0}, 1.335),
    "verify T=4 fp32": ("verify", 16, {1: 7.4, 8: 17.1, 32: 44.1, 128: 135.9}, 2.884),
}
READ = 4.345e12


def run() -> dict[str, Any]:
    """A whole run; a copy of its own for every caller."""
    peers = [_peer(*key, B, us) for key, by_batch in PEERS.items() for B, us in by_batch.items()]
    ours = [
        _ours(case, form, buffer, B, us, bytes_)
        for case, (form, buffer, by_batch, bytes_) in OURS.items()
        for B, us in by_batch.items()
    ]
    missing = [
        {"case": "decode int8", "batch": B, "form": "decode", "buffer": 16, "kernel": None, "reason": "not shipped"}
        for B in (1, 8)
    ]
    crash = "AcceleratorError: CUDA error: an illegal memory access was encountered"
    failures = [{"name": "flashinfer decode", "B": 8, "state": "fp32", "T": 1, "reason": crash}]
    families = [
        {"name": "Triton decode", "seconds": 61.0, "reason": ""},
        {"name": "FlashInfer", "seconds": 240.0, "reason": "the family's time is over"},
    ]
    about = {
        "device": "NVIDIA H200",
        "capability": "9.0",
        "driver": "580",
        "torch": "2.11",
        "date": "2026-11-30T03:00:00Z",
    }
    return {
        "schema": 1,
        **about,
        "read_bytes_per_s": READ,
        "ours": [*ours, *missing],
        "peers": peers,
        "failures": failures,
        "families": families,
    }


def _peer(name: str, state: str, T: int, B: int, us: float) -> dict[str, Any]:
    """As a row of bench_peers.py."""
    times = {"us": us, "us_min": 0.99 * us, "us_max": 1.01 * us}
    return {"name": name, "B": B, "state": state, "T": T, **times, "gbs": 1.0, "layers": max(4, 256 // B), "note": ""}


def _ours(case: str, form: str, buffer: int, B: int, us: float, megabytes: float) -> dict[str, Any]:
    moved = megabytes * 1e6 * B
    times = {"us": us, "fastest_us": 0.995 * us, "slowest_us": 1.005 * us}
    kernel = {"case": case, "batch": B, "form": form, "buffer": buffer, "kernel": f"kvb_{form}_gated_delta_rule"}
    return {**kernel, **times, "bytes": moved, "floor_us": moved / READ * 1e6, "cursors_us": 1.6, "layers": 4}
