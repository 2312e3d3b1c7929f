"""Drift of states against float64, as `tests/numerics.py` defines it: the table of docs/numerics.md, or the bars.

    python benchmarks/numerics.py --table                 # measure what is missing, rewrite docs/numerics.md
    python benchmarks/numerics.py --bars [--tokens 4096]  # the bars, as tests/test_numerics.py has them
    python benchmarks/numerics.py --build sm_90a          # only compile what --bars runs, for a machine with that GPU
    python benchmarks/numerics.py --bars --device cuda

Kernels are built as they are needed into --kernels (default `.cache/numerics/kernels`); on another machine than the
one that compiles, what --build left there is enough: it needs a checkout, torch and numpy. The table can be broken off
and continued: every finished measurement is kept in `.cache/numerics`, named after all sources that it depends on.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "numerics"
DOCUMENT = ROOT / "docs" / "numerics.md"
BEGIN, END = "<!-- table: begin -->\n", "<!-- table: end -->"
STATES = ("float32", "float16", "bfloat16", "int8", "float8_e4m3fn")
RECORDS = ("exact", "hilo", "bf16")
TABLE_TOKENS = (1, 256, 4096, 16384)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--bars", action="store_true")
    parser.add_argument("--build", metavar="TARGET")
    parser.add_argument("--tokens", type=int, default=4096, help="tokens after which bars are held (default 4096)")
    parser.add_argument("--dims", default="128,32", help="K,V of --bars and --build (default 128,32)")
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--seconds", type=float, help="start no measurement of --table after so long; it has what is there"
    )
    parser.add_argument("--kernels", type=Path, default=CACHE / "kernels")
    args = parser.parse_args()
    os.environ["KVBUFFER_CODEGEN_PATH"] = str(args.kernels.resolve())
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks")]
    from h200 import importable

    importable()
    import numerics

    K, V = (int(n) for n in args.dims.split(","))
    studies = [numerics.Study(name, tokens=(args.tokens,), K=K, V=V) for name in numerics.GATES]
    failed = 0
    if args.build:
        for study in studies:
            for setting in bar_settings():
                build(study, setting, args.build, args.kernels)
    if args.bars:
        failed = sum(hold(study, state, args) for study in studies for state in ("float32", "float16", "int8"))
    if args.table:
        write_table(args)
    return int(failed > 0)


def bar_settings() -> list[Any]:
    from numerics import BARS, Setting

    forms = [(form, state) for b in BARS for form, state in (("decode", b.state), ("step", b.against))]
    return [Setting(form, state) for form, state in dict.fromkeys(forms)]


def build(study: Any, setting: Any, target_name: str, folder: Path) -> None:
    """Compile the kernels of a measurement that ``folder`` has not."""
    from kvbuffer_codegen.autotune.install import add_default
    from kvbuffer_codegen.index import read_index
    from kvbuffer_codegen.schedules import space
    from kvbuffer_codegen.schedules.targets import target

    wanted = target(target_name)
    for spec in setting.specs(study):
        if not any(spec.name in name for name in read_index(folder).artifacts):
            add_default(spec, space.default(spec, wanted), wanted, folder)


def hold(study: Any, state: str, args: argparse.Namespace) -> int:
    """Print how far a buffered state is from its bars; the number of bars missed."""
    from numerics import BARS, Setting, failures

    against = next(b.against for b in BARS if b.state == state)
    if args.device == "cpu":
        for setting in (Setting("decode", state), Setting("step", against)):
            build(study, setting, "cpu", args.kernels)
    started = time.monotonic()
    missed = failures(study, state, args.device, report=lambda line: print(f"  {line}"))
    print(f"{study.recurrence}, {state}: {len(missed)} missed, {time.monotonic() - started:.0f} s", flush=True)
    return len(missed)


# --- the table


def write_table(args: argparse.Namespace) -> None:
    from numerics import GATES, Study

    started, text, done = time.monotonic(), "", 0
    studies = [Study(name, tokens=TABLE_TOKENS, seeds=(0,)) for name in GATES]
    rows: dict[str, list[list[str]]] = {study.recurrence: [] for study in studies}
    for setting, study in itertools.product(table_settings(), studies):
        if args.seconds is None or time.monotonic() - started < args.seconds or kept(study, setting, args).exists():
            rows[study.recurrence] += rows_of(study, setting, args)
            done += 1
    for study in studies:
        head = ["state", "records", "rounding", "keys", *(f"decay {d.name}" for d in study.decays)]
        lines = (head, ["---"] * len(head), *rows[study.recurrence])
        text += f"\n### {study.recurrence}\n\n" + "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
    total = len(table_settings()) * len(studies)
    if done < total:
        text = f"\n{done} of {total} combinations are measured; the command goes on with the rest.\n" + text
    before, _, rest = DOCUMENT.read_text().partition(BEGIN)
    DOCUMENT.write_text(before + BEGIN + text + "\n" + END + rest.partition(END)[2])


def table_settings() -> list[Any]:
    from numerics import Setting

    nearest = [Setting("step", state) for state in STATES]
    nearest += [Setting("decode", state, records) for records in RECORDS for state in STATES]
    return nearest + [replace(s, rounding="stochastic") for s in nearest if s.state != "float32"]


def rows_of(study: Any, setting: Any, args: argparse.Namespace) -> list[list[str]]:
    """A line for every kind of keys: for every decay the drift after each of the token counts."""
    drifts = measured(study, setting, args)
    made = []
    for i, kind in enumerate(study.inputs):
        cells = [" ".join(f"{drifts[str(t)][i][j]:.0e}" for t in study.tokens) for j in range(len(study.decays))]
        records = setting.records if setting.form == "decode" else "none (recurrent)"
        made.append([setting.state, records, setting.rounding, kind, *cells])
    return made


def measured(study: Any, setting: Any, args: argparse.Namespace) -> dict[str, Any]:
    """Token count -> typical drift [inputs, decays]; measured once for the sources as they are."""
    from numerics import drift, typical

    file = kept(study, setting, args)
    if not file.exists():
        started = time.monotonic()
        if args.device == "cpu":
            build(study, setting, "cpu", args.kernels)
        errors = drift(study, setting, args.device)
        part = file.with_suffix(".part")
        part.write_text(json.dumps({str(t): typical(e).tolist() for t, e in errors.items()}))
        part.rename(file)
        print(f"{study.recurrence}, {setting}: {time.monotonic() - started:.0f} s", flush=True)
    return dict(json.loads(file.read_text()))


def kept(study: Any, setting: Any, args: argparse.Namespace) -> Path:
    from numerics import digest

    from kvbuffer_codegen.autotune.sources import sources_hash

    sources = sources_hash("ir", "schedules", "compiler")
    return CACHE / f"drift-{args.device}-{digest(study, setting, sources)}.json"


if __name__ == "__main__":
    sys.exit(main())
