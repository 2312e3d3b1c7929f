"""``list``: what there is to build, and what is built."""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path
from typing import Any

from kvbuffer_codegen.artifact import ArtifactError, read_manifest
from kvbuffer_codegen.caches import search_path
from kvbuffer_codegen.cli.common import (
    DONE,
    FAILED,
    add_folder_arguments,
    folders_of,
    print_json,
    print_table,
    recurrence_of,
    target_of,
    warn,
)
from kvbuffer_codegen.index import INDEX, read_index
from kvbuffer_codegen.ir.forms import FORMS
from kvbuffer_codegen.ir.models import MODELS, ModelShape
from kvbuffer_codegen.ir.recurrences import RECURRENCES

HELP = "recurrences, forms, targets, models, and the artifacts found"
MODEL_COLUMNS = ("name", "recurrence", "layers", "H", "HV", "K", "V", "tp", "source")
COLUMNS = ("name", "target", "io", "state", "K", "V", "ratio", "buffer", "window", "chosen", "where")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_folder_arguments(parser, "only this recurrence and its artifacts: a name, or path.py:function")
    parser.add_argument("--models", action="store_true", help="the published shapes that --model knows, and no more")


def run(args: argparse.Namespace) -> int:
    if args.models and not args.json:
        print_table([_model(m) for m in MODELS.values()], MODEL_COLUMNS)
        return DONE
    from kvbuffer_codegen.schedules.targets import TARGETS

    folders = folders_of(args.path) or search_path()
    recurrences = [recurrence_of(args.recurrence)] if args.recurrence else list(RECURRENCES.values())
    artifacts, problems = find_artifacts(folders)
    if args.recurrence:
        artifacts = [a for a in artifacts if a["recurrence_hash"] == recurrences[0].normal_form.hash]
    portable = find_portable(folders)
    if args.json:
        print_json(
            {
                "recurrences": [
                    {"name": r.name, "hash": r.normal_form.hash, "arguments": {a.name: a.kind for a in r.arguments}}
                    for r in recurrences
                ],
                "forms": {f.name: f.text for f in FORMS.values()},
                "targets": list(TARGETS),
                "default_target": target_of(None).name,
                "models": {m.name: _model(m) for m in MODELS.values()},
                "artifacts": artifacts,
                "portable": portable,
                "problems": problems,
            }
        )
    else:
        print(f"recurrences  {', '.join(r.name for r in recurrences)}")
        print(f"forms        {', '.join(FORMS)}")
        print(f"targets      {', '.join(TARGETS)} (default here: {target_of(None).name})")
        print(f"models       {', '.join(MODELS)}")
        print(f"artifacts    {len(artifacts)} in {', '.join(map(str, folders))}")
        print(f"portable     {len(portable)} files of Triton source, each for all sizes and forms")
        if artifacts:
            print()
            print_table(artifacts, COLUMNS)
    for problem in problems:
        warn(f"list: {problem}")
    return FAILED if problems else DONE


def find_artifacts(folders: list[Path]) -> tuple[list[dict[str, Any]], list[str]]:
    """One row per artifact below ``folders`` (listed in an index or not), and what cannot be read."""
    rows: list[dict[str, Any]] = []
    problems: list[str] = []
    for folder in folders:
        try:
            index = read_index(folder) if (folder / INDEX).exists() else None
        except ArtifactError as error:
            problems.append(str(error))
            index = None
        chosen = [c.artifact for c in index.choices] if index else []
        for manifest_path in sorted(folder.rglob("manifest.json")) if folder.is_dir() else []:
            try:
                manifest = read_manifest(manifest_path.parent)
            except ArtifactError as error:
                problems.append(str(error))
                continue
            relative = manifest_path.parent.relative_to(folder).as_posix()
            rows.append({**_row(manifest), "chosen": chosen.count(relative), "where": str(manifest_path.parent)})
    return rows, problems


def find_portable(folders: list[Path]) -> list[str]:
    """The files of Triton source that indexes of ``folders`` list."""
    found = []
    for folder in folders:
        with contextlib.suppress(ArtifactError):  # a problem that find_artifacts tells
            found += [str(folder / file) for file in read_index(folder).portable]
    return found


def _model(model: ModelShape) -> dict[str, Any]:
    """``tp``: the tensor-parallel sizes that divide its heads."""
    fields = {name: getattr(model, name) for name in MODEL_COLUMNS if name != "tp"}
    return {**fields, "tp": ",".join(map(str, model.shards))}


def _row(manifest: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": manifest["name"],
        "form": manifest["form"],
        "recurrence": manifest["recurrence"] and manifest["recurrence"]["name"],
        "recurrence_hash": manifest["recurrence"] and manifest["recurrence"]["hash"],
        "target": manifest["target"]["name"],
        **{name: manifest[name] for name in ("io", "state", "layout", "ratio", "buffer", "window", "kv_only")},
        "K": manifest["dims"]["K"],
        "V": manifest["dims"]["V"],
        "schedule": manifest["schedule"],
        "evidence": [e["kind"] for e in manifest["evidence"]],
    }
