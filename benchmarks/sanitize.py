"""compute-sanitizer over one kernel of every form and kind of gate. Two steps, which need not share a machine:

    python benchmarks/sanitize.py --build DIR [--target sm_90a]        # needs the compiler, no GPU
    python benchmarks/sanitize.py DIR [--tool memcheck,racecheck]      # needs a GPU, compute-sanitizer, torch, numpy

Every kernel of DIR is called, under each tool, with small batches of rows that fold and rows that do not, and held
against the oracle too. Prints what the tools report; exit code 1 where one reports anything or a kernel is wrong.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from h200 import importable, loaded

KINDS = (
    "linear_attention",  # no decay
    "lightning",  # constant
    "gated_delta_rule",  # scalar
    "gla",  # over K
    "kda",  # over K, with a read before the write
    "over_value",  # over V
    "rwkv7",  # over K, rank 2
    "gated_delta_product_2",  # scalar, rank 2
    "gated_delta_product_3",  # rank 3
)
FORMS: dict[str, dict[str, Any]] = {
    "step": {"form": "step"},
    "decode": {"form": "decode"},
    "decode-kv_only": {"form": "decode", "kv_only": 24, "layout": "KV"},
    "flush": {"form": "flush", "kv_only": 24},
    "verify": {"form": "verify", "window": 4},
    "verify-kv_only": {"form": "verify", "window": 3, "kv_only": 24},
    "verify-long": {"form": "verify", "window": 12},
    "verify_tree": {"form": "verify", "window": 9, "tree": True},
    "publish": {"form": "publish", "kv_only": 24},
    "compact": {"form": "compact"},
}
#: States that the gated delta rule is called with besides, in forms that read and fold.
STATES: dict[str, dict[str, Any]] = {
    "float16": {"state": "float16"},
    "int8": {"state": "int8"},
    "float8": {"state": "float8_e4m3fn"},
    "stochastic": {"state": "bfloat16", "rounding": "stochastic"},
}
SHAPES = ({"K": 64, "V": 32, "buffer": 6, "io": "bfloat16"}, {"K": 100, "V": 80, "buffer": 20, "io": "float16"})


def build(folder: Path, target_name: str) -> None:
    """One artifact a form and kind below ``folder``, wide and odd shapes in turn; narrow states; the cursor forms."""
    from kvbuffer_codegen.compiler import build as compiler
    from kvbuffer_codegen.ir import recurrences
    from kvbuffer_codegen.ir.forms import KernelSpec, cursor_spec
    from kvbuffer_codegen.ir.language import HeadScalar, Key, State, Value, exp, outer, recurrence, softplus
    from kvbuffer_codegen.schedules import space
    from kvbuffer_codegen.schedules.space import CURSOR_FORMS
    from kvbuffer_codegen.schedules.targets import target

    @recurrence
    def over_value(S: State, q: Key, k: Key, v: Value, g: Value, D: HeadScalar) -> Any:
        """A decay per value channel: no shipped recurrence has one."""
        S = exp(-softplus(g)) * S + outer(v, k)
        return S, S @ q + D * v

    known = {**recurrences.RECURRENCES, over_value.name: over_value}
    specs = {form: cursor_spec(form) for form in CURSOR_FORMS}
    for i, kind in enumerate(KINDS):
        for j, (name, form) in enumerate(FORMS.items()):
            shape = SHAPES[(i + j) % len(SHAPES)]
            specs[f"{name}-{kind}"] = KernelSpec(**{**shape, **form}, recurrence=known[kind].normal_form, ratio=2)
    rule = known["gated_delta_rule"].normal_form
    for (state, more), name in itertools.product(STATES.items(), ("step", "decode", "verify", "publish")):
        specs[f"{name}-{state}"] = KernelSpec(**{**SHAPES[0], **FORMS[name], **more}, recurrence=rule, ratio=2)
    tgt = target(target_name)
    for name, spec in specs.items():
        if not (folder / name / "manifest.json").exists():
            compiler.build(spec, space.default(spec, tgt), tgt, folder / name)
            print(name, flush=True)


def call(folder: Path) -> int:
    """Under a tool: every kernel on one batch against the oracle. The number of wrong ones."""
    import torch

    from kvbuffer_codegen.checking import check_kernel

    wrong = 0
    for path in sorted(p.parent for p in folder.rglob("manifest.json")):
        kernel, spec, _ = loaded(path, torch.device("cuda"))
        result = check_kernel(kernel, spec, "cuda")
        torch.cuda.synchronize()
        print(f"{path.name}: {result.reason or 'right'}", flush=True)
        wrong += not result.ok
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="folder of artifacts")
    parser.add_argument("--build", type=Path, metavar="DIR", help="compile the kernels into DIR instead; resumes")
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--tool", default="memcheck,racecheck", help="of compute-sanitizer")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.build:
        build(args.build, args.target)
        return 0
    if args.folder is None or not any(args.folder.rglob("manifest.json")):
        parser.error(f"folder {args.folder}: no manifest.json below it; make it with --build DIR")
    importable()
    if args.child:
        return 1 if call(args.folder) else 0
    sanitizer = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    failed = []
    for tool in args.tool.split(","):
        # Records and outputs of padding rows stay NaN, which initcheck would report: it is no tool for these batches.
        command = [sanitizer, "--tool", tool, "--error-exitcode", "9", "--kernel-name-exclude", "kernel_substring=at::"]
        done = subprocess.run([*command, sys.executable, __file__, str(args.folder), "--child"])
        print(f"{tool}: {'clean' if not done.returncode else f'exit code {done.returncode}'}", flush=True)
        failed += [tool] if done.returncode else []
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
