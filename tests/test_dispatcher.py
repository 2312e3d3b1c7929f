"""Which kernel serves a call, why, and what is said where none does."""

from __future__ import annotations

import dataclasses
import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest
import runtime_kit
import torch
from runtime_kit import CONFIG, Streams, error, make_pool

from kvbuffer_codegen import caches
from kvbuffer_codegen.artifact import ArtifactError, Device, add_evidence, cpu_device, read_artifact
from kvbuffer_codegen.autotune.install import BUCKETS, bucket
from kvbuffer_codegen.compiler.portable import add_portable
from kvbuffer_codegen.index import SPACE, Choice, Index, read_index, update_index, write_index
from kvbuffer_codegen.ir.forms import KernelSpec, cursor_spec
from kvbuffer_codegen.ir.recurrences import gated_delta_rule
from kvbuffer_codegen.runtime import dispatcher, triton_kernels
from kvbuffer_codegen.runtime.arguments import kernel_spec
from kvbuffer_codegen.runtime.dispatcher import FallbackWarning, MissingKernelError
from kvbuffer_codegen.runtime.loader import load_kernel
from kvbuffer_codegen.runtime.policy import VARIABLE, PolicyError
from kvbuffer_codegen.runtime.reference import ReferenceKernel

pytestmark = pytest.mark.usefixtures("one_thread")

KEY: dict[str, Any] = {
    "form": "decode",
    "recurrence": "gated_delta_rule",
    "heads": (2, 4),
    "dims": (16, 16),
    "io": "float32",
    "buffer": 4,
}
DECODE, STEP = kernel_spec(**KEY), kernel_spec(**KEY | {"form": "step"})
HERE = cpu_device()


@pytest.fixture(autouse=True)
def shelf(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The user's cache of kernels, empty; nothing else is searched, no pin, no policy, and nothing was warned of."""
    monkeypatch.setenv(caches.CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.delenv(caches.PATH_VARIABLE, raising=False)
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(caches, "shipped_folder", lambda: tmp_path / "shipped")
    monkeypatch.setattr(dispatcher, "_warned", set())
    monkeypatch.setattr(dispatcher, "_pins", {})
    return tmp_path / "cache" / "kernels"


def place(
    folder: Path,
    spec: KernelSpec = DECODE,
    name: str = "kernel",
    rows: tuple[int, int | None] = (0, None),
    capability: str = HERE.capability,
    device: str = HERE.name,
    default: bool = False,
) -> Path:
    """A copy of the compiled kernel of ``spec`` in ``folder``, with a choice."""
    if not (folder / name).exists():
        shutil.copytree(runtime_kit.build(spec), folder / name)
    choice = Choice({**spec.key(), "space": SPACE}, rows, capability, name, device, default)
    update_index(folder, {name: read_artifact(folder / name).digest}, [choice])
    return folder / name


# --- the chain


def test_a_tuned_artifact_of_this_device_serves(shelf: Path) -> None:
    folder = place(shelf)
    found = dispatcher.which(**KEY, batch=3)
    assert found.artifact == folder
    assert "tuned for this device" in found.why
    assert dispatcher.find(**KEY).folder == folder
    assert load_kernel(**KEY).artifact.folder == folder


def test_then_one_of_another_device_of_the_architecture_then_a_default(shelf: Path) -> None:
    default = place(shelf, name="default", device="", default=True)
    assert dispatcher.which(**KEY) == (default, dispatcher.which(**KEY).why)
    assert "never tuned" in dispatcher.which(**KEY).why
    other = place(shelf, name="other", device="Some other CPU")
    assert dispatcher.which(**KEY).artifact == other
    assert "Some other CPU, of the same architecture" in dispatcher.which(**KEY).why
    here = place(shelf, name="here")
    assert dispatcher.which(**KEY).artifact == here


def test_another_architecture_never_serves(shelf: Path) -> None:
    place(shelf, capability="9.0")
    assert dispatcher.which(**KEY).artifact == "reference"


def test_the_bucket_of_the_rows_or_the_nearest(shelf: Path) -> None:
    few, many = place(shelf, name="few", rows=(16, 63)), place(shelf, name="many", rows=(256, 1023))
    for batch, folder in ((4, few), (15, few), (64, many), (200, many), (1, few), (30, few), (50, many), (1000, many)):
        assert dispatcher.which(**KEY, batch=batch).artifact == folder, batch
    assert "nearest bucket" in dispatcher.which(**KEY, batch=1).why
    assert "nearest bucket" not in dispatcher.which(**KEY, batch=4).why


@pytest.mark.parametrize("form", ["decode", "step", "verify"])
@pytest.mark.filterwarnings("ignore:No .* kernel")
def test_every_bucket_of_the_tuner_has_a_kernel_of_its_own(shelf: Path, form: str) -> None:
    """As `tune` and `tune --from-logs` write choices: B = 1 to 512 of 32 value heads, shared out over 1 to 8 ranks."""
    spec = kernel_spec(**KEY | {"form": form, "window": 3 if form == "verify" else 0})
    folders = {lo: place(shelf, spec, f"{form}-{lo}", rows=bucket(lo)) for lo in BUCKETS}
    call = {**KEY, "form": form, "window": spec.window}
    for tp in (1, 2, 4, 8):
        for batch in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512):
            rows = batch * 32 // tp
            found = dispatcher.which(**call | {"heads": (16 // tp, 32 // tp)}, batch=batch)
            assert found.artifact == folders[max(lo for lo in BUCKETS if lo <= rows)], (tp, batch)
    for lo, folder in folders.items():  # copies of one kernel, told apart by what was measured of them
        add_evidence(folder, "check", device="x", driver="", result={"lo": lo})
        update_index(shelf, {folder.name: read_artifact(folder).digest})
    pool = make_pool(max_window=4)
    names = {pool._lookup.kernel(form, batch, spec.window) for batch in (1, 4, 16, 64, 256, 1024)}
    assert len(names) == len(BUCKETS)


def test_a_shard_is_another_bucket_of_the_same_key(shelf: Path) -> None:
    few, many = place(shelf, name="few", rows=(0, 63)), place(shelf, name="many", rows=(64, None))
    assert dispatcher.which(**KEY | {"heads": (2, 4)}, batch=8).artifact == few
    assert dispatcher.which(**KEY | {"heads": (8, 16)}, batch=8).artifact == many


def test_choices_of_another_schedule_space_are_void(shelf: Path) -> None:
    """What was tuned among other candidates says nothing of these; the next write drops it, the artifact stays."""
    place(shelf, name="old", rows=(0, 63))
    index = read_index(shelf)
    (old,) = index.choices
    write_index(shelf, Index(index.artifacts, (dataclasses.replace(old, key={**old.key, "space": "0" * 12}),)))
    assert dispatcher.which(**KEY).artifact == "reference"
    new = place(shelf, name="new", rows=(64, None))
    assert dispatcher.which(**KEY).artifact == new
    assert [c.artifact for c in read_index(shelf).choices] == ["new"]
    assert set(read_index(shelf).artifacts) == {"old", "new"}


def test_folders_are_searched_in_order(shelf: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shipped = place(tmp_path / "shipped")
    assert dispatcher.which(**KEY).artifact == shipped
    cached = place(shelf)
    assert dispatcher.which(**KEY).artifact == cached
    mine = place(tmp_path / "mine")
    monkeypatch.setenv(caches.PATH_VARIABLE, f"{tmp_path / 'absent'}:{tmp_path / 'mine'}")
    assert dispatcher.which(**KEY).artifact == mine


@pytest.mark.parametrize(
    "change",
    [
        {"form": "step"},
        {"dims": (128, 16)},
        {"heads": (4, 4)},
        {"io": "bfloat16"},
        {"state": "float16"},
        {"layout": "KV"},
        {"buffer": 8},
        {"kv_only": 8},
        {"form": "verify", "window": 4},
    ],
    ids=str,
)
def test_the_key_holds_everything_that_a_binary_is_specialised_for(shelf: Path, change: dict[str, Any]) -> None:
    place(shelf)
    assert dispatcher.which(**KEY | change).artifact == "reference"


# --- damage


def test_a_damaged_artifact_is_refused_with_the_reason_and_the_next_one_serves(shelf: Path) -> None:
    bad, good = place(shelf, name="bad", rows=(0, 63)), place(shelf, name="good", rows=(64, None))
    with open(next(bad.glob("*.so")), "ab") as file:
        file.write(b"x")
    assert dispatcher.which(**KEY).artifact == good
    shutil.rmtree(good)
    why = dispatcher.which(**KEY).why
    assert "sha256" in why
    assert "good" in why


def test_an_artifact_that_its_index_does_not_list_with_this_digest_is_refused(shelf: Path) -> None:
    folder = place(shelf)
    add_evidence(folder, "check", device="x", driver="", result={})
    found = dispatcher.which(**KEY)
    assert found.artifact == "reference"
    assert "the index lists" in found.why


def test_a_choice_of_another_kernel_is_refused(shelf: Path) -> None:
    place(shelf, STEP, "wrong")
    choice = Choice(DECODE.key(), (0, None), HERE.capability, "wrong", HERE.name)
    update_index(shelf, {}, [choice])
    assert "form='step'; needed: form='decode'" in dispatcher.which(**KEY).why


# --- the loud fallback


def decode_three_times() -> None:
    for _ in range(3):
        pool = make_pool(form="decode", layers=1)
        streams = Streams(pool, 1, 2)
        pool.decode(0, torch.tensor([0]), **streams.layer(0, [(0, 0)]))
        pool.advance(torch.tensor([0]))


def test_fallback_warns_once_and_says_what_makes_the_kernel() -> None:
    with pytest.warns(FallbackWarning) as caught:
        decode_three_times()
    texts = [str(w.message) for w in caught if w.category is FallbackWarning]
    assert len(texts) == 2  # decode and advance
    assert "K=16, V=16, ratio=2, io=float32" in texts[0]
    assert (
        "kvbuffer-codegen tune gated_delta_rule --heads 2,4 --dims 16,16 --io float32 --state float32 "
        "--layout VK --buffer 4 --form decode --batch 1 --target cpu" in texts[0]
    )
    assert caught[0].filename == __file__


def test_the_command_of_the_warning_is_one_that_the_tool_takes() -> None:
    from kvbuffer_codegen.cli.main import parser

    spec = kernel_spec(**KEY | {"form": "verify", "window": 4, "kv_only": 6})
    for call in (
        dispatcher.Call(spec, torch.device("cpu"), 3, (2, 4)),
        dispatcher.Call(cursor_spec("commit"), torch.device("cpu"), 3, (2, 4)),
    ):
        args = parser().parse_args(dispatcher.tune_command(call).split()[1:])
        assert args.command == "tune"
        assert call.spec.form in args.form


def test_strict_raises_and_loads_what_ships_alone(shelf: Path, tmp_path: Path) -> None:
    place(shelf)
    streams = Streams(make_pool(layers=1), 1, 2)
    pool = make_pool(form="decode", layers=1, strict=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(MissingKernelError, match="kvbuffer-codegen tune"):
            pool.decode(0, torch.tensor([0]), **streams.layer(0, [(0, 0)]))
    for spec in (DECODE, cursor_spec("advance")):
        place(tmp_path / "shipped", spec, spec.form)
    pool.decode(0, torch.tensor([0]), **streams.layer(0, [(0, 0)]))
    pool.advance(torch.tensor([0]))


def test_find_and_load_kernel_raise_where_there_is_no_artifact() -> None:
    for function in (dispatcher.find, load_kernel):
        with pytest.raises(MissingKernelError, match="No decode kernel"):
            function(**KEY)


def test_a_tuned_kernel_is_found_by_the_next_pool_of_the_same_process(shelf: Path) -> None:
    assert dispatcher.which(**KEY).artifact == "reference"
    place(shelf)
    assert dispatcher.which(**KEY).artifact == shelf / "kernel"


# --- portable kernels


class FakeTriton:
    """Stands in for a :class:`TritonKernel`: it compiles nothing, and refuses a file as that does."""

    def __init__(self, spec: KernelSpec, path: Path, digest: str, device: torch.device) -> None:
        triton_kernels.checked(path, digest)
        self.spec, self.path, self.index = spec, path, -1

    def prepare(self, index: int) -> None:
        self.index = index


@pytest.fixture
def a100(monkeypatch: pytest.MonkeyPatch) -> torch.device:
    """A GPU for which nothing is tuned, in a process that has Triton."""
    gpu = Device("cuda", "8.0", driver=13000, name="NVIDIA A100")
    monkeypatch.setattr(dispatcher, "_describe", lambda device: gpu if device.type == "cuda" else HERE)
    monkeypatch.setattr(dispatcher, "available", lambda: True)
    monkeypatch.setattr(dispatcher, "TritonKernel", FakeTriton)
    monkeypatch.setattr(dispatcher, "_loaded", {})
    return torch.device("cuda:0")


def served(device: torch.device) -> Any:
    return dispatcher._loaded[dispatcher.select(DECODE, device, 3, (2, 4))]


def test_a_portable_kernel_serves_where_nothing_is_tuned_and_says_so_once(a100: torch.device, shelf: Path) -> None:
    add_portable(gated_delta_rule.normal_form, shelf)
    with pytest.warns(FallbackWarning, match=r"--form decode --batch 3 \(the portable Triton kernel serves") as caught:
        kernel, again = served(a100), served(a100)
    assert kernel is again
    assert len(caught) == 1
    assert isinstance(kernel, FakeTriton)
    assert kernel.index == 0  # compiled before a graph can be captured
    found = dispatcher.which(**KEY, device=a100)
    assert found.artifact == kernel.path
    assert "the portable Triton kernel" in found.why


def test_a_tuned_artifact_goes_before_a_portable_kernel(a100: torch.device, shelf: Path) -> None:
    add_portable(gated_delta_rule.normal_form, shelf)
    dispatcher.pin(KEY, None)
    place(shelf)  # for this CPU
    assert dispatcher.which(**KEY).artifact == shelf / "kernel"
    assert dispatcher.which(**KEY, device=a100).artifact != shelf / "kernel"


def test_strict_takes_no_portable_kernel(a100: torch.device, tmp_path: Path) -> None:
    add_portable(gated_delta_rule.normal_form, tmp_path / "shipped")
    with pytest.raises(MissingKernelError):
        dispatcher.select(DECODE, a100, 3, (2, 4), strict=True)
    assert dispatcher.which(**KEY, device=a100, strict=True).artifact == "reference"


def test_without_triton_that_step_of_the_chain_is_absent(
    a100: torch.device, shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_portable(gated_delta_rule.normal_form, shelf)
    monkeypatch.setattr(dispatcher, "available", lambda: False)
    with pytest.warns(FallbackWarning, match="torch operations serve"):
        assert isinstance(served(a100), ReferenceKernel)


def test_a_file_that_is_not_what_the_index_lists_is_refused_with_the_reason(a100: torch.device, shelf: Path) -> None:
    for file in add_portable(gated_delta_rule.normal_form, shelf):
        with open(shelf / file, "a") as text:
            text.write("import os\n")
    with pytest.warns(FallbackWarning, match=r"Refused: .*the index lists .*torch operations serve"):
        assert isinstance(served(a100), ReferenceKernel)


def test_an_unlisted_file_never_serves(a100: torch.device, shelf: Path) -> None:
    add_portable(gated_delta_rule.normal_form, shelf)
    write_index(shelf, Index())
    assert dispatcher.which(**KEY, device=a100).artifact == "reference"


def test_load_kernel_takes_a_portable_kernel_too(a100: torch.device, shelf: Path) -> None:
    with pytest.raises(MissingKernelError):
        load_kernel(**KEY, device=a100)
    add_portable(gated_delta_rule.normal_form, shelf)
    with pytest.warns(FallbackWarning, match="portable"):
        assert isinstance(load_kernel(**KEY, device=a100), FakeTriton)


# --- pins and policy


def test_pin(shelf: Path, tmp_path: Path) -> None:
    place(shelf)
    mine = place(tmp_path / "mine")
    dispatcher.pin(KEY, mine)
    assert dispatcher.which(**KEY) == (mine, "pinned")
    assert dispatcher.which(**KEY, strict=True).artifact == mine
    dispatcher.pin(DECODE, None)
    assert dispatcher.which(**KEY).artifact == shelf / "kernel"


def test_pin_of_another_kernel_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="form='step'"):
        dispatcher.pin(KEY, place(tmp_path / "mine", STEP))
    with pytest.raises(ArtifactError, match="missing"):
        dispatcher.pin(KEY, tmp_path / "nothing")


def write_policy(path: Path, monkeypatch: pytest.MonkeyPatch, data: Any) -> None:
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    monkeypatch.setenv(VARIABLE, str(path))


def test_policy_overrides(shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place(shelf)
    mine = place(tmp_path / "mine")
    overrides = [
        {"key": {"form": "decode", "K": 16}, "rows": [0, 15], "artifact": "mine/kernel"},
        {"key": {"recurrence": "gated_delta_rule"}, "rows": [64, None], "artifact": "reference"},
    ]
    write_policy(tmp_path / "policy.json", monkeypatch, {"overrides": overrides})
    assert dispatcher.which(**KEY, batch=3).artifact == mine
    assert dispatcher.which(**KEY, batch=8).artifact == shelf / "kernel"
    assert dispatcher.which(**KEY, batch=16).artifact == "reference"
    assert "policy.json asks for the reference" in dispatcher.which(**KEY, batch=16).why


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("{", "not JSON"),
        ([], "accepted: an object with form and overrides"),
        ({"from": "decode"}, "has from"),
        ({"form": "fast"}, "form is 'fast'; accepted: auto, decode, step"),
        ({"overrides": {}}, "accepted: a list"),
        ({"overrides": [{"key": {}}]}, r"overrides\[0\]"),
        ({"overrides": [{"key": {"shape": 1}, "artifact": "x"}]}, "key is"),
        ({"overrides": [{"key": {}, "artifact": 1}]}, "artifact is 1"),
        ({"overrides": [{"key": {}, "artifact": "x", "rows": [1]}]}, "rows is"),
    ],
    ids=str,
)
def test_bad_policy_names_the_field(data: Any, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_policy(tmp_path / "policy.json", monkeypatch, data)
    with pytest.raises(PolicyError, match=message):
        dispatcher.which(**KEY)


# --- step or decode


def timed(folder: Path, us: dict[int, float]) -> None:
    for rows, microseconds in us.items():
        result = {"us": microseconds, "rows": rows}
        add_evidence(folder, "timing", device=HERE.name, driver="", result=result)
    update_index(folder.parent, {folder.name: read_artifact(folder).digest})


def chosen(batch: int, **more: Any) -> str:
    return dispatcher.token_form(DECODE, STEP, torch.device("cpu"), batch, (2, 4), **more)


def test_the_form_is_the_one_measured_to_be_faster_at_the_nearest_size(
    shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert chosen(4) == "decode"  # nothing measured
    timed(place(shelf, DECODE, "decode"), {4: 5.0, 128: 20.0})
    timed(place(shelf, STEP, "step"), {4: 4.0, 128: 30.0})
    assert [chosen(batch) for batch in (1, 2, 32, 500)] == ["step", "step", "decode", "decode"]
    assert chosen(1, batch_invariant=True) == "decode"
    write_policy(tmp_path / "policy.json", monkeypatch, {"form": "decode"})
    assert chosen(1) == "decode"


@pytest.mark.filterwarnings("ignore:No .* kernel")
def test_a_pool_decodes_in_the_chosen_form(shelf: Path) -> None:
    for spec, us in ((DECODE, 5.0), (STEP, 4.0)):
        timed(place(shelf, spec, spec.form), {4: us})
    pool = make_pool()
    streams, slots = Streams(pool, 1, 6), torch.tensor([0])
    pool.load(0, streams.start[:, 0])
    for t in range(6):
        for layer in range(2):
            pool.decode(layer, slots, **streams.layer(layer, [(0, t)]))
        pool.advance(slots)
    assert pool.pending[0] == 0  # step leaves no record
    assert error(pool.materialize(0), streams.truth[1][:, 0, 5]) < 1e-5


@pytest.mark.filterwarnings("ignore:No .* kernel")
def test_batch_invariant_pins_one_kernel_per_form(shelf: Path) -> None:
    place(shelf, name="few", rows=(0, 15))
    place(shelf, name="many", rows=(16, None))
    add_evidence(shelf / "many", "check", device="x", driver="", result={})  # another digest, so another kernel
    update_index(shelf, {"many": read_artifact(shelf / "many").digest})
    names = {
        invariant: {make_pool(batch_invariant=invariant)._lookup.kernel("decode", batch) for batch in (1, 3, 8, 100)}
        for invariant in (False, True)
    }
    assert len(names[False]) == 2
    assert len(names[True]) == 1


def test_every_rank_picks_the_same(shelf: Path) -> None:
    """A choice is a function of files and of sizes: where two cover the rows, their order in the index says nothing."""
    place(shelf, name="b", rows=(0, None))
    place(shelf, name="a", rows=(0, 99))
    first = dispatcher.which(**KEY)
    index = json.loads((shelf / "index.json").read_text())
    index["choices"].reverse()
    (shelf / "index.json").write_text(json.dumps(index))
    assert len(index["choices"]) == 2
    assert dispatcher.which(**KEY) == first


def test_config_and_key_name_the_same_kernel() -> None:
    pool = make_pool()
    assert pool._lookup.spec("decode") == DECODE
    assert CONFIG["recurrence"] is gated_delta_rule
