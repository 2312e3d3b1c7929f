"""The demo's judgement: it passes on right kernels, and one wrong in the fourth digit fails it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

pytest.importorskip("transformers")
from kvbuffer_codegen.cli import demo
from kvbuffer_codegen.runtime import Pool

pytestmark = [
    pytest.mark.slow,  # the torch reference decodes a model with heads of 128 x 128
    pytest.mark.filterwarnings("ignore:No .* kernel"),
]
TOKENS = 19  # past the buffer of 16: rows fold; no window of one token, which would be a decode


@pytest.fixture(autouse=True)
def quiet_cores() -> Iterator[None]:
    """One thread, as small tensors lose much where other processes hold the cores; no gradients, as in the command."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.no_grad():
        yield
    torch.set_num_threads(threads)


def judged() -> dict[str, bool]:
    """Outcome by check, those of time left out: the torch reference is slow."""
    report = demo.Report(lambda text: None, {})
    demo.decode_a_model(report, TOKENS, repeats=1)
    return {check.name: check.passed for check in report.checks if "generate()" not in check.name}


def test_right_outputs_pass_every_check() -> None:
    outcome = judged()
    assert len(outcome) == 7
    assert all(outcome.values()), outcome


def test_an_output_off_by_a_thousandth_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Pool.decode

    def wrong(self: Pool, *args: object, **inputs: torch.Tensor) -> torch.Tensor:
        out = right(self, *args, **inputs)  # type: ignore[arg-type]
        return out + 1e-3 * out.roll(1, dims=-1)

    monkeypatch.setattr(Pool, "decode", wrong)
    outcome = judged()
    assert not outcome["buffered: largest logit difference"]
    assert not outcome["dispatcher's choice: largest logit difference"]
    assert outcome[next(name for name in outcome if name.startswith("verify + commit"))]


def test_logits_that_are_not_numbers_are_infinitely_far() -> None:
    reference = torch.randn(3, 4)
    assert demo.distance(torch.full((3, 4), float("nan")), reference) == float("inf")
