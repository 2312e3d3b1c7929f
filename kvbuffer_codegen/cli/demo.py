"""``demo``: derive, tune for this CPU, decode with a Qwen3-Next model, compare everything with Transformers itself."""

from __future__ import annotations

import argparse
import functools
import json
import math
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kvbuffer_codegen.cli.common import DONE, FAILED, CommandError, one_line, positive, print_json
from kvbuffer_codegen.cli.progress import progress
from kvbuffer_codegen.runtime.dispatcher import FallbackWarning

HELP = "derive, tune for this CPU, decode with a Transformers model and check every token"
RECURRENCE = "gated_delta_rule"
FORMS = ("step", "decode", "verify")
BUFFER, WINDOW = 16, 4
PROMPTS = (24, 9, 17, 3)  # tokens of the four prompts
HEADS, DIMS = (16, 32), (128, 128)  # the linear layers of Qwen3-Next
MODEL_HEADS = (2, 4)  # and those of the small model
SECONDS = 180  # for the whole of it
LOGIT_BOUND = 1e-4  # standard deviations of the logits; float32 noise is 1e-5, an output wrong by 0.1 % shows as 4e-3
FAULT = 1.001
SPEEDUP = 10.0


@dataclass
class Check:
    """One line of the table: what was measured, and the bound that it must keep."""

    name: str
    value: str
    bound: str
    passed: bool


@dataclass
class Report:
    """`say` hears of every step as it is done: the whole takes minutes."""

    say: Callable[[str], None]
    facts: dict[str, Any]
    checks: list[Check] = field(default_factory=list)

    def check(self, name: str, value: str, bound: str, passed: bool) -> None:
        self.checks.append(Check(name, value, bound, bool(passed)))
        self.say(f"{'  ok  ' if passed else 'FAILED'}  {name}: {value}")

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tokens", type=positive, default=256, help="greedy tokens of each prompt (default 256)")
    parser.add_argument("--repeats", type=positive, default=5, help="interleaved repeats of each timing (default 5)")
    parser.add_argument("--budget", type=positive, default=90, help="seconds that tuning may take (default 90)")
    parser.add_argument("--out", type=Path, default=Path("demo.json"), help="where the report goes (default demo.json)")


def run(args: argparse.Namespace) -> int:
    try:
        import transformers

        import kvbuffer_codegen.integrations.transformers  # noqa: F401  (before a model's module: see there)
    except ImportError:
        raise CommandError("transformers is not installed; fix: pip install 'kvbuffer-codegen[demo]'", FAILED) from None
    from kvbuffer_codegen.autotune.logs import LogError
    from kvbuffer_codegen.autotune.worker import WorkerError
    from kvbuffer_codegen.compiler.toolchain import MissingCompiler
    from kvbuffer_codegen.runtime.policy import PolicyError, policy

    start = time.monotonic()
    transformers.logging.set_verbosity_error()
    say = (lambda text: None) if args.json else functools.partial(print, flush=True)
    report = Report(say, {"transformers": transformers.__version__, "torch": torch.__version__})
    report.facts |= {"threads": torch.get_num_threads(), "tokens": args.tokens, "prompts": PROMPTS}
    # A kernel that was tuned and is not found would be served by torch operations: right, slow, and not what is shown.
    try:
        policy()  # before the time that tuning takes
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("error", FallbackWarning)
            tune_forms(report, args.budget, args.json)
            decode_a_model(report, args.tokens, args.repeats)
            time_the_layer(report, args.repeats)
            time_the_layer(report, args.repeats, layers=4)
    except (LogError, MissingCompiler, PolicyError, WorkerError) as error:
        raise CommandError(one_line(error), FAILED) from None
    report.facts["seconds"] = seconds = time.monotonic() - start
    report.check("demo, whole", f"{seconds:.0f} s", f"<= {SECONDS} s", seconds <= SECONDS)
    document = {"passed": report.passed, "checks": [asdict(check) for check in report.checks], **report.facts}
    args.out.write_text(json.dumps(document, indent=1, default=str) + "\n")
    print_json(document) if args.json else show(report, args.out)
    return DONE if report.passed else FAILED


# --- the kernels


def tune_forms(report: Report, budget: int, quiet: bool) -> None:
    """Derives the forms, tunes those that a token runs at both sizes used here, and builds the cursor kernels."""
    from kvbuffer_codegen import caches
    from kvbuffer_codegen.autotune.install import add_default
    from kvbuffer_codegen.autotune.tune import tune
    from kvbuffer_codegen.ir.forms import cursor_spec
    from kvbuffer_codegen.schedules import space
    from kvbuffer_codegen.schedules.targets import target

    start, cpu = time.monotonic(), target("cpu")
    report.say(f"Deriving {', '.join(FORMS)} of {RECURRENCE} and tuning them for this CPU, about {budget} s")
    with progress(quiet) as bar:
        sizes: dict[str, Any] = {"heads": [MODEL_HEADS, HEADS], "dims": DIMS, "batches": (len(PROMPTS),)}
        lengths: dict[str, Any] = {"buffers": (BUFFER,), "windows": (WINDOW,)}
        found = tune(RECURRENCE, **sizes, **lengths, forms=FORMS, budget_s=budget, progress=bar)
    if found.failures:
        raise CommandError("; ".join(found.failures), FAILED)
    kernels = caches.cache_folder("kernels")
    for form in ("advance", "commit"):
        spec = cursor_spec(form)
        add_default(spec, space.default(spec, cpu), cpu, kernels)
    seconds = time.monotonic() - start
    report.facts["tuning_seconds"] = seconds
    report.facts |= {"device": found.device, "kernels": kernels, "logs": caches.cache_folder("tuning_logs")}
    report.facts |= {"read_bytes_per_s": found.read, "tuned": found.outcomes}


# --- the model


def build_model() -> Any:
    """A hybrid Qwen3-Next: three linear layers (2 / 4 heads of 128 x 128) and a full-attention one; random weights."""
    from transformers import Qwen3NextConfig, Qwen3NextForCausalLM

    torch.manual_seed(0)
    config = Qwen3NextConfig(
        vocab_size=1024,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        linear_num_key_heads=MODEL_HEADS[0],
        linear_num_value_heads=MODEL_HEADS[1],
        linear_key_head_dim=DIMS[0],
        linear_value_head_dim=DIMS[1],
        num_experts=0,
        initializer_range=0.1,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=None,
    )
    return Qwen3NextForCausalLM(config).eval()


def build_prompts() -> dict[str, Tensor]:
    """Token ids and mask, [4, longest], padded on the left."""
    longest = max(PROMPTS)
    mask = (torch.arange(longest) >= longest - torch.tensor(PROMPTS)[:, None]).long()
    ids = torch.randint(1, 1024, mask.shape, generator=torch.Generator().manual_seed(1))
    return {"input_ids": ids * mask, "attention_mask": mask}


def generate(model: Any, prompts: dict[str, Tensor], tokens: int, **more: Any) -> tuple[Tensor, Tensor]:
    """Greedy tokens [4, longest + tokens] and logits [tokens, 4, vocabulary]."""
    out = model.generate(
        **prompts, max_new_tokens=tokens, do_sample=False, output_logits=True, return_dict_in_generate=True, **more
    )
    return out.sequences, torch.stack(out.logits)


def decode_a_model(report: Report, tokens: int, repeats: int) -> None:
    """Tokens and logits of every path beside Transformers' own, the self-test, and the time of generate()."""
    from kvbuffer_codegen.integrations.transformers import attach

    model, prompts = build_model(), build_prompts()
    report.say(f"Decoding {tokens} tokens of {len(PROMPTS)} prompts, by Transformers and through the kernels")
    own_tokens, own_logits = generate(model, prompts, tokens)

    def compare(name: str, logits: Tensor, generated: Tensor | None, note: str = "") -> None:
        error = distance(logits, own_logits)
        if generated is not None:
            same = (generated == own_tokens).all(dim=1).sum().item()
            value = f"{same} of {len(own_tokens)} prompts identical{note}"
            report.check(f"{name}: {tokens} greedy tokens", value, "all", same == len(own_tokens))
        report.check(
            f"{name}: largest logit difference", f"{error:.1e} std", f"<= {LOGIT_BOUND:g}", error <= LOGIT_BOUND
        )
        report.facts.setdefault("logit_difference", {})[name] = error

    with attach(model, buffer=BUFFER, max_window=WINDOW, form="decode") as handle:
        counter = FoldCounter(handle)
        generated, logits = generate(model, prompts, tokens, logits_processor=[counter])
        report.facts["folds"] = counter.folds
    compare("buffered", logits, generated, f", {counter.folds} folds")
    if tokens > BUFFER:
        report.check("buffered: folds", str(counter.folds), "> 0", counter.folds > 0)

    with attach(model, buffer=BUFFER, max_window=WINDOW):
        logits, windows = feed_in_windows(model, prompts, own_tokens, tokens)
    compare(f"verify + commit, {windows} windows of {WINDOW}", logits, None)

    with attach(model, buffer=BUFFER, max_window=WINDOW) as handle:
        generated, logits = generate(model, prompts, tokens)
    compare("dispatcher's choice", logits, generated)

    # Fed the same tokens, or the first wrong token would do all the failing.
    with attach(model, buffer=BUFFER, max_window=WINDOW), scaled_outputs(model):
        error = distance(feed_in_windows(model, prompts, own_tokens, tokens)[0], own_logits)
    report.check(f"self-test: output x {FAULT}", f"{error:.1e} std", f"> {LOGIT_BOUND:g}", error > LOGIT_BOUND)

    report.say(f"Timing generate(), {repeats} times each")

    def generate_attached() -> None:
        with attach(model, buffer=BUFFER, max_window=WINDOW):
            model.generate(**prompts, max_new_tokens=tokens, do_sample=False)

    own, attached = interleaved(
        repeats, lambda: model.generate(**prompts, max_new_tokens=tokens, do_sample=False), generate_attached
    )
    report.check("generate(), whole", f"{attached:.2f} s", f"<= {own:.2f} s, Transformers' own", attached <= own)
    report.facts["generate_seconds"] = {"transformers": own, "attached": attached}


def distance(logits: Tensor, reference: Tensor) -> float:
    """Largest difference, in standard deviations of the reference; infinite where a value is not finite."""
    worst = ((logits - reference).abs().max() / reference.std()).item()
    return worst if math.isfinite(worst) else math.inf


class FoldCounter:
    """A logits processor that changes nothing and counts how often a row's records became fewer: its folds."""

    def __init__(self, handle: Any) -> None:
        self.handle, self.folds = handle, 0
        self._before: Tensor | None = None

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        (rows,) = self.handle.live
        pending = rows.pending()
        if self._before is not None:
            self.folds += int((pending <= self._before).sum())
        self._before = pending
        return scores


def feed_in_windows(model: Any, prompts: dict[str, Tensor], sequence: Tensor, tokens: int) -> tuple[Tensor, int]:
    """The same tokens again, WINDOW at a time: logits [tokens, 4, vocabulary] and the number of windows."""
    from transformers import DynamicCache

    cache, longest = DynamicCache(config=model.config), prompts["input_ids"].shape[1]
    mask = torch.cat([prompts["attention_mask"], torch.ones(len(sequence), tokens, dtype=torch.long)], dim=1)
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    logits, windows = [], 0
    for start in (0, *range(longest, longest + tokens - 1, WINDOW)):
        end = longest if start == 0 else min(start + WINDOW, longest + tokens - 1)
        arguments = {"attention_mask": mask[:, :end], "position_ids": positions[:, start:end], "cache": cache}
        out = model(sequence[:, start:end], use_cache=True, **arguments).logits
        logits.append(out[:, -1:] if start == 0 else out)
        windows += start > 0
    return torch.cat(logits, dim=1).transpose(0, 1), windows


@contextmanager
def scaled_outputs(model: Any) -> Iterator[None]:
    """Every linear layer's decoded output is wrong by a factor of FAULT."""

    def scale(module: Any, inputs: Any, output: Tensor) -> Tensor:
        return output * FAULT if output.shape[1] <= WINDOW else output

    hooks = [
        layer.linear_attn.register_forward_hook(scale) for layer in model.model.layers if hasattr(layer, "linear_attn")
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def interleaved(repeats: int, *programs: Callable[[], Any]) -> list[float]:
    """Median seconds of each program; they take turns, so that a change of the machine's speed meets all of them."""
    seconds: list[list[float]] = [[] for _ in programs]
    for repeat in range(repeats + 1):
        for times, program in zip(seconds, programs, strict=True):
            start = time.perf_counter()
            program()
            if repeat:  # the first round warms up
                times.append(time.perf_counter() - start)
    return [statistics.median(times) for times in seconds]


# --- the layer at its real shape


def time_the_layer(report: Report, repeats: int, layers: int = 1) -> None:
    """A linear layer of Qwen3-Next, batch 4, float32, beside Transformers' fallback: mean over a buffer cycle.

    The bound is on one layer, called again and again by both. With several in turn, as in a model, states come from
    memory and not from the cache: reported beside it, without a bound.
    """
    from transformers.models.qwen3_next.modeling_qwen3_next import torch_recurrent_gated_delta_rule

    from kvbuffer_codegen.runtime import Pool

    (H, HV), (K, V), batch, own_tokens = HEADS, DIMS, 4, 4
    random = torch.Generator().manual_seed(2)
    shapes = {"q": (H, K), "k": (H, K), "v": (HV, V), "a": (HV,), "b": (HV,)}
    window = {name: torch.randn(batch, WINDOW, *shape, generator=random) for name, shape in shapes.items()}
    token = {name: x[:, 0].contiguous() for name, x in window.items()}
    parameters = {"A_log": torch.rand(HV, generator=random) * 2 - 1, "dt_bias": torch.ones(HV)}
    states = list(torch.randn(layers, batch, HV, K, V, generator=random))
    pools = {}
    for form in FORMS:
        pool = Pool(
            RECURRENCE,
            layers=layers,
            slots=batch,
            heads=HEADS,
            dims=DIMS,
            io=torch.float32,
            state=torch.float32,
            buffer=BUFFER,
            max_window=WINDOW,
            form="auto" if form == "verify" else form,
            device="cpu",
        )
        slots = torch.tensor([pool.alloc() for _ in range(batch)], dtype=torch.int32)
        pool.load(slots, torch.stack(states).transpose(-1, -2))
        pools[form] = pool, slots
    full = torch.full((batch,), WINDOW, dtype=torch.int32)

    def generated(form: str) -> None:
        pool, slots = pools[form]
        for _ in range(BUFFER if form != "verify" else BUFFER // WINDOW):
            for layer in range(layers):
                if form == "verify":
                    pool.verify(layer, slots, **window, **parameters)
                else:
                    pool.decode(layer, slots, **token, **parameters)
            pool.commit(slots, full) if form == "verify" else pool.advance(slots)

    def own() -> None:
        q, k, v, a, b = (token[name][:, None] for name in ("q", "k", "v", "a", "b"))
        for _ in range(own_tokens):
            for layer in range(layers):
                gates = {
                    "g": -parameters["A_log"].exp() * torch.nn.functional.softplus(a + parameters["dt_bias"]),
                    "beta": b.sigmoid(),
                }
                _, states[layer] = torch_recurrent_gated_delta_rule(
                    q, k, v, **gates, initial_state=states[layer], output_final_state=True, use_qk_l2norm_in_kernel=True
                )

    if layers == 1:
        report.say(f"Timing a layer of {H}/{HV} heads of {K} x {V}")
    medians = interleaved(repeats, own, *(lambda form=form: generated(form) for form in FORMS))
    own_ms, *kernel_ms = (s * 1e3 / layers / (own_tokens if i == 0 else BUFFER) for i, s in enumerate(medians))
    times = dict(zip(FORMS, kernel_ms, strict=True))
    speedup, fastest = own_ms / times["decode"], min(times, key=lambda form: times[form])
    value = f"{times['decode']:.3f} ms, {speedup:.1f} x Transformers' {own_ms:.2f} ms"
    measured = {"transformers": own_ms, **times}
    if layers > 1:
        report.say(f"  with {layers} layers in turn, decode of one: {value}")
        report.facts["layer_in_turn_ms_per_token"] = {"layers": layers, **measured}
        return
    report.check(f"decode, {H}/{HV} heads of {K} x {V}, batch {batch}", value, f">= {SPEEDUP:g} x", speedup >= SPEEDUP)
    report.facts["layer_ms_per_token"] = measured
    report.facts["fastest_form"] = fastest


# --- what is printed


def show(report: Report, path: Path) -> None:
    """The tables, on a terminal in colour."""
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 120)
    columns = ("form", "heads", "tried", "chosen, us", "best", "median", "of read", "schedule")
    tuned = Table(*columns, title=f"Tuned for {report.facts['device']}", title_justify="left")
    for o in report.facts["tuned"]:
        schedule = ", ".join(f"{name} {value}" for name, value in o["schedule"].items() if name != "kind")
        times = (f"{o[name]:.0f}" for name in ("us", "best_us", "median_us"))
        heads = "/".join(map(str, o["heads"]))
        tuned.add_row(o["form"], heads, str(o["candidates"]), *times, f"{o['roofline']:.0%}", schedule)
    checks = Table("check", "measured", "bound", "", title="Against Transformers", title_justify="left")
    for check in report.checks:
        checks.add_row(check.name, check.value, check.bound, "[green]ok[/]" if check.passed else "[red]FAILED[/]")
    console.print(tuned, checks)
    times = report.facts["layer_ms_per_token"]
    listing = ", ".join(f"{form} {times[form]:.3f} ms" for form in FORMS)
    console.print(f"Fastest form on this machine: {report.facts['fastest_form']} ({listing} for one layer and token)")
    console.print(f"Kernels: {report.facts['kernels']}, tuning logs: {report.facts['logs']}")
    console.print(f"{'All checks passed' if report.passed else 'Some checks FAILED'}; written to {path}")
