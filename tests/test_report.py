"""Logs and peer measurements become numbers, pictures and one page; what is missing is said, never drawn empty."""

from __future__ import annotations

import base64
import itertools
import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import peer_kit
import pytest

from kvbuffer_codegen.autotune.logs import Log, read_log
from kvbuffer_codegen.cli.main import main
from kvbuffer_codegen.report import plots, series
from kvbuffer_codegen.report.figures import MEASURED, MODEL, Curve, Figure, Grid, Panel
from kvbuffer_codegen.report.timings import log_files, read_timings, timings

LOGS = Path(__file__).parent.parent / "tuning_logs"
#: Of Qwen3-Next's layer.
H200 = [
    line
    for file in sorted(LOGS.glob("nvidia-h200_*.jsonl"))
    for line in read_log(file)
    if line["key"]["recurrence"] in ("gated_delta_rule", "cursors") and line["H"] in (16, None)
]
PNG = b"\x89PNG\r\n\x1a\n"
#: Tags that HTML closes by itself.
VOID = {"meta", "link", "img"}


def line(form: str = "decode", **changes: Any) -> dict[str, Any]:
    """A line of a log as the H200's are: a float32 kernel of L = 16, without kv_only, T = 4 of verify, at B = 8."""
    shape = {"form": form, "state": "float32", "kv_only": 0, "window": 4 if form == "verify" else 0}
    found = next(x for x in H200 if shape.items() <= x["key"].items() and (x["rows"], x.get("stage")) == (8, "final"))
    key = {**found["key"], **changes.pop("key", {})}
    return {**found, "attempt": 1, "read": [4e12], **changes, "key": key}


def figures(lines: list[dict[str, Any]]) -> dict[str, Figure | Grid]:
    (section,) = series.sections(timings(lines))
    return {figure.name: figure for figure in section.figures}


def curves(figure: Figure | Grid, kind: str) -> list[Curve]:
    assert isinstance(figure, Figure)
    return [curve for panel in figure.panels for curve in panel.curves if curve.kind == kind]


# --- which timing counts


def test_the_last_run_counts_and_in_it_the_choice() -> None:
    other = {**line()["schedule"], "lanes": 8}
    lines = [
        line(run="1", us=[1.0]),
        line(run="2", us=[9.0, 7.0, 8.0]),
        line(run="2", us=[5.0], schedule=other),
        line(run="2", us=[0.5], stage="rung 0"),
        line(run="2", us=[0.5], status="wrong"),
    ]
    (fastest,) = timings(lines)
    assert (fastest.us, fastest.run) == (5.0, "2")
    choice = {**line(run="2"), "kind": "choice", "us": 8.0}
    (chosen,) = timings([choice, *lines])
    assert (chosen.us, chosen.least, chosen.most, chosen.repeats) == (8.0, 7.0, 9.0, 3)
    (repeated,) = timings([*lines, line(run="2", us=[6.0], attempt=2)])
    assert repeated.us == 6.0


def test_a_run_that_timed_nothing_to_the_end_hides_no_earlier_one() -> None:
    (found,) = timings([line(run="1", us=[3.0]), line(run="2", stage="rung 0"), line(run="3", us=[], status="crash")])
    assert (found.run, found.us) == ("1", 3.0)


def test_share_of_the_floor() -> None:
    (found,) = timings([line(us=[10.0], bytes=20e6, read=[4e12])])
    assert found.share == pytest.approx(0.5)
    (without,) = timings([line(read=[])])
    assert without.share is None


# --- figures


@pytest.mark.parametrize(
    ("form", "name", "at", "length"), [("decode", "latency", 16, 64), ("verify", "windows-float32", 4, 16)]
)
def test_the_models_curve_is_the_floor_of_what_was_timed(form: str, name: str, at: int, length: int) -> None:
    """The log's bytes come from the timed workload, row by row; the curve from ir.cost, over a cycle."""
    timed = line(form)
    (model,) = curves(figures([timed])[name], MODEL)
    assert [p[0] for p in model.points] == list(range(1, length + 1))
    assert model.points[at - 1][1] == pytest.approx(timed["bytes"] / timed["read"][0] * 1e6, rel=1e-4)


def test_buffer_lengths_join_and_equal_models_are_drawn_once() -> None:
    lengths = [
        line(key={"buffer": L, "state": state}, us=[us])
        for L, us in ((8, 12.0), (16, 11.0))
        for state in ("bfloat16", "float16")
    ]
    found = figures(lengths)["latency"]
    measured, model = curves(found, MEASURED), curves(found, MODEL)
    assert [c.label for c in measured] == ["bfloat16", "float16"]
    assert [p[:2] for p in measured[0].points] == [(8, 12.0), (16, 11.0)]
    assert [c.label for c in model] == ["cost model: bfloat16; float16"]
    assert not found.notes
    assert figures(lengths[:2])["latency"].notes == (
        "One buffer length was timed, 8: the rest is the cost model alone.",
    )


def test_many_states_have_figures_of_their_own() -> None:
    few = [line(key={"state": s}) for s in ("float32", "float16", "bfloat16")]
    assert [name for name in figures(few) if name.startswith("latency")] == ["latency"]
    kinds = [("exact", "nearest"), ("bf16", "nearest"), ("exact", "stochastic")]
    many = [line(key={"state": s, "records": r, "rounding": x}) for s in ("float16", "bfloat16") for r, x in kinds]
    many += [line()]
    names = [name for name in figures(many) if name.startswith("latency")]
    assert names == ["latency-bfloat16", "latency-float16", "latency-float32"]
    assert [c.label for c in curves(figures(many)["latency-float16"], MEASURED)] == [
        "float16",
        "float16, bf16 records",
        "float16, stochastic",
    ]


def test_crossover_says_where_decode_overtakes_step() -> None:
    lines = [line("decode", rows=B, us=[us]) for B, us in ((1, 5.0), (8, 11.0), (32, 28.0))]
    lines += [line("step", rows=B, us=[us]) for B, us in ((1, 4.0), (8, 12.0), (32, 38.0))]
    found = figures(lines)["crossover-float32"]
    assert "decode, L = 16: faster than step from B = 8 on, of B = 1, 8, 32." in found.notes
    assert "kv_only calls were not timed: their curve is the cost model's alone." in found.notes
    assert [p.title for p in found.panels] == ["B = 1", "B = 8", "B = 32", "against the batch"]


def test_what_different_runs_took_is_not_compared() -> None:
    lines = [line("decode", run="1", us=[5.0]), line("step", run="2", us=[4.0])]
    assert not [note for note in figures(lines)["crossover-float32"].notes if "faster than step" in note]


def test_kv_only_timings_are_a_curve_of_their_own_and_change_no_other() -> None:
    C = {"kv_only": 64}
    cycle = line(key=C, us=[13.0], run="1")
    plain = line(us=[10.0], run="1")
    contexts = [line(key=C, us=[us], run="1", stage="kv_only", context=n) for n, us in ((1, 3.0), (33, 4.0), (65, 6.0))]
    found = figures([cycle, plain, *contexts])
    notes = found["crossover-float32"].notes
    (kv_only,) = [c for c in curves(found["crossover-float32"], MEASURED) if c.label == "kv_only"]
    assert [p[:2] for p in kv_only.points] == [(1, 3.0), (33, 4.0), (65, 6.0)]
    assert "kv_only, mean over contexts 1 to 65, of decode, L = 16: 0.42 (4.25 us) at B = 8." in notes
    assert not any("kv_only calls were not timed" in note for note in notes)
    assert [c.points[0][:2] for c in curves(found["latency"], MEASURED)] == [(16, 10.0), (16, 13.0)]


def test_a_short_context_moves_its_records_and_no_state() -> None:
    (decode,) = timings([line(rows=1)])
    record = 32 * 128 * 4 + 16 * 128 * 2 + 16 * 4 + 32 * 4
    io = (2 * 16 * 128 + 32 * 128 + 2 * 32 + 32 * 128) * 2
    (model,) = [c for c in curves(figures([line(rows=1)])["crossover-float32"], MODEL) if "kv_only" in c.label]
    for n, us in ((1, record + io), (9, 9 * record + io)):
        assert model.points[n - 1] == pytest.approx((n, us / decode.read * 1e6))


def test_windows_longer_than_the_buffer_have_no_model() -> None:
    """Where every window folds, ir.cost's cycle has no fold."""
    (model,) = curves(figures([line("verify", key={"buffer": 8})])["windows-float32"], MODEL)
    assert [p[0] for p in model.points] == list(range(1, 9))


def test_what_is_missing_is_said() -> None:
    found = figures([line("decode")])
    assert found["windows"].empty
    assert found["windows"].notes == ("No verify kernel was timed to the end: nothing is drawn.",)
    assert "No step kernel was timed to the end." in found["crossover-float32"].notes
    found = figures([line("verify")])
    assert found["latency"].empty
    assert found["crossover"].empty
    blind = figures([line("decode", read=[])])
    assert not curves(blind["latency"], MODEL)
    assert blind["shares"].empty
    assert blind["shares"].notes[-1] == "No kernel was timed beside a plain read: there are no shares."


def test_another_versions_recurrence_has_no_model() -> None:
    (section,) = series.sections(timings([line(key={"recurrence_hash": "0" * 64})]))
    assert any("cost model's curves are missing" in fact for fact in section.facts)
    assert not curves(section.figures[0], MODEL)


def test_shares_of_each_kernel_and_bucket() -> None:
    shares = figures(H200)["shares"]
    assert isinstance(shares, Grid)
    assert shares.columns == tuple(f"B = {B}\n{32 * B} rows" for B in (1, 4, 8, 32, 128))
    by_name = dict(zip(shares.rows, shares.values, strict=True))
    of_all_lengths = [
        t.share for t in timings(H200) if (t.form, t.rows, t.key["state"]) == ("step", 128, "float32") and not t.kv_only
    ]
    assert by_name["step: float32"][-1] == pytest.approx(max(of_all_lengths))
    assert all(value is None or 0 < value < 1.05 for row in shares.values for value in row)


# --- pictures


def test_pictures_of_the_shipped_logs_show_every_word_apart() -> None:
    pytest.importorskip("matplotlib", reason="the extra [report] is not installed")
    crowd = [
        line(rows=B, key={"buffer": L, "state": s})
        for B in (1, 2, 4, 8, 32, 128, 512)
        for L in (8, 16, 32)
        for s in ("float32", "float16")
    ]
    crowd += [
        line("verify", rows=B, key={"window": T, "buffer": L}) for B in (1, 8) for T in (2, 4, 8) for L in (8, 16, 32)
    ]
    drawn = [*figures(crowd).values(), *figures(H200).values()]
    for figure in (f for f in drawn if not f.empty):
        boxes = words(plots.draw(figure, "a layer " * 12))
        for (name, a), (other, b) in itertools.combinations(boxes, 2):
            assert not a.overlaps(b), f"{figure.name}: {name} lies on {other}"


def test_a_model_of_what_was_measured_needs_no_word_of_its_own() -> None:
    pytest.importorskip("matplotlib", reason="the extra [report] is not installed")
    shown = figures([line(key={"state": s}) for s in ("bfloat16", "float16", "float32")])["latency"]
    (legend,) = plots.draw(shown).legends
    labels = [text.get_text() for text in legend.get_texts()]
    assert labels == ["bfloat16", "cost model: bfloat16; float16", "float16", "float32", plots.SAME_COLOR]


def test_a_model_far_below_what_was_measured_leaves_the_axis() -> None:
    pytest.importorskip("matplotlib", reason="the extra [report] is not installed")
    C = {"kv_only": 64}
    timed = [line(rows=1, key=C, us=[5.0]), line(rows=8, key=C, us=[10.0])]
    timed += [line(rows=B, key=C, us=[4.0], stage="kv_only", context=n) for B in (1, 8) for n in (8, 64)]
    shown = figures(timed)["crossover-float32"]
    for ax, panel in zip(plots.draw(shown).axes, shown.panels, strict=True):
        low, models = ax.get_ylim()[0], [[p[1] for p in c.points] for c in panel.curves if c.kind == MODEL]
        assert min(map(min, models)) < low < min(map(max, models))
    batch = shown.panels[-1]
    assert [c.label for c in batch.curves if c.kind == MEASURED] == [
        "decode, L = 16",
        "kv_only, context 8",
        "kv_only, context 64",
    ]


def words(drawn: Any) -> list[tuple[str, Any]]:
    """Where a picture's axes with their labels, its legend and its title are."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(drawn)
    canvas.draw()
    renderer = canvas.get_renderer()
    boxes = [(f"axes {i}", ax.get_tightbbox(renderer)) for i, ax in enumerate(drawn.axes) if ax.axison]
    boxes += [("legend", legend.get_window_extent(renderer)) for legend in drawn.legends]
    ticks = [t for ax in drawn.axes for t in (ax.get_xticklabels(),) if ax.axison for t in t if t.get_text()]
    assert ticks
    return [*boxes, ("title", drawn._suptitle.get_window_extent(renderer))]


def test_equal_numbers_give_equal_files_and_an_empty_figure_none() -> None:
    pytest.importorskip("matplotlib", reason="the extra [report] is not installed")
    panel = Panel(
        "B = 1",
        "x",
        (Curve("a", MEASURED, ((1, 2.0, 1.0, 3.0), (8, 4.0)), "a"), Curve("b", MODEL, ((1, 1.0), (8, 2.0)), "a")),
    )
    figure = Figure("f", "title", "us", (panel,))
    assert plots.png(figure) == plots.png(figure)
    assert plots.png(figure).startswith(PNG)
    with pytest.raises(ValueError, match="figure f is empty"):
        plots.png(replace(figure, panels=()))


# --- the command


class Strict(HTMLParser):
    """Complains about what browsers forgive, and collects what a page would load."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"{tag}: {names}"
        self.tags.append(tag)
        self.loads += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag


def parsed(page: Path) -> Strict:
    parser = Strict()
    parser.feed(page.read_text(encoding="utf-8"))
    parser.close()
    assert parser.open == []
    return parser


def test_report_of_the_shipped_logs_and_peers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib", reason="the extra [report] is not installed")
    peers = tmp_path / "peers.json"
    peers.write_text(json.dumps(peer_kit.run()))
    assert main(["report", str(LOGS), "--peers", str(peers), "--out", str(tmp_path / "out"), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    names = [
        f"{s['name']}-{f['name']}.png"
        for s in printed["sections"]
        for f in s["figures"]
        if f.get("panels", f.get("rows"))
    ]
    assert {f.name for f in (tmp_path / "out").iterdir()} == {"report.html", *names}
    page = parsed(tmp_path / "out" / "report.html")
    pictures = [x.removeprefix("data:image/png;base64,") for x in page.loads if x.startswith("data:image")]
    assert len(pictures) == len(names)
    assert all(base64.b64decode(x, validate=True).startswith(PNG) for x in pictures)
    assert all(x.startswith(("data:", "#")) for x in page.loads)
    assert {x for x in page.loads if x.startswith("#")} == {f"#{s['name']}" for s in printed["sections"]}
    assert not {"script", "iframe", "style@import"} & set(page.tags)
    text = (tmp_path / "out" / "report.html").read_text()
    assert not re.search(r"https?://|url\(|@import", text)
    assert "crashed [1]" in text
    h200 = next(s for s in printed["sections"] if "H200" in s["title"])
    assert h200["figures"][0]["panels"][0]["curves"][0]["points"]


def test_a_browser_opens_the_page_without_a_word(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra [report] is not installed")
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        pytest.skip("no headless browser is installed")
    assert main(["report", str(LOGS / "nvidia-h200_decode.jsonl"), "--out", str(tmp_path)]) == 0
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", f"--user-data-dir={tmp_path}/b"]
    command = [browser, *flags, "--dump-dom", (tmp_path / "report.html").as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert "</html>" in done.stdout
    assert not [line for line in done.stderr.splitlines() if ":CONSOLE" in line or "net_error" in line]


def test_report_without_verify_says_so_on_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib", reason="the extra [report] is not installed")
    log = Log(tmp_path / "logs", "NVIDIA H200")
    log.append("decode", line("decode"))
    assert main(["report", str(tmp_path / "logs"), "--out", str(tmp_path / "out")]) == 0
    sentence = "No verify kernel was timed to the end: nothing is drawn."
    assert sentence in capsys.readouterr().out
    assert sentence in (tmp_path / "out" / "report.html").read_text()
    assert not list((tmp_path / "out").glob("*windows*"))


@pytest.mark.parametrize(
    ("write", "arguments", "code", "said"),
    [
        (None, ["nowhere"], 2, "LOG nowhere: no log is there"),
        ({"a.jsonl": "{}\n{}\n"}, ["."], 1, "a.jsonl, line 1: not a trial or a choice"),
        ({"a.jsonl": ""}, ["."], 1, "no kernel was timed to the end"),
        ({"p.json": "{}"}, ["--peers", "p.json"], 2, "--peers p.json is not what benchmarks/peers.py wrote"),
        ({"p.json": '{"schema": 2}'}, ["--peers", "p.json"], 2, "schema 2; accepted: 1"),
        ({"p.json": "["}, ["--peers", "p.json"], 2, "--peers p.json is not what benchmarks/peers.py wrote"),
        (None, ["--peers", "none.json"], 1, "none.json"),
    ],
)
def test_report_refuses_in_one_line(
    write: dict[str, str] | None,
    arguments: list[str],
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in (write or {}).items():
        (tmp_path / name).write_text(text)
    assert main(["report", *arguments, "--out", "out"]) == code
    (error,) = capsys.readouterr().err.splitlines()
    assert said in error
    assert not (tmp_path / "out").exists()


def test_report_without_matplotlib(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["report", str(LOGS), "--out", str(tmp_path / "out")]) == 1
    assert "pip install 'kvbuffer-codegen[report]'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_logs_are_found_in_files_and_folders() -> None:
    files = log_files([LOGS, LOGS / "nvidia-h200_decode.jsonl"])
    assert files == sorted(LOGS.glob("*.jsonl"))
    assert {t.layer.device for t in read_timings(files)} == {"NVIDIA H200", "AMD EPYC x2"}
