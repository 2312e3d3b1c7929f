"""The covering sets hold what they promise, a sweep resumes, and the fixed set is right on this CPU."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kvbuffer_codegen import covering
from kvbuffer_codegen.autotune import sweep
from kvbuffer_codegen.autotune.sweep import RESULTS, Sweep
from kvbuffer_codegen.cli.covering import CURSORS
from kvbuffer_codegen.cli.main import main
from kvbuffer_codegen.compiler.build import build
from kvbuffer_codegen.covering import FACTORS, MOST_STATE, fixed_set, pairwise_set, triples
from kvbuffer_codegen.ir.forms import FORMS
from kvbuffer_codegen.schedules import space
from kvbuffer_codegen.schedules.targets import TARGETS, target

CPU = target("cpu")


def possible(row: dict[str, Any]) -> bool:
    """The constraints in other words: a window exactly for forms that have one, and states of a checkable size."""
    if "form" in row and "window" in row and (row["window"] > 0) != row["form"].startswith("verify"):
        return False
    if row.get("window", 0) > 16 and row.get("form", "verify_tree") != "verify_tree":
        return False
    return row.get("K", 16) * row.get("V", 16) * row.get("ratio", 1) <= MOST_STATE


def held(rows: Any, strength: int) -> set[Any]:
    return {t for row in rows for t in itertools.combinations(row.items(), strength)}


def test_the_fixed_set_holds_every_level_and_stays_small() -> None:
    assert {item for (item,) in held(fixed_set(), 1)} == {(name, x) for name in FACTORS for x in FACTORS[name]}
    core = {name: FACTORS[name] for name in covering.CORE}
    wanted = {((a, x), (b, y)) for a, b in itertools.combinations(core, 2) for x in core[a] for y in core[b]}
    assert {tuple(sorted(t)) for t in wanted} <= {tuple(sorted(t)) for t in held(fixed_set(), 2)}
    assert len(fixed_set()) <= 48  # nine trees, ten chains, and five forms without a window at every state
    assert any(row["K"] > row["V"] for row in fixed_set())
    assert any(row["K"] < row["V"] for row in fixed_set())


def test_every_possible_pair_is_in_the_array() -> None:
    found = held(pairwise_set(), 2)
    for a, b in itertools.combinations(FACTORS, 2):
        for x, y in itertools.product(FACTORS[a], FACTORS[b]):
            assert (((a, x), (b, y)) in found) == possible({a: x, b: y}), (a, x, b, y)
    assert len(pairwise_set()) <= 1.5 * 18 * len(FACTORS["recurrence"])  # windows x recurrences is the least


def test_every_row_is_a_kernel_with_schedules() -> None:
    specs = [covering.spec_of(row) for row in (*fixed_set(), *pairwise_set(), *triples(50, 1))]
    assert len({s.name for s in specs[len(fixed_set()) :]}) >= len(specs) - len(fixed_set()) - 2
    for spec in specs:
        assert space.default(spec, CPU) in space.legal(spec, CPU)


def test_triples_come_from_their_seed_and_are_new() -> None:
    assert triples(20, 5) == triples(20, 5)
    assert triples(20, 5) != triples(20, 6)
    known = held(pairwise_set(), 3)
    assert all(set(itertools.combinations(row.items(), 3)) - known for row in triples(20, 5))
    assert all(possible(row) for row in triples(200, 7))


def test_the_sets_do_not_depend_on_the_process() -> None:
    code = "from kvbuffer_codegen.covering import *; print(hash(str((fixed_set(), pairwise_set(), triples(9, 9)))))"
    code = code.replace("hash(", "__import__('zlib').crc32(").replace("9)))))", "9))).encode()))")
    runs = [
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1] != b""


def test_check_list_prints_the_array(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--list"]) == 0
    assert f"{len(pairwise_set())} rows" in capsys.readouterr().out
    assert main(["check", "--list", "--fixed", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == [dict(row) for row in fixed_set()]


# --- sweeps


class Seen:
    """A sweep's reports: names in the order of their answers; ``stop``: as by Ctrl-C, after so many."""

    def __init__(self, stop: int = 0):
        self.names: list[str] = []
        self.stop = stop

    def __call__(self, done: int, total: int, answer: dict[str, Any]) -> None:
        self.names.append(answer["name"])
        if len(self.names) == self.stop:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real artifact, which the fake builder gives to every kernel."""
    folder = tmp_path_factory.mktemp("template") / "advance"
    return build(CURSORS[0], space.default(CURSORS[0], CPU), CPU, folder)


@pytest.fixture
def fake(template: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Hooks of children that compile nothing; the kernel of a ``step`` of the fixed set spills."""
    plan = {json.dumps(space.default(STEP, CPU).to_dict(), sort_keys=True): "spill"}
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    monkeypatch.setenv("FAKE_PLAN", json.dumps(plan))
    monkeypatch.setenv("FAKE_TEMPLATE", str(template))
    return "fake_jobs"


STEP = next(spec for spec in map(covering.spec_of, fixed_set()) if spec.form == "step")


def test_a_sweep_resumes(tmp_path: Path, fake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first, again, moved, last = Seen(stop=1), Seen(), Seen(), Seen()
    run = Sweep(CPU, tmp_path, hooks=fake)
    with pytest.raises(KeyboardInterrupt):
        run.run(CURSORS, first)
    results = tmp_path / RESULTS
    results.write_text(results.read_text() + '{"name": "cut o')
    answers = run.run(CURSORS, again)
    assert [a["status"] for a in answers] == ["ok"] * len(CURSORS)
    assert first.names + again.names == [spec.name for spec in CURSORS]
    (tmp_path / CURSORS[1].name).rename(tmp_path / "elsewhere")
    run.run(CURSORS, moved)
    assert moved.names == [CURSORS[1].name]
    monkeypatch.setattr(sweep, "tree_digest", lambda: "changed")
    run.run(CURSORS, last)
    assert last.names == [spec.name for spec in CURSORS]


def test_spills_and_wrong_numbers_fail(tmp_path: Path, fake: str) -> None:
    (spilled,) = Sweep(CPU, tmp_path / "built", hooks=fake).run([STEP], Seen())
    assert (spilled["status"], spilled["reason"]) == ("spills", "spills 8 bytes of registers")
    (wrong,) = Sweep(CPU, tmp_path / "checked", check=True, keep=False, hooks=fake).run([STEP], Seen())
    assert wrong["status"] in ("crash", "wrong")  # the template is another kernel
    assert [p.name for p in (tmp_path / "checked").iterdir()] == [RESULTS]


def test_what_a_target_has_no_schedule_for_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(spec: Any, target: Any) -> Any:
        raise ValueError("state=int8: no schedule")

    monkeypatch.setattr(space, "default", none)
    (answer,) = Sweep(CPU, tmp_path).run(CURSORS[:1], Seen())
    assert (answer["status"], answer["reason"]) == ("refused", "state=int8: no schedule")


def test_build_covering_needs_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["build", "--covering"]) == 2
    assert "--out" in capsys.readouterr().err


def test_the_fixed_set_is_right_on_this_cpu(tmp_path: Path) -> None:
    """Every level of every factor as a compiled kernel, against the oracle; two kernels at a time."""
    specs = [covering.spec_of(row) for row in fixed_set()]
    assert {spec.form for spec in specs} == {name for name, form in FORMS.items() if not form.cursors_only}
    assert {spec.window > 16 for spec in specs if spec.tree} == {False, True}
    answers = Sweep(CPU, tmp_path, check=True, keep=False, lanes=2).run(specs, Seen())
    assert [(a["name"], a["reason"]) for a in answers if a["status"] != "ok"] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", [t.name for t in TARGETS.values() if t.kind == "cuda"])
def test_the_fixed_set_compiles_without_a_spill(name: str, tmp_path: Path) -> None:
    """At the default schedules; what the target has no schedule for is not compiled."""
    specs = [covering.spec_of(row) for row in fixed_set()] + CURSORS
    answers = Sweep(target(name), tmp_path, keep=False, lanes=2).run(specs, Seen())
    assert [(a["name"], a["reason"]) for a in answers if a["status"] not in ("ok", "refused")] == []
    assert sum(a["status"] == "ok" for a in answers) > len(answers) // 2
