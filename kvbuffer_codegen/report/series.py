"""Figures of one layer on one device, from its timings and the cost model.

A model's curve is the bytes that a call must move (``ir/cost.py``: buffer cycles, folds included) over the read
bandwidth that was measured beside the timings: no kernel can be faster.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from kvbuffer_codegen.ir import cost
from kvbuffer_codegen.ir.forms import FORMS, MOST_TOKENS, KernelSpec
from kvbuffer_codegen.report.figures import MEASURED, MODEL, PREDICTED, Curve, Figure, Grid, Panel, Section
from kvbuffer_codegen.report.timings import Layer, Timing

LENGTHS = range(1, 65)  #: buffer lengths that the model's curve is drawn for
MOST_CURVES = 6  #: of what was measured, in one panel
CONTEXTS = (8, 32, 64)  #: contexts whose kv_only calls are drawn against the batch


def sections(found: Sequence[Timing]) -> list[Section]:
    """One section for each device and layer; kernels that know no recurrence (cursors) go with every layer of their
    device."""
    layers = sorted({t.layer for t in found if t.layer.recurrence_hash}, key=_order_of)
    return [_section(layer, [t for t in found if t.layer == layer], found) for layer in layers]


def _section(layer: Layer, own: list[Timing], found: Sequence[Timing]) -> Section:
    cycles = [t for t in own if t.context is None]
    verified = list(dict.fromkeys(t.numbers for t in cycles if t.form == "verify"))
    states = list(dict.fromkeys(t.numbers for t in own if t.form in ("decode", "step")))
    figures: list[Figure | Grid] = [*latencies(cycles)]
    figures += [windows([t for t in cycles if t.numbers == state], state) for state in verified] or [windows([], "")]
    figures += [crossover([t for t in own if t.numbers == state], state) for state in states] or [crossover([], "")]
    figures.append(shares(cycles))
    launches = [t for t in found if t.layer.device == layer.device and not t.layer.recurrence_hash]
    table = tuple((t.form, str(t.rows), f"{t.us:.2f}") for t in launches)
    return Section(_slug(layer), layer.title, _facts(own), tuple(figures), ("cursor kernel", "B", "us"), table)


def _order_of(layer: Layer) -> tuple[str, str, int, str]:
    """The most heads, of one GPU, first."""
    return layer.device, layer.recurrence, -layer.H, layer.title


def _slug(layer: Layer) -> str:
    words = f"{layer.device} {layer.recurrence} {layer.H} {layer.HV} {layer.K} {layer.V} {layer.io} {layer.layout}"
    return "-".join(words.lower().replace("/", " ").split())


def _facts(own: Sequence[Timing]) -> tuple[str, ...]:
    reads = [t.read / 1e9 for t in own if t.read]
    runs = ", ".join(sorted({t.run for t in own}))
    read = f"Plain read in these runs: {min(reads):,.0f} to {max(reads):,.0f} GB/s." if reads else ""
    few = " Some times are one number, without repeats." if any(t.repeats == 1 for t in own) else ""
    texts = (f"{len(own)} timings of the runs {runs}.{few}", read, *([] if _known(own) else [_UNKNOWN]))
    return tuple(text for text in texts if text)


_UNKNOWN = "The cost model's curves are missing: this version has no recurrence of that name and normal form."


def _known(own: Iterable[Timing]) -> bool:
    return all(t.layer.normal_form is not None for t in own)


# --- latency against buffer length and window


def latencies(found: Sequence[Timing]) -> list[Figure]:
    """Decode against L in one figure, or where that were too many curves in one for each dtype of the state."""
    decodes = [t for t in found if t.form == "decode"]
    states = list(dict.fromkeys(str(t.key["state"]) for t in decodes))
    if len(states) < 2 or len({_decoded(t) for t in decodes}) <= MOST_CURVES:
        return [latency(found)]
    return [latency([t for t in decodes if t.key["state"] == state], state) for state in states]


def latency(found: Sequence[Timing], state: str = "") -> Figure:
    """Decode against L: what was timed, and the model for every L."""
    decodes = [t for t in found if t.form == "decode"]

    def predicted(t: Timing) -> list[tuple[float, ...]]:
        spec = t.spec(kv_only=0)
        return _curve(t, LENGTHS, lambda L: replace(spec, buffer=L)) if spec else []

    panels = [
        Panel(f"B = {rows}", "buffer length L (tokens)", tuple(_swept(here, lambda t: t.buffer, _decoded, predicted)))
        for rows, here in _by_rows(decodes)
    ]
    notes = _lacking(decodes, "decode", [t.buffer for t in decodes], "buffer length")
    name, title = _of_state("latency", "Decode: latency against buffer length", state)
    return Figure(name, title, "us a call, one layer", tuple(panels), notes)


def windows(found: Sequence[Timing], state: str) -> Figure:
    """Verify against T; ceil(0.7 T) tokens of each window are accepted. The model's curve ends at T = L."""
    verifies = [t for t in found if t.form == "verify"]

    def predicted(t: Timing) -> list[tuple[float, ...]]:
        spec = t.spec(kv_only=0, tree=False)
        longest = min(t.buffer, MOST_TOKENS)
        return _curve(t, range(1, longest + 1), lambda T: replace(spec, window=T)) if spec else []

    panels = [
        Panel(f"B = {rows}", "window T (tokens)", tuple(_swept(here, lambda t: t.window, _verified, predicted)))
        for rows, here in _by_rows(verifies)
    ]
    notes = _lacking(verifies, "verify", [t.window for t in verifies], "window")
    name, title = _of_state("windows", "Verify: latency against window", state)
    return Figure(name, title, "us a call, one layer", tuple(panels), notes)


def _of_state(name: str, title: str, state: str) -> tuple[str, str]:
    """(name, title) of a figure of its own for one kind of state."""
    return ("-".join([name, *state.replace(",", "").split()]), f"{title} ({state} state)" if state else title)


def _decoded(t: Timing) -> str:
    return _modelled(t) + (f", C = {t.kv_only}" if t.kv_only else "")


def _verified(t: Timing) -> str:
    return _decoded(t) + (", tree" if t.key.get("tree") else "")


def _modelled(t: Timing) -> str:
    """What the model's curve depends on."""
    return f"{t.numbers}, L = {t.buffer}" if t.window else t.numbers


def _swept(
    here: Sequence[Timing],
    x: Callable[[Timing], int],
    label: Callable[[Timing], str],
    predicted: Callable[[Timing], list[tuple[float, ...]]],
) -> list[Curve]:
    """A curve of what was measured for each label, and one of the model for all that it predicts the same for."""
    curves: list[Curve] = []
    ordered = sorted(here, key=lambda t: (t.numbers, t.buffer if t.window else 0, t.kv_only))
    for name in dict.fromkeys(map(label, ordered)):
        same = sorted((t for t in here if label(t) == name), key=x)
        curves.append(Curve(name, MEASURED, tuple((x(t), t.us, t.least, t.most) for t in same), name))
        model, text = tuple(predicted(same[0])), _modelled(same[0])
        twin = next((i for i, c in enumerate(curves) if c.kind == MODEL and c.points == model), None)
        if twin is None and model:
            curves.append(Curve(f"{PREDICTED}{text}", MODEL, model, name))
        elif twin is not None and text not in curves[twin].label.removeprefix(PREDICTED).split("; "):
            curves[twin] = replace(curves[twin], label=f"{curves[twin].label}; {text}")
    return curves


def _curve(t: Timing, values: Iterable[int], spec: Callable[[int], KernelSpec]) -> list[tuple[float, ...]]:
    if not t.read:
        return []
    return [(x, _cycle_us(spec(x), t)) for x in values]


def _cycle_us(spec: KernelSpec, t: Timing) -> float:
    accepted = math.ceil(0.7 * spec.window) if spec.form == "verify" else 1
    return t.rows * _cycle_bytes(spec, t.layer.HV, accepted) / t.read * 1e6


@functools.lru_cache(4096)
def _cycle_bytes(spec: KernelSpec, HV: int, accepted: int) -> float:
    return cost.cycle_cost(spec, HV, accepted).bytes


def _by_rows(found: Iterable[Timing]) -> list[tuple[int, list[Timing]]]:
    found = list(found)
    return [(rows, [t for t in found if t.rows == rows]) for rows in sorted({t.rows for t in found})]


def _lacking(found: Sequence[Timing], form: str, values: Iterable[int], name: str) -> tuple[str, ...]:
    if not found:
        return (f"No {form} kernel was timed to the end: nothing is drawn.",)
    different = sorted(set(values))
    notes = [] if len(different) > 1 else [f"One {name} was timed, {different[0]}: the rest is the cost model alone."]
    notes += [] if all(t.read for t in found) else ["Where no read bandwidth was measured there is no model's curve."]
    return tuple(notes)


# --- which form serves best


def crossover(found: Sequence[Timing], state: str) -> Figure:
    """kv_only, decode and step against the tokens of a context, and against the batch."""
    name, title = _of_state("crossover", "Crossover of kv_only, decode and step", state)
    tokens = [t for t in found if t.form in ("decode", "step")]
    cycles = [t for t in tokens if t.context is None]
    capacity = max((t.kv_only for t in tokens), default=0) or max(CONTEXTS)
    panels = [
        Panel(f"B = {rows}", "context (tokens)", tuple(_against_context(here, capacity)))
        for rows, here in _by_rows(tokens)
    ]
    if len({t.rows for t in tokens}) > 1:
        panels.append(Panel("against the batch", "batch B (rows)", tuple(_against_batch(tokens, capacity))))
    missing = [form for form in ("step", "decode") if not any(t.form == form for t in cycles)]
    notes = [f"No {form} kernel was timed to the end." for form in missing]
    if tokens and not any(t.context is not None for t in tokens):
        notes.append("kv_only calls were not timed: their curve is the cost model's alone.")
    return Figure(name, title, "us a call, one layer", tuple(panels), (*notes, *_crossings(tokens)), log=True)


def _cycles(here: Iterable[Timing]) -> list[tuple[str, list[Timing]]]:
    """Step, and decode by buffer length: without kv_only capacity where such a kernel was timed."""
    here = [t for t in here if t.context is None]
    plain = {(t.form, t.buffer) for t in here if not t.kv_only}
    kept = [t for t in here if not t.kv_only or (t.form, t.buffer) not in plain]
    labels: dict[str, list[Timing]] = {}
    for t in sorted(kept, key=lambda t: (t.form == "step", t.buffer, t.rows)):
        labels.setdefault("step" if t.form == "step" else f"decode, L = {t.buffer}", []).append(t)
    return list(labels.items())


def _against_context(here: Sequence[Timing], capacity: int) -> list[Curve]:
    """A row past the capacity is an ordinary one: whatever its context, a step costs the same, and a decode's cycle."""
    ends = (1, 4 * capacity)
    curves = []
    for label, same in _cycles(here):
        t = min(same, key=lambda t: t.us)  # a step of any buffer length is the same kernel's work
        curves.append(Curve(label, MEASURED, tuple((x, t.us, t.least, t.most) for x in ends), label))
        if t.read:
            floor = t.bytes / t.read * 1e6
            curves.append(Curve(f"{PREDICTED}{label}", MODEL, tuple((x, floor) for x in ends), label))
    timed = sorted((t for t in here if t.context is not None), key=lambda t: (t.kv_only, t.context))
    if timed:
        points = tuple((t.context or 1, t.us, t.least, t.most) for t in timed)
        curves.append(Curve("kv_only", MEASURED, points, "kv_only"))
    decode = next((t for t in here if t.form == "decode" and t.read), None)
    if decode and decode.spec():
        model = tuple((n, _kv_only_us(decode, n)) for n in range(1, capacity + 1))
        curves.append(Curve(f"{PREDICTED}kv_only", MODEL, model, "kv_only"))
    return curves


def _against_batch(tokens: Sequence[Timing], capacity: int) -> list[Curve]:
    curves = []
    for label, same in _cycles(tokens):
        best = [min(here, key=lambda t: t.us) for _, here in _by_rows(same)]
        curves.append(Curve(label, MEASURED, tuple((t.rows, t.us, t.least, t.most) for t in best), label))
        floors = tuple((t.rows, t.bytes / t.read * 1e6) for t in best if t.read)
        curves += [Curve(f"{PREDICTED}{label}", MODEL, floors, label)] if floors else []
    decodes = {t.rows: t for t in tokens if t.form == "decode" and t.context is None and t.read and t.spec()}
    for n in (n for n in CONTEXTS if n <= capacity):
        label = f"kv_only, context {n}"
        timed = sorted((t for t in tokens if t.context == n), key=lambda t: t.rows)
        if timed:
            curves.append(Curve(label, MEASURED, tuple((t.rows, t.us, t.least, t.most) for t in timed), label))
        if decodes:
            points = tuple((rows, _kv_only_us(t, n)) for rows, t in sorted(decodes.items()))
            curves.append(Curve(f"{PREDICTED}{label}", MODEL, points, label))
    return curves


def _kv_only_us(decode: Timing, context: int) -> float:
    """A decode whose rows hold ``context`` tokens as records, one of them this call's, and no state."""
    spec = decode.spec()
    assert spec is not None
    HV = decode.layer.HV
    moved = cost.row_cost(spec, HV, context - 1, False).bytes - cost.state_bytes(spec, HV)
    return decode.rows * moved / decode.read * 1e6


def _crossings(found: Sequence[Timing]) -> list[str]:
    """Where decode overtakes step, and what kv_only is worth, by what was measured in one run."""
    by_label = dict(_cycles(found))
    steps = {(t.rows, t.run): t for t in by_label.pop("step", [])}
    notes = []
    for label, same in by_label.items():
        both = [t for t in same if (t.rows, t.run) in steps]
        faster = [t.rows for t in both if t.us < steps[t.rows, t.run].us]
        if both:
            notes.append(f"{label}: faster than step {_where(faster, [t.rows for t in both])}.")
        worth, spans = [], set()
        for t in same:
            contexts = {c.context: c.us for c in found if c.context and (c.rows, c.run) == (t.rows, t.run)}
            if len(contexts) > 1:
                mean = _mean(contexts)
                worth.append(f"{mean / t.us:.2f} ({mean:.2f} us) at B = {t.rows}")
                spans.add(f"{min(contexts)} to {max(contexts)}")
        if worth:
            over = " or ".join(sorted(spans))
            notes.append(f"kv_only, mean over contexts {over}, of {label}: {', '.join(worth)}.")
    return notes


def _where(faster: Sequence[int], timed: Sequence[int]) -> str:
    batches = ", ".join(map(str, timed))
    if faster and list(faster) == list(timed[-len(faster) :]):
        return f"from B = {faster[0]} on, of B = {batches}"
    return f"at B = {', '.join(map(str, faster))}, of B = {batches}" if faster else f"nowhere, of B = {batches}"


def _mean(values: Mapping[int, float]) -> float:
    """Of what is given at some places, over all places between: straight lines join them."""
    at = sorted(values)
    parts = [(values[a] + values[b]) / 2 * (b - a) for a, b in itertools.pairwise(at)]
    return sum(parts) / (at[-1] - at[0])


# --- shares


def shares(found: Sequence[Timing]) -> Grid:
    """Share of the byte floor for each kernel and bucket of value-head rows."""
    measured = [t for t in found if t.share is not None]
    labels = dict.fromkeys(_kernel(t) for t in sorted(measured, key=_order))
    sizes = sorted({(t.rows, t.rows * t.layer.HV) for t in measured})
    best: dict[tuple[str, int], float] = {}
    for t in measured:
        at = (_kernel(t), t.rows)
        best[at] = max(best.get(at, 0.0), t.share or 0.0)
    values = tuple(tuple(best.get((label, rows)) for rows, _ in sizes) for label in labels)
    notes = [f"{len(found) - len(measured)} timings without a read bandwidth are left out."]
    notes = notes if len(measured) < len(found) else []
    notes += ["Rows below B: batch rows times value heads, what buckets of schedules go by."] if measured else []
    notes += [] if measured else ["No kernel was timed beside a plain read: there are no shares."]
    columns = tuple(f"B = {rows}\n{wide} rows" for rows, wide in sizes)
    return Grid("shares", "Share of the byte floor, in percent", tuple(labels), columns, values, tuple(notes))


def _order(t: Timing) -> tuple[int, str, int, int, int]:
    return list(FORMS).index(t.form), t.numbers, t.window, t.buffer, t.kv_only


def _kernel(t: Timing) -> str:
    tree = " tree" if t.key.get("tree") else ""
    window = f", T = {t.window}" if t.window else ""
    length = "" if t.form == "step" else f", L = {t.buffer}"
    return f"{t.form}{tree}: {t.numbers}{window}{length}" + (f", C = {t.kv_only}" if t.kv_only else "")
