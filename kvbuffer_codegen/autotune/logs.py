"""The tuning log: JSON Lines, one file per device and form, appended to and never changed.

A *trial* is one candidate at one stage; a *choice* closes a search and repeats what the trials say (:func:`choose`
gives it again). No line holds a path of the machine. Fields of a trial:

    kind "trial"; run (date that its run began); date; device; capability; key (KernelSpec.key()); space (hash);
    schedule; rows, H (batch rows and key heads it was timed at; null: building and checking concern every size);
    stage "prune" | "build" | "check" | "rung <i>" | "final"; attempt (a search that found more candidates to try
    repeats the final rounds); status "ok" | "slow" | "compile" | "timeout" | "wrong" | "crash"; reason; us
    (microseconds a call, one per pass); bytes (that a call must move); read (final: bytes a second of a plain read of
    the pool, one per round); error (largest against the oracle, by tensor); resources; versions; default (is it the
    default schedule); incumbent (did an earlier run choose it). Of a final one also: binary (sha256 of what ran), model
    and driver (the device as manifests name it), and where more was tried than the oracle's cases, checks (by name)

``benchmarks/keep.py`` adds trials at the stage "kv_only", which no search writes or reads: every row kv_only, with
``context`` tokens of a prompt.
"""

from __future__ import annotations

import json
import os
import re
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvbuffer_codegen.autotune.jobs import OK

Line = dict[str, Any]
#: A difference below this is not told from noise, however calm a run was: two runs of the same binaries differ by as
#: much, on a CPU that others share more than on a GPU.
LEAST_NOISE = {"cpu": 0.05, "cuda": 0.02}
#: Standard deviations of one round that a difference must exceed: the best of several looks better than it is.
DEVIATIONS = 2.0
_PATH = re.compile(r"(?:/[\w.+@~-]+)+/(?=[\w.+@~-])")


class LogError(ValueError):
    """A tuning log that cannot be read."""


class Log:
    """The log files of one device in ``folder``, which is made when the first line is written."""

    def __init__(self, folder: Path, device: str):
        self.folder, self.device = Path(folder), device

    def path(self, form: str) -> Path:
        name = re.sub(r"[^A-Za-z0-9.]+", "-", self.device).strip("-").lower()
        return self.folder / f"{name}_{form}.jsonl"

    def append(self, form: str, line: Mapping[str, Any]) -> Line:
        """Append one line at once, so that processes may share a file; returns it as it will be read back."""
        text = json.dumps(clean(line), allow_nan=False)
        self.folder.mkdir(parents=True, exist_ok=True)
        _drop_unfinished(self.path(form))
        with open(self.path(form), "a", encoding="utf-8") as file:
            file.write(text + "\n")
        return dict(json.loads(text))

    def read(self, form: str) -> list[Line]:
        """Every line; a last line that a killed run left unfinished is dropped. Raises :class:`LogError`."""
        return read_log(self.path(form))


def read_log(path: Path, *, whole: bool = False) -> list[Line]:
    """Every line; where ``whole``, each has the fields of this version and the last is finished, too. Raises
    :class:`LogError` that names the line.
    """
    if not path.exists():
        return []
    lines: list[Line] = []
    texts = path.read_text(encoding="utf-8", errors="replace").split("\n")
    for number, text in enumerate(texts, 1):
        if not text:
            continue
        try:
            line = json.loads(text)
            if not isinstance(line, dict) or line.get("kind") not in ("trial", "choice"):
                raise ValueError("not a trial or a choice")
            if whole:
                _check_fields(line)
        except ValueError as error:
            if number == len(texts) and not whole:
                break
            raise LogError(f"{path}, line {number}: {error}; remove the line, or move the log away") from None
        lines.append(line)
    return lines


_NUMBER, _SIZE = (int, float), (int, type(None))
#: What every line has, and of which types; fields that came later are optional.
_FIELDS: dict[str, Any] = dict.fromkeys(("run", "date", "device", "capability", "space"), str)
_FIELDS |= {"key": dict, "schedule": dict, "default": bool, "rows": _SIZE, "H": _SIZE}
_OWN: dict[str, dict[str, Any]] = {
    "trial": {"stage": str, "attempt": int, "status": str, "reason": str, "us": list, "error": dict, "incumbent": bool},
    "choice": {"us": _NUMBER, "default_us": _NUMBER, "ratio": _NUMBER, "noise": _NUMBER, "bytes": _NUMBER},
}


def _check_fields(line: Line) -> None:
    """Raises ``ValueError`` where ``line`` is not one of this version."""
    for name, types in {**_FIELDS, **_OWN[line["kind"]]}.items():
        if name not in line:
            raise ValueError(f"a {line['kind']} of another version, without {name}")
        if not isinstance(line[name], types):
            raise ValueError(f"{name} is {line[name]!r}, which is not of this version")


def merge(logs: Iterable[Iterable[Line]]) -> list[Line]:
    """The lines of all logs in their order, those that are equal once."""
    return list({json.dumps(line, sort_keys=True): line for log in logs for line in log}.values())


def choices(lines: Iterable[Line], space: str) -> list[tuple[Choice, Line]]:
    """What the newest finished run of each device, key and size chose among the candidates of ``space``, and the final
    trial of the winner. A run that timed one schedule, as a benchmark of what ships does, chose nothing: it counts
    where no other did. A pure function of the set of lines; sorted by device, key and size, the largest last.
    """
    searches: dict[tuple[Any, ...], dict[str, list[Line]]] = {}
    for t in lines:
        if t["kind"] == "trial" and t["stage"] in ("rung 0", "final") and t["space"] == space:
            key = json.dumps(t["key"], sort_keys=True)
            identity = (t["capability"], t["device"], key, t["rows"] * t["H"], t["rows"], t["H"])
            searches.setdefault(identity, {}).setdefault(t["run"], []).append(t)
    found = []
    for _, runs in sorted(searches.items()):
        chosen = [(made, trials) for _, trials in sorted(runs.items()) if (made := choose(trials)) is not None]
        chosen.sort(key=lambda pair: _compared(pair[1]))  # in the order of their dates as before
        found += [(made, winner(made, trials)) for made, trials in chosen[-1:]]
    return found


def _compared(trials: Iterable[Line]) -> bool:
    return len({trial_text(t) for t in trials}) > 1


def winner(choice: Choice, trials: Iterable[Line]) -> Line:
    """The final trial, of the last attempt, that ``choice`` was made for."""
    text = json.dumps(choice.schedule, sort_keys=True)
    timed = [t for t in trials if t["kind"] == "trial" and t["stage"] == "final" and trial_text(t) == text and t["us"]]
    return max(timed, key=lambda t: (t["attempt"], t["date"]))


def _drop_unfinished(path: Path) -> None:
    """Cut off what a killed run began to write."""
    if path.exists() and not (data := path.read_bytes()).endswith(b"\n"):
        os.truncate(path, data.rfind(b"\n") + 1)


@dataclass(frozen=True)
class Choice:
    """What the trials of one search say. Times are microseconds a call, medians over the final rounds.

    ``ratio``: the winner's time over the reference's, median over the rounds. ``noise``: by how much it must be below 1
    (where the reference stays: by how much the best of the others would have had to be). ``spread``: the best and the
    median candidate of the first rung. ``bytes``: that a call must move. ``read``: bytes a second of a plain read of
    the same pools, median over the rounds.
    """

    schedule: dict[str, Any]
    default: bool
    us: float
    default_us: float
    ratio: float
    noise: float
    spread: tuple[float, float]
    bytes: float
    read: float


def choose(trials: Iterable[Line]) -> Choice | None:
    """The choice among the trials of one run, key and size; None where the default was not timed to the end.

    A pure function: the order of the lines does not matter. The reference is what an earlier run chose, else the
    default. Rounds are interleaved, so candidates are compared with the reference round by round, and what the machine
    does meanwhile cancels. Of the candidates that cannot be told from the best, the reference wins, then the one with
    the fewest changes to the default, then the one that comes first as text.
    """
    trials = [t for t in trials if t["kind"] == "trial"]
    last = max((t["attempt"] for t in trials if t["stage"] == "final"), default=0)
    timed = [t for t in trials if t["stage"] == "final" and t["attempt"] == last and t["status"] == OK and t["us"]]
    default = next((t for t in timed if t["default"]), None)
    if default is None:
        return None
    reference = next((t for t in timed if t["incumbent"]), default)
    least = LEAST_NOISE[default["schedule"]["kind"]]
    ratios = {trial_text(t): _ratio(t["us"], reference["us"], least) for t in timed}
    better = [t for t in timed if ratios[trial_text(t)][0] < 1 - ratios[trial_text(t)][1]]
    winner = reference
    if better:
        best = min(ratios[trial_text(t)][0] for t in better)
        tied = [t for t in better if ratios[trial_text(t)][0] <= best * (1 + ratios[trial_text(t)][1])]
        winner = min(tied, key=lambda t: (_changes(t["schedule"], default["schedule"]), trial_text(t)))
    ratio, noise = ratios[trial_text(winner)]
    if winner is reference:  # what the best of the others would have had to beat
        others = [r for text, r in ratios.items() if text != trial_text(reference)]
        noise = min(others, default=(1.0, 0.0))[1]
    first = [statistics.median(t["us"]) for t in trials if t["stage"] == "rung 0" and t["us"]]
    spread = (min(first), statistics.median(first)) if first else (0.0, 0.0)
    return Choice(
        winner["schedule"],
        winner["default"],
        statistics.median(winner["us"]),
        statistics.median(default["us"]),
        ratio,
        noise,
        spread,
        winner["bytes"],
        statistics.median(winner["read"]) if winner["read"] else 0.0,
    )


def _changes(schedule: Mapping[str, Any], default: Mapping[str, Any]) -> int:
    return sum(schedule[name] != value for name, value in default.items())


def _ratio(us: list[float], default: list[float], least: float) -> tuple[float, float]:
    """Median of the ratios round by round, and what is noise: DEVIATIONS times the scatter of one round (1.48 median
    deviations are a standard deviation).
    """
    ratios = [a / b for a, b in zip(us, default, strict=False)]
    middle = statistics.median(ratios)
    scatter = 1.4826 * statistics.median(abs(r - middle) for r in ratios)
    return middle, max(least, DEVIATIONS * scatter)


def trial_text(trial: Line) -> str:
    """Canonical JSON of a trial's, or a job's, schedule (``candidates.schedule_text`` of the schedule itself)."""
    return json.dumps(trial["schedule"], sort_keys=True)


def clean(value: Any) -> Any:
    """``value`` without folders of this machine, and without what JSON has no name for."""
    if isinstance(value, str):
        return _PATH.sub("", value)
    if isinstance(value, Mapping):
        return {k: clean(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [clean(v) for v in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if abs(value) < float("inf") else None
    return value
