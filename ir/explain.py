"""What ``kvbuffer-codegen explain`` prints: a recurrence, its forms as formulas, its record layout and its memory."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

from . import cost
from .expr import Expr, to_text
from .forms import FORMS, KernelSpec, TokenProgram
from .language import Recurrence


def explain(recurrence: Recurrence, spec: KernelSpec, H: int, HV: int, layers: int, max_window: int) -> dict[str, Any]:
    """Everything about ``recurrence`` at one shape, as a JSON object. ``spec``: its decode form (any buffer length)."""
    nf, layout = recurrence.normal_form, spec.record_layout
    memory = cost.request_bytes(spec, HV, layers, max_window)
    buffered = memory["state"] + memory["ring"] + memory["cursors"]
    snapshots = memory["state"] + memory["snapshots"]
    verify = replace(spec, form="verify", window=max_window)
    step = cost.row_cost(replace(spec, form="step"), HV, 0, False)
    decode = cost.cycle_cost(spec, HV)
    return {
        "name": recurrence.name,
        "hash": nf.hash,
        "source": inspect.getsource(recurrence.function).rstrip(),
        "normal_form": _normal_form(spec.program),
        "affine": nf.affine,
        "forms": {name: _form(name, spec) for name in FORMS},
        "records": [
            {
                "name": f.name,
                "holds": to_text(f.expr),
                "heads": f.heads,
                "axis": f.axis,
                "dtype": f.stored(spec.io),
            }
            for f in layout.fields
        ],
        "shape": {
            "H": H,
            "HV": HV,
            "K": spec.K,
            "V": spec.V,
            "layers": layers,
            "io": spec.io,
            "state": spec.state,
            "records": spec.records,
        },
        "bytes_per_token": {
            "step": step.bytes * layers,
            "decode": decode.bytes * layers,
            "verify_per_accepted": cost.cycle_cost(verify, HV, max_window).bytes * layers / max_window,
            "record": cost.record_bytes(spec, HV) * layers,
        },
        "buffer": spec.buffer,
        "best_buffer": cost.best_buffer(spec, HV),
        "best_buffer_verify": cost.best_buffer(verify, HV, max_window),
        "window": max_window,
        "bytes_per_request": {**{k: memory[k] for k in ("state", "ring", "cursors")}, "total": buffered},
        "requests_per_gb": {"buffered": 1e9 / buffered, "snapshots": 1e9 / snapshots},
    }


def _normal_form(p: TokenProgram) -> list[str]:
    lines = [f"{d.name} = {'sum over K of ' if d.reduce else ''}{to_text(d.expr)}" for d in p.definitions]
    lines += [f"r{i} = S' @ ({to_text(x)})" for i, x in enumerate(p.reads)]
    lines += [f"a{r} = {to_text(x)}" for r, x in enumerate(p.lefts)]
    lines += [f"b{r} = {to_text(x)}" for r, x in enumerate(p.rights)]
    writes = "".join(f" + a{r} b{r}^T" for r in range(len(p.lefts)))
    decay = _decay(p)
    return [*lines, f"S = {f'e^({decay}) ' if decay else ''}S'{writes}", f"o = {to_text(p.output)}"]


def _decay(p: TokenProgram) -> str:
    parts: list[Expr] = [d for d in (p.log_decay_scalar, p.log_decay_key, p.log_decay_value) if d is not None]
    return " + ".join(f"{to_text(d)}{f'[{next(iter(d.axes))}]' if d.axes else ''}" for d in parts)


def _form(name: str, spec: KernelSpec) -> list[str]:
    """A form's formulas, in terms of the checkpoint S0 and records (a_j, b_j, g_j), j = 1..n."""
    p = spec.program
    ranks = range(len(p.lefts))
    decays = bool(_decay(p))
    w = "e^{s_j} " if decays else ""
    suffix = ["s_j = g_{j+1} + ... + g_n, newest first; s_0 = g_1 + ... + g_n"] if decays else []
    before = f"{'e^{s_0} ' if decays else ''}S0 + sum_j {w}" + (" + ".join(f"a{r}_j b{r}_j^T" for r in ranks) or "0")
    products = " + ".join(f"(b{r}_j . x) a{r}_j" for r in ranks)
    read = f"S' @ x = {'e^{s_0} ' if decays else ''}(S0 @ x) + sum_j {w}{products}"
    token = [f"a{r} = {to_text(x)}" for r, x in enumerate(p.lefts)] + [f"o = {to_text(p.output)}"]
    after = f"{f'e^({_decay(p)}) ' if decays else ''}S'" + "".join(f" + a{r} b{r}^T" for r in ranks)
    return {
        "step": [*suffix, f"S' = {before}  (n > 0)", *token, f"S0 <- {after};  n <- 0"],
        "decode": [*suffix, read, *token, f"append (a, b, g);  n + 1 > L: S0 <- {before}, n <- 0 first"],
        "flush": [*suffix, f"S0 <- {before};  n <- 0"],
        "publish": [*suffix, f"S0 of the second slot <- {before};  there n <- 0, here nothing changes"],
        "verify": [
            *suffix,
            "for t = 1..T, over the n records and the t - 1 tokens before it:",
            read,
            *token,
            "append (a, b, g) provisionally",
            "in a tree, for its ancestors instead: s_j sums the path to the node, from the node backwards",
        ],
        "advance": ["n <- n + 1 after decode; folded rows: base <- base + n, n <- 0 first"],
        "commit": ["n <- n + accepted; folded rows: base <- base + n, n <- 0 first; window closed"],
        "compact": ["(a, b, g)_{n+i} <- (a, b, g)_{n+path(i)}, i = 1..accepted"],
        "commit_path": ["as commit, where path is a child of the history, a child of that, ...; else 0 are accepted"],
    }[name]


def render(e: dict[str, Any]) -> str:
    """The object of :func:`explain` as text."""
    kind = "affine" if e["affine"] else "not affine"
    out = [f"{e['name']}  (hash {e['hash'][:16]}, {kind} in its reads)", "", e["source"], "", "Normal form"]
    out += [f"  {line}" for line in e["normal_form"]]
    out += ["", "Forms"]
    for name, lines in e["forms"].items():
        out += [f"  {name}: {FORMS[name].text}", *(f"      {line}" for line in lines)]
    out += ["", "Record"]
    for f in e["records"]:
        where = f"per {f['heads']} head" + (f", over {f['axis']}" if f["axis"] else "")
        out.append(f"  {f['name']:<22} {f['dtype']:<9} {where:<24} = {f['holds']}")
    return "\n".join([*out, "", *_memory(e)])


def _memory(e: dict[str, Any]) -> list[str]:
    s, b, m, r = e["shape"], e["bytes_per_token"], e["bytes_per_request"], e["requests_per_gb"]
    L, T = e["buffer"], e["window"]

    def mib(count: float) -> str:
        return f"{count / 2**20:.2f} MiB"

    tokens = f"step {mib(b['step'])}, decode L={L} {mib(b['decode'])}, verify T={T} {mib(b['verify_per_accepted'])}"
    memory = f"state {mib(m['state'])} + ring {mib(m['ring'])} + cursors {m['cursors']} B = {mib(m['total'])}"
    best = f"decode L={e['best_buffer']}, verify T={T} L={e['best_buffer_verify']}"
    shape = f"{s['layers']} layers, H={s['H']}, HV={s['HV']}, K={s['K']}, V={s['V']}"
    return [
        f"Shape: {shape}, io {s['io']}, state {s['state']}, records {s['records']}",
        f"  bytes per accepted token and request: {tokens}; one record {b['record'] / 1024:.1f} KiB",
        f"  best buffer length by bytes: {best}",
        f"  bytes per request: {memory}",
        f"  requests per GB: {r['buffered']:.1f} buffered, {r['snapshots']:.1f} with a snapshot per draft (T={T})",
    ]
