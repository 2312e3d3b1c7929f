"""Every command: what it prints, its exit code, and one clear line for every kind of bad input."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from kvbuffer_codegen.artifact import read_artifact, write_artifact
from kvbuffer_codegen.cli import check as check_command
from kvbuffer_codegen.cli.main import COMMANDS, main, parser
from kvbuffer_codegen.compiler import toolchain
from kvbuffer_codegen.index import read_index

SMALL = ["--heads", "1,2", "--dims", "16,16", "--io", "float32", "--buffer", "4"]
FILE = """
from kvbuffer_codegen.ir.language import Key, Scalar, State, Value, exp, outer, recurrence, softplus, tanh

@recurrence
def mine(S: State, q: Key, k: Key, v: Value, g: Scalar):
    S = exp(-softplus(g)) * S
    S = S + outer(v, k)
    return S, S @ q

@recurrence
def illegal(S: State, q: Key, k: Key, v: Value):
    S = tanh(S)
    return S, S @ q

not_one = 3
"""


@pytest.fixture(scope="session")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with three small kernels and an index."""
    out = tmp_path_factory.mktemp("kernels")
    assert main(["build", *SMALL, "--form", "decode,step,advance", "--target", "cpu", "--out", str(out)]) == 0
    return out


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    monkeypatch.setenv("KVBUFFER_CODEGEN_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("KVBUFFER_CODEGEN_PATH", raising=False)
    return tmp_path / "cache"


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    assert main([*arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str, code: int) -> str:
    """The one line on stderr of a command that ends with ``code``; argparse's usage lines do not count."""
    try:
        ended: Any = main(list(arguments))
    except SystemExit as stop:
        ended = stop.code
    assert ended == code
    captured = capsys.readouterr()
    lines = [line for line in captured.err.splitlines() if line.startswith("kvbuffer-codegen")]
    assert len(lines) == 1, captured.err
    assert "Traceback" not in captured.err
    return lines[0]


# --- what the commands print


def test_every_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    for command in COMMANDS:
        with pytest.raises(SystemExit) as stop:
            parser().parse_args([command, "--help"])
        assert stop.value.code == 0
        assert "--json" in capsys.readouterr().out


def test_the_installed_command_runs_and_is_quiet_without_a_terminal() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "kvbuffer_codegen.cli.main", "list"], capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0
    assert run.stderr == ""
    assert "gated_delta_rule" in run.stdout


def test_list(kernels: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVBUFFER_CODEGEN_PATH", str(kernels))
    found = run_json(capsys, "list")
    assert [a["form"] for a in found["artifacts"] if a["where"].startswith(str(kernels))] == [
        "advance",
        "decode",
        "step",
    ]
    assert "gated_delta_rule" in [r["name"] for r in found["recurrences"]]
    assert {"cpu", "sm_90a"} <= set(found["targets"])
    assert main(["list"]) == 0
    assert str(kernels) in capsys.readouterr().out


def test_explain(capsys: pytest.CaptureFixture[str]) -> None:
    found = run_json(capsys, "explain", "gated_delta_rule", "--model", "qwen3-next", "--tp", "2")
    assert found["shape"]["HV"] == 16
    assert main(["explain", "gated_delta_rule"]) == 0
    text = capsys.readouterr().out
    for part in ("def gated_delta_rule", "Normal form", "verify", "record_k", "best buffer length", "requests per GB"):
        assert part in text


def test_explain_takes_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.py").write_text(FILE)
    found = run_json(capsys, "explain", f"{tmp_path / 'mine.py'}:mine")
    assert found["name"] == "mine"
    assert [f["name"] for f in found["records"]] == ["record_left0", "record_k", "record_log_decay"]


def test_build_writes_artifacts_that_the_dispatcher_finds(kernels: Path) -> None:
    index = read_index(kernels)
    assert len(index.artifacts) == 3
    assert all(c.default and c.rows == (0, None) for c in index.choices)
    for relative, digest in index.artifacts.items():
        assert read_artifact(kernels / relative, digest).manifest["form"] in relative


@pytest.mark.parametrize(("level", "text"), [("tilelang", "state_handle"), ("tir", "T.prim_func"), ("c", 'extern "C"')])
def test_build_emits_every_level(level: str, text: str, capsys: pytest.CaptureFixture[str], cache: Path) -> None:
    assert main(["build", *SMALL, "--form", "decode", "--target", "cpu", "--emit", level]) == 0
    assert text in capsys.readouterr().out
    assert not cache.exists()


def test_tune_dry_run_builds_nothing(capsys: pytest.CaptureFixture[str], cache: Path) -> None:
    what = ["--target", "cpu", "--io", "float32", "--form", "decode,verify", "--window", "2,4"]
    found = run_json(capsys, "tune", "--dry-run", *what, "--tp", "1,2", "--batch", "1,4")
    assert (found["searches"], found["sizes"]) == (3, 3 * 4)
    assert found["binaries"] >= 3 * 12
    assert found["timings"] > found["binaries"]
    assert found["building_s"] > 0
    assert found["device_s"] > 0
    assert not cache.exists()


PLAN = """
[[tune]]
recurrence = "gated_delta_rule"
heads = "1,2"
dims = [16, 16]
io = "float32"
form = "decode"
buffer = [4, 8]
candidates = 5
batch = [1, 4]

[[tune]]
recurrence = "gated_delta_rule"
heads = "1,2"
dims = [16, 16]
io = "float32"
state = "float16"
form = ["decode", "verify"]
window = [2]
buffer = 4

[[tune]]
recurrence = "gated_delta_rule"
heads = "2,4"
dims = [16, 16]
io = "float32"
form = "decode"
buffer = 4
candidates = 7
batch = 1
"""


def test_tune_plans_what_a_file_lists(tmp_path: Path, capsys: pytest.CaptureFixture[str], cache: Path) -> None:
    """Tables are calls; two that name one kernel are one search."""
    (file := tmp_path / "plan.toml").write_text(PLAN)
    asked = ("tune", "--plan", str(file), "--target", "cpu", "--dry-run")
    found = run_json(capsys, *asked)
    rows = {(r["form"], r["state"], r["buffer"]): r for r in found["plan"]}
    assert set(rows) == {("decode", "float32", n) for n in (4, 8)} | {(f, "float16", 4) for f in ("decode", "verify")}
    first = rows["decode", "float32", 4]
    assert (first["binaries"], first["sizes"]) == (7, 3)
    assert (rows["decode", "float32", 8]["binaries"], rows["verify", "float16", 4]["sizes"]) == (5, 1)
    assert (found["searches"], found["sizes"]) == (4, 3 + 2 + 1 + 1)
    few = run_json(capsys, *asked, "--candidates", "3")
    assert {r["binaries"] for r in few["plan"]} == {3}
    assert not cache.exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[tune]]\nform = 'nosuch'", "table 1: argument --form: 'nosuch' is unknown"),
        ("[[tune]]\n[[tune]]\nmodel = 'nosuch'", "table 2: --model 'nosuch' is unknown"),
        ("[[tune]]\nout = 'x'", "table 1: out = 'x'; accepted: strings, numbers or lists of recurrence, model"),
        ("[[tune]]\nbatch = 1.5", "table 1: batch = 1.5; accepted"),
        ("[tune]\nbatch = 1", "accepted: tables [[tune]]"),
        ("[[tune", "cannot be read"),
    ],
)
def test_a_plan_that_is_none_is_refused(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (file := tmp_path / "plan.toml").write_text(text)
    assert said in refused(capsys, "tune", "--plan", str(file), "--target", "cpu", "--dry-run", code=2)
    assert "--batch means nothing with --plan" in refused(capsys, "tune", "--plan", str(file), "--batch", "1", code=2)


def test_the_matrix_of_benchmarks_can_be_planned(capsys: pytest.CaptureFixture[str]) -> None:
    file = Path(__file__).parent.parent / "benchmarks" / "matrix.toml"
    found = run_json(capsys, "tune", "--plan", str(file), "--target", "sm_90a", "--dry-run")
    decode = next(r for r in found["plan"] if (r["form"], r["state"], r["buffer"]) == ("decode", "float32", 16))
    assert decode["buckets"] == [0, 16, 64, 256, 1024, 4096]
    cells = {(r["form"], r["state"], r["buffer"], r["window"]) for r in found["plan"] if r["ratio"] == 2}
    for state in ("float32", "float16", "int8"):
        for buffer in (8, 16, 32):
            assert {("decode", state, buffer, 0), ("step", state, buffer, 0)} <= cells
            assert {("verify", state, buffer, window) for window in (2, 4, 8)} <= cells
    assert {"kda", "mamba2", "lightning"} <= {r["recurrence"] for r in found["plan"]}


def test_bench(kernels: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVBUFFER_CODEGEN_PATH", str(kernels))
    found = run_json(
        capsys, "bench", *SMALL, "--target", "cpu", "--form", "decode,step", "--batch", "1,2", "--repeats", "1"
    )
    assert [(r["form"], r["batch"]) for r in found["rows"]] == [("decode", 1), ("decode", 2), ("step", 1), ("step", 2)]
    assert all(r["us"] > 0 and r["bytes"] > 0 for r in found["rows"])


def test_doctor(capsys: pytest.CaptureFixture[str]) -> None:
    found = run_json(capsys, "doctor")
    assert found["cache"]["usable"]
    assert found["cache"]["mode"] == "0o700"
    assert found["compilers"]["cpu"].startswith("g++")
    assert found["launcher"].startswith(("native", "ctypes"))
    assert found["packages"]["torch"]
    assert main(["doctor"]) == 0
    assert "launcher" in capsys.readouterr().out


# --- check


def test_check_passes_and_writes_junit(kernels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "reports" / "junit.xml"
    found = run_json(capsys, "check", "--path", str(kernels), "--junit", str(report))
    assert (found["passed"], found["failed"], found["skipped"]) == (3, 0, 0)
    assert all(a["error"] < 1e-5 for a in found["artifacts"])
    suite = ElementTree.parse(report).getroot()
    assert [suite.get(name) for name in ("tests", "failures", "skipped")] == ["3", "0", "0"]


def changed(kernels: Path, folder: Path, form: str, **fields: Any) -> Path:
    """A copy of the kernel of ``form`` alone, with fields of its manifest changed."""
    source = next(kernels.rglob(f"*_{form}_*/manifest.json")).parent
    artifact = read_artifact(source)
    return write_artifact(folder / source.name, {**artifact.manifest, **fields}, artifact.files)


def test_check_counts_what_it_cannot_run_and_fails_for_what_is_wrong(
    kernels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = read_artifact(next(kernels.rglob("*_step_*/manifest.json")).parent).manifest["target"]
    changed(kernels, tmp_path, "step", target={**target, "features": ["avx9000"]})
    changed(kernels, tmp_path, "decode", buffer=3)  # the binary folds at 4
    report = tmp_path / "junit.xml"
    found = run_json(capsys, "check", "--path", str(tmp_path), "--junit", str(report), code=1)
    verdicts = {a["name"].split("_")[1]: a for a in found["artifacts"]}
    assert verdicts["step"]["status"] == "skipped"
    assert "avx9000" in verdicts["step"]["reason"]
    assert verdicts["decode"]["status"] == "failed"
    assert ElementTree.parse(report).getroot().get("failures") == "1"


@pytest.mark.parametrize(
    ("content", "said"), [("{", "not JSON"), ('{"foo": 1}', "schema"), ('{"schema": 99}', "schema"), ("[]", "object")]
)
def test_check_refuses_corrupt_and_foreign_manifests(
    content: str, said: str, kernels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = changed(kernels, tmp_path / "kernels", "step")
    (folder / "manifest.json").write_text(content)
    found = run_json(capsys, "check", "--path", str(tmp_path / "kernels"), code=1)
    assert found["failed"] == 1
    assert said in found["artifacts"][0]["reason"]
    assert "\n" not in found["artifacts"][0]["reason"]
    assert said in refused(capsys, "list", "--path", str(tmp_path / "kernels"), code=1)


def test_check_sees_a_damaged_binary_and_an_artifact_that_is_gone(
    kernels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(kernels, tmp_path / "kernels")
    binary = next((tmp_path / "kernels").rglob("*_step_*/*.so"))
    binary.write_bytes(binary.read_bytes()[:-1])
    shutil.rmtree(next((tmp_path / "kernels").rglob("*_advance_*")))
    found = run_json(capsys, "check", "--path", str(tmp_path / "kernels"), code=1)
    reasons = " ".join(a["reason"] for a in found["artifacts"])
    assert "sha256" in reasons
    assert "missing" in reasons


def test_stale(kernels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_json(capsys, "check", "--stale", "--path", str(kernels))["passed"] == 3
    assert run_json(capsys, "check", "--stale", "--compile", "1", "--path", str(kernels))["passed"] == 3
    shares = [run_json(capsys, "check", "--stale", "--part", f"{i},2", "--path", str(kernels)) for i in (1, 2)]
    assert [share["passed"] for share in shares] == [2, 1]
    assert len({a["where"] for share in shares for a in share["artifacts"]}) == 3
    assert main(["check", "--stale", "--part", "3,2", "--path", str(kernels)]) == 2
    artifact = read_artifact(next(kernels.rglob("*_decode_*/manifest.json")).parent)
    source = next(name for name in artifact.files if name.endswith(".cpp"))
    edited = {**artifact.files, source: artifact.files[source] + b"// edited\n"}
    write_artifact(tmp_path / "k" / "edited", artifact.manifest, edited)
    other = {**artifact.manifest["recurrence"], "hash": "0" * 64}
    changed(kernels, tmp_path / "k", "step", recurrence=other)
    found = run_json(capsys, "check", "--stale", "--path", str(tmp_path / "k"), code=1)
    reasons = sorted(a["reason"] for a in found["artifacts"])
    assert "its source is not what the tree emits" in reasons[0]
    assert "not what the tree has" in reasons[1]


def test_stale_fails_where_no_compiler_is(
    kernels: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(target: object) -> None:
        raise toolchain.MissingCompiler("nvcc not found; install it")

    monkeypatch.setattr(toolchain, "find_compiler", missing)
    found = run_json(capsys, "check", "--stale", "--path", str(kernels), code=1)
    assert found["failed"] == 3
    assert found["artifacts"][0]["reason"] == "nvcc not found; install it"


def test_spills_are_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    spilling = toolchain.Binary(b"", {"spill_bytes": 8})
    monkeypatch.setattr(toolchain, "find_compiler", lambda target: None)
    monkeypatch.setattr(toolchain, "compile_source", lambda source, compiler: spilling)

    class Lowered:
        source = ""

    assert check_command._compiled(Lowered, None) == "spills 8 bytes of registers"


# --- bad input


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["explain", "nosuch"], "recurrence 'nosuch' is unknown; accepted: "),
        (["explain", "missing.py:f"], "missing.py is not there"),
        (["explain", "missing.py"], "is not path.py:function"),
        (["explain", "gated_delta_rule", "--model", "gpt"], "--model 'gpt' is unknown; accepted: qwen3-next"),
        (["explain", "gated_delta_rule", "--tp", "3"], "tp=3"),
        (["explain", "gated_delta_rule", "--buffer", "65"], "buffer=65: accepted: 1 to 64"),
        (["explain", "gated_delta_rule", "--heads", "3,4"], "--heads 3,4"),
        (["build", "--target", "sm_99"], "target 'sm_99' is unknown; accepted: cpu"),
        (["build", "--target", "sm_99"], ", triton"),
        (["build", "--emit", "c", "--target", "cpu"], "--emit prints one kernel"),
        (["build", *SMALL, "--form", "decode", "--emit", "cuda", "--target", "cpu"], "level 'cuda' does not exist"),
        (["build", *SMALL, "--form", "decode", "--schedule", "999", "--target", "cpu"], "legal schedules"),
        (["tune", "--form", "decode,nosuch"], "'nosuch' is unknown; accepted: step"),
        (["tune", "--budget", "soon"], "'soon' is not a time"),
        (["tune", "--window", "17"], "window=17: accepted: 1 to 16"),
        (["tune", "--batch", "0"], "not a positive integer"),
        (["bench", *SMALL, "--batch", "99999999999999999999"], "not a positive integer below 2147483648"),
        (["check", "--path", "nowhere"], "--path nowhere is not a folder"),
        (["list", "--path", "nowhere"], "--path nowhere is not a folder"),
        (["tune", "--heads", "2,4", "--tp", "1"], "--tp shares the model's heads out, and --heads replaces them"),
        (["explain", "gated_delta_rule", "--tp", "2", "--heads", "2,4"], "give one of the two"),
        (["nosuch"], "invalid choice: 'nosuch'"),
    ],
)  # fmt: skip
def test_bad_usage_is_one_line_and_exit_code_two(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], cache: Path
) -> None:
    assert said in refused(capsys, *arguments, code=2)
    assert not cache.exists()


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("illegal", "S = tanh(S)"),
        ("not_one", "has no recurrence 'not_one'; it has: mine, illegal"),
    ],
)
def test_wrong_recurrences_of_a_file(
    function: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text(FILE)
    assert said in refused(capsys, "explain", f"{tmp_path / 'mine.py'}:{function}", code=2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 / 0\n", "raised ZeroDivisionError"),
        ("def f(:\n", "raised SyntaxError"),
        ("raise SystemExit(0)\n", "raised SystemExit"),
        (FILE.replace("softplus(g)", "nothing(g)"), "NameError: name 'nothing' is not defined, at line 6: S = exp("),
        (FILE.replace("    S = S + outer", "    if g > 0: S = S + outer"), "TypeError: '>' not supported"),
    ],
)
def test_a_recurrence_file_that_raises(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my own").mkdir()
    (tmp_path / "my own" / "broken.py").write_text(text)
    assert said in refused(capsys, "explain", f"{tmp_path / 'my own' / 'broken.py'}:mine", code=2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not JSON"),
        ('{"form": []}', "form is []"),
        ('{"overrides": [{"key": {}, "artifact": "a\\u0000b"}]}', "overrides[0].artifact"),
        (None, "is missing"),
    ],
)
def test_a_bad_policy_file(
    text: str | None,
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if text is not None:
        (tmp_path / "policy.json").write_text(text)
    monkeypatch.setenv("KVBUFFER_CODEGEN_POLICY", str(tmp_path / "policy.json"))
    assert said in refused(capsys, "bench", *SMALL, "--target", "cpu", "--form", "decode", code=1)


def test_demo_reads_the_policy_before_it_tunes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers")
    monkeypatch.setenv("KVBUFFER_CODEGEN_POLICY", str(tmp_path / "policy.json"))
    assert "policy.json is missing" in refused(capsys, "demo", code=1)


@pytest.mark.parametrize("damage", [b"{\n", b"\xff\n", b'{"kind": 1}\n'])
def test_a_damaged_log(
    damage: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from kvbuffer_codegen.autotune.logs import Log

    (tmp_path / "log.jsonl").write_bytes(damage)
    monkeypatch.setattr(Log, "path", lambda self, form: tmp_path / "log.jsonl")
    line = refused(capsys, "tune", *SMALL, "--form", "advance", "--target", "cpu", "--logs", str(tmp_path), code=1)
    assert "log.jsonl, line 1: " in line


def test_folders_that_cannot_be(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVBUFFER_CODEGEN_PATH", "/nowhere:/dev/null:~no-such-user/kernels")
    assert main(["list"]) == 0
    assert "~no-such-user/kernels" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["build", "tune"])
def test_a_missing_compiler(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    line = refused(
        capsys, command, *SMALL, "--target", "cpu", "--form", "decode", "--out", str(tmp_path / "out"), code=1
    )
    assert "C++ compiler 'no-such-compiler' not found" in line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["build", "tune"])
def test_a_folder_that_cannot_be_written(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    line = refused(
        capsys, command, *SMALL, "--target", "cpu", "--form", "decode", "--out", str(tmp_path / "file" / "out"), code=1
    )
    assert f"--out {tmp_path / 'file' / 'out'} cannot be written" in line
    assert sorted(p.name for p in tmp_path.iterdir() if p.name != "cache") == ["file"]


def test_bench_names_what_makes_a_missing_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    assert "kvbuffer-codegen tune" in refused(capsys, "bench", *SMALL, "--target", "cpu", "--form", "decode", code=1)
