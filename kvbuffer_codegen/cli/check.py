"""``check``: every artifact against the float64 oracle, or every shipped kernel against the tree that it came from."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from kvbuffer_codegen.artifact import ArtifactError, read_artifact
from kvbuffer_codegen.caches import search_path, shipped_folder
from kvbuffer_codegen.cli import covering
from kvbuffer_codegen.cli.check_portable import check_portable
from kvbuffer_codegen.cli.common import (
    DONE,
    FAILED,
    CommandError,
    add_folder_arguments,
    folders_of,
    one_line,
    pair,
    positive,
    print_json,
    print_table,
    recurrence_of,
)
from kvbuffer_codegen.cli.progress import progress
from kvbuffer_codegen.cli.verdict import PASSED, SKIPPED, WRONG, Verdict
from kvbuffer_codegen.index import INDEX, read_index
from kvbuffer_codegen.ir.language import Recurrence

HELP = "hold artifacts against the oracle; --stale: shipped kernels against the sources of this tree"
COLUMNS = ("status", "name", "target", "error", "reason", "where")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_folder_arguments(
        parser, "only artifacts of this recurrence, a name or path.py:function; its function is the oracle"
    )
    parser.add_argument("--stale", action="store_true", help="emit and compile shipped kernels again and compare")
    parser.add_argument(
        "--compile", type=positive, metavar="N", help="with --stale: compile only N of them again (default: all)"
    )
    parser.add_argument(
        "--part", type=pair, metavar="I,N", help="with --stale: the I-th of N shares of them, for N processes at once"
    )
    parser.add_argument("--junit", type=Path, metavar="FILE", help="also write the results as JUnit XML")
    covering.add_check_arguments(parser)


def run(args: argparse.Namespace) -> int:
    if args.covering or args.list:
        return covering.check(args)
    folders = folders_of(args.path) or ([shipped_folder()] if args.stale else search_path())
    found, verdicts = artifact_folders(folders)
    mine = recurrence_of(args.recurrence) if args.recurrence else None
    if mine:
        found = [folder for folder in found if _is_of(folder, mine.name)]
    part, parts = args.part or (1, 1)
    if not 1 <= part <= parts:
        raise CommandError(f"--part {part},{parts}; accepted: I,N with I from 1 to N")
    found = found[part - 1 :: parts]
    with progress(args.json) as report:
        if args.stale:
            verdicts += _stale(found, mine, report, args.compile)
        else:
            verdicts += _against_the_oracle(found, args.recurrence or "", report)
    verdicts += [] if mine or part > 1 else check_portable(folders, args.stale)
    counts = {status: sum(v.status == status for v in verdicts) for status in (PASSED, WRONG, SKIPPED)}
    if args.junit:
        write_junit(args.junit, verdicts)
    if args.json:
        print_json({**counts, "artifacts": [vars(v) for v in verdicts]})
    else:
        if verdicts:
            print_table([vars(v) for v in verdicts], COLUMNS)
        what = "shipped kernels" if args.stale else "artifacts"
        print(f"{len(verdicts)} {what}: " + ", ".join(f"{n} {status}" for status, n in counts.items()))
    return FAILED if counts[WRONG] else DONE


def artifact_folders(folders: list[Path]) -> tuple[list[Path], list[Verdict]]:
    """Every folder with a manifest, and verdicts on what the indexes say: lists that cannot be read, artifacts that are
    missing or not what was listed."""
    found: list[Path] = []
    wrong: list[Verdict] = []
    for folder in folders:
        found += sorted(path.parent for path in folder.rglob("manifest.json")) if folder.is_dir() else []
        if not (folder / INDEX).exists():
            continue
        try:
            for relative, digest in read_index(folder).artifacts.items():
                read_artifact(folder / relative, digest)
        except ArtifactError as error:
            wrong.append(Verdict(INDEX, str(folder), WRONG, one_line(error)))
    return found, wrong


def _is_of(folder: Path, name: str) -> bool:
    """Whether the artifact says that it is of the recurrence called ``name``; one that cannot be read may be."""
    try:
        recurrence = read_artifact(folder).manifest["recurrence"]
    except ArtifactError:
        return True
    return recurrence is not None and recurrence["name"] == name


# --- against the oracle


def _against_the_oracle(folders: list[Path], source: str, report: Callable[[float, float, str], None]) -> list[Verdict]:
    import torch

    from kvbuffer_codegen.autotune.measure import Bench

    gpu = torch.cuda.is_available()
    with Bench("cpu") as cpu_bench, Bench("cuda") as gpu_bench:
        benches = {"cpu": cpu_bench} | ({"cuda": gpu_bench} if gpu else {})
        verdicts = []
        for number, folder in enumerate(folders):
            report(number, len(folders), folder.name[:28])
            begin = time.monotonic()
            verdict = _check(folder, source, benches)
            verdict.seconds = round(time.monotonic() - begin, 3)
            verdicts.append(verdict)
    return verdicts


def _check(folder: Path, source: str, benches: dict[str, Any]) -> Verdict:
    from kvbuffer_codegen.artifact import fits
    from kvbuffer_codegen.autotune.jobs import spec_to_json
    from kvbuffer_codegen.checking import spec_of
    from kvbuffer_codegen.runtime.loader import describe

    try:
        manifest = read_artifact(folder).manifest
        spec = spec_of(manifest)
    except ValueError as error:  # damaged, or not a manifest of a kernel that this version knows
        return Verdict(folder.name, str(folder), WRONG, one_line(error))
    verdict = Verdict(manifest["name"], str(folder), SKIPPED, target=manifest["target"]["name"])
    kind = manifest["target"]["kind"]
    if kind not in benches:
        verdict.reason = f"no {kind} device here"
        return verdict
    verdict.reason = fits(manifest, describe(kind)) or ""
    if verdict.reason:
        return verdict
    answer = benches[kind].check(spec_to_json(spec), str(folder), source)
    verdict.status = PASSED if answer["status"] == "ok" else WRONG
    verdict.reason = answer.get("reason", "")
    verdict.error = max(answer.get("errors", {}).values(), default=None)
    return verdict


# --- against the tree


def _stale(
    folders: list[Path], mine: Recurrence | None, report: Callable[[float, float, str], None], compiled: int | None
) -> list[Verdict]:
    """Emission is serial (TVM is not safe in threads), the compilers run two at a time beside it: for all, or for
    ``compiled`` of them, evenly spread, since equal sources give equal binaries."""
    from concurrent.futures import Future, ThreadPoolExecutor

    verdicts: list[tuple[Verdict, Future[str] | None]] = []
    with ThreadPoolExecutor(2) as pool:
        for number, folder in enumerate(folders):
            report(number, len(folders), folder.name[:28])
            verdict, lowered, target = _emitted(folder, mine)
            future = None
            if lowered is not None:
                verdict.status = PASSED
                if compiled is None or number * compiled % len(folders) < compiled:
                    future = pool.submit(_compiled, lowered, target)
            verdicts.append((verdict, future))
    for verdict, future in verdicts:
        if future is not None:
            verdict.reason = future.result()
            verdict.status = WRONG if verdict.reason else PASSED
    return [verdict for verdict, _ in verdicts]


def _emitted(folder: Path, mine: Recurrence | None) -> tuple[Verdict, Any, Any]:
    """The verdict on a kernel's recurrence and source and, where these are what the tree gives, what to compile."""
    from kvbuffer_codegen.checking import spec_of
    from kvbuffer_codegen.compiler.build import emit
    from kvbuffer_codegen.ir.recurrences import RECURRENCES
    from kvbuffer_codegen.schedules.space import schedule_from_dict
    from kvbuffer_codegen.schedules.targets import target as target_named

    verdict = Verdict(folder.name, str(folder), WRONG)
    try:
        artifact = read_artifact(folder)
        manifest = artifact.manifest
        verdict.name, verdict.target = manifest["name"], manifest["target"]["name"]
        recurrence = manifest["recurrence"]
        if recurrence is not None:
            known = mine or RECURRENCES.get(recurrence["name"])  # one of the user's own is what the manifest says
            if known is not None and known.normal_form.hash != recurrence["hash"]:
                verdict.reason = f"recurrence {recurrence['name']} is not what the tree has: build it again"
                return verdict, None, None
        target = target_named(manifest["target"]["name"])
        lowered = emit(spec_of(manifest), schedule_from_dict(manifest["schedule"]), target)
    except ValueError as error:
        verdict.reason = one_line(error)
        return verdict, None, None
    sources = [data for name, data in artifact.files.items() if name.endswith((".cu", ".cpp"))]
    if sources != [lowered.source.encode()]:
        verdict.reason = "its source is not what the tree emits: build it again"
    elif any(manifest["launch"].get(name) != value for name, value in lowered.launch.items()):
        verdict.reason = "its launch is not what the tree emits: build it again"
    return verdict, None if verdict.reason else lowered, target


def _compiled(lowered: Any, target: Any) -> str:
    """Why the source does not make a binary as it should, or an empty string."""
    from kvbuffer_codegen.compiler.toolchain import CompileError, MissingCompiler, compile_source, find_compiler

    try:
        resources = compile_source(lowered.source, find_compiler(target)).resources
    except (MissingCompiler, CompileError) as error:
        return one_line(error)
    spilled = resources.get("spill_bytes", 0)
    return f"spills {spilled} bytes of registers" if spilled else ""


def write_junit(path: Path, verdicts: list[Verdict]) -> None:
    """One test case per artifact."""
    suite = ElementTree.Element("testsuite", name="kvbuffer-codegen check", tests=str(len(verdicts)))
    suite.set("failures", str(sum(v.status == WRONG for v in verdicts)))
    suite.set("skipped", str(sum(v.status == SKIPPED for v in verdicts)))
    for v in verdicts:
        case = ElementTree.SubElement(
            suite, "testcase", classname=v.target or "index", name=v.name, time=str(v.seconds)
        )
        if v.status != PASSED:
            ElementTree.SubElement(case, "failure" if v.status == WRONG else "skipped", message=v.reason)
    path.parent.mkdir(parents=True, exist_ok=True)
    ElementTree.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)
