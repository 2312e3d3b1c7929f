"""What manifests say of a measurement, from the tuning log's line of it alone: the same line, the same evidence."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from kvbuffer_codegen.artifact import Artifact, ArtifactError, binary_name, read_artifact
from kvbuffer_codegen.autotune.logs import Line
from kvbuffer_codegen.manifest import EVIDENCE

Entry = dict[str, Any]


def device_of(trial: Line) -> str:
    """The device as manifests and choices name it; a log's name of a CPU has its threads."""
    return str(trial.get("model") or trial["device"])


def heads_of(trial: Line) -> int:
    """Value-head rows that a line was timed at, which choices are keyed by."""
    return int(trial["rows"] * trial["H"] * trial["key"]["ratio"])


def evidence_of(trial: Line) -> list[Entry]:
    """The check and, of a final one, the timing. Nothing for a line that does not say which binary ran.

    Raises :class:`~kvbuffer_codegen.manifest.ManifestError` for a line that makes no evidence.
    """
    if not trial.get("binary"):
        return []
    common = {"device": device_of(trial), "driver": trial.get("driver", ""), "date": trial["date"]}
    results: dict[str, Entry] = {"check": {"errors": trial["error"], **trial.get("checks", {})}}
    if trial["stage"] == "final":
        results["timing"] = {
            "us": round(statistics.median(trial["us"]), 3),
            "rows": heads_of(trial),
            "batch": trial["rows"],
            "heads": [trial["H"], trial["H"] * trial["key"]["ratio"]],
            "bytes": round(trial["bytes"]),
            "read_bytes_per_s": round(statistics.median(trial["read"])) if trial["read"] else None,
        }
    entries = [{"kind": kind, "binary": trial["binary"], **common, "result": r} for kind, r in results.items()]
    for entry in entries:
        EVIDENCE(entry, "evidence")
    return entries


def joined(built: Artifact, *known: Sequence[Entry]) -> list[Entry]:
    """The entries about the binary of ``built``, sorted; of a device one check, and one timing a size: the later."""
    digest = binary_digest(built)
    kept = {_identity(e): e for entries in known for e in entries if e["binary"] == digest}
    return [kept[identity] for identity in sorted(kept)]


def _identity(entry: Entry) -> tuple[str, str, int, str]:
    result = entry["result"]
    return entry["device"], entry["kind"], result.get("rows", 0), str(result.get("heads", ""))


def known_evidence(artifact_folder: Any) -> list[Entry]:
    """What the artifact in a folder says of itself; nothing where there is none."""
    try:
        return list(read_artifact(artifact_folder).manifest["evidence"])
    except ArtifactError:
        return []


def binary_digest(artifact: Artifact) -> str:
    """The sha256 of the binary, which evidence and log lines name it by."""
    return str(artifact.manifest["files"][binary_name(artifact.manifest)])
