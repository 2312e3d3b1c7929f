"""Keep what `h200.py` saw: evidence in the manifests, lines in tuning_logs/.

    python benchmarks/keep.py results/results.json [--artifacts generated] [--logs tuning_logs]
    python benchmarks/keep.py results/results.json --lines benchmarks/evidence/covering_sm_90a.jsonl

An entry is kept only for an artifact whose binary is the very one that ran (its sha256 is in the results). Kernels that
do not ship, a covering set, get a line of ``--lines`` each instead: what was checked, of which binary, where and when.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kvbuffer_codegen.artifact import Artifact, read_artifact, write_artifact
from kvbuffer_codegen.autotune.evidence import evidence_of, joined
from kvbuffer_codegen.autotune.logs import Line, Log
from kvbuffer_codegen.checking import spec_of
from kvbuffer_codegen.index import read_index, update_index
from kvbuffer_codegen.schedules import space
from kvbuffer_codegen.schedules.targets import target

ROOT = Path(__file__).resolve().parent.parent
KEY_HEADS = 16  #: of the layers that h200.py times, where its results do not say


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--artifacts", type=Path, default=ROOT / "generated", help="folder with index.json")
    parser.add_argument("--logs", type=Path, default=ROOT / "tuning_logs")
    parser.add_argument("--lines", type=Path, help="file that gets a line a kernel; nothing else is written then")
    options = parser.parse_args()
    run = json.loads(options.results.read_text())
    if options.lines:
        keep_lines(options.lines, run)
        return
    seen = {kernel["binary_sha256"]: kernel for kernel in run["kernels"]}
    log = Log(options.logs, run["device"])
    kept = 0
    for folder in read_index(options.artifacts).artifacts:
        artifact = read_artifact(options.artifacts / folder)
        kernel = seen.get(hashlib.sha256(artifact.binary).hexdigest())
        if kernel is None or kernel["check"]["reason"]:
            continue
        lines = [log.append(kernel["form"], line) for line in trials(artifact, kernel, run)]
        update_index(options.artifacts, {folder: keep_evidence(artifact, lines)})
        kept += 1
    print(f"{kept} of {len(run['kernels'])} results kept")


def keep_lines(path: Path, run: Mapping[str, Any]) -> None:
    """Replace ``path`` by one line for every kernel, right or wrong."""
    common = {name: run[name] for name in ("device", "driver", "torch", "date")}
    lines = [{**{k: v for k, v in kernel.items() if k != "time"}, **common} for kernel in run["kernels"]]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line, sort_keys=True) + "\n" for line in lines))
    print(f"{len(lines)} lines in {path}, {sum(not k['check']['reason'] for k in run['kernels'])} of right kernels")


def keep_evidence(artifact: Artifact, lines: Sequence[Line]) -> str:
    """What the log's lines say goes into the manifest; returns its digest."""
    entries = joined(artifact, artifact.manifest["evidence"], *(evidence_of(line) for line in lines))
    write_artifact(artifact.folder, {**artifact.manifest, "evidence": entries}, artifact.files)
    return read_artifact(artifact.folder).digest


def trials(artifact: Artifact, kernel: Mapping[str, Any], run: Mapping[str, Any]) -> list[Line]:
    """Lines of the tuning log: of a kernel that was timed, one for each batch size and one for each context of
    kv_only rows; else one of the check."""
    manifest, check = artifact.manifest, kernel["check"]
    default = space.default(spec_of(manifest), target(manifest["target"]["name"]))
    common = {
        "kind": "trial",
        "run": run["date"],
        "date": run["date"],
        "device": run["device"],
        "driver": run["driver"],
        "capability": run["capability"],
        "key": artifact.key,
        "space": manifest["schedule_space"],
        "generator": "",
        "incumbent": False,
        "read": [],
        "schedule": kernel["schedule"],
        "stage": "check",
        "attempt": 1,
        "status": "ok",
        "reason": "",
        "error": check["errors"],
        "checks": {name: check[name] for name in ("graph", "repeatable", "large_batch") if name in check},
        "binary": kernel["binary_sha256"],
        "resources": kernel["resources"],
        "versions": manifest["compiler"],
        "default": manifest["schedule"] == default.to_dict(),
    }
    times = kernel["time"].get("times")
    if not times:
        return [{**common, "rows": None, "H": None, "us": [], "bytes": None}]
    common |= {"stage": "final", "H": key_heads(kernel), "read": [kernel["time"]["read_bytes_per_s"]]}
    lines = [{**common, **timed(t)} for t in times]
    contexts = kernel["time"].get("kv_only", ())
    return lines + [{**common, **timed(t), "stage": "kv_only", "context": t["context"]} for t in contexts]


def timed(time: Mapping[str, Any]) -> dict[str, Any]:
    return {"rows": time["batch"], "us": time.get("samples_us", [time["us"]]), "bytes": time["bytes"]}


def key_heads(kernel: Mapping[str, Any]) -> int:
    return int(kernel["time"].get("key_heads", KEY_HEADS))


if __name__ == "__main__":
    main()
