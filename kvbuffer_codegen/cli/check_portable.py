"""``check`` of portable kernels: against the oracle on a GPU, or (``--stale``) against what this tree emits."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from kvbuffer_codegen.artifact import ArtifactError
from kvbuffer_codegen.caches import shipped_folder
from kvbuffer_codegen.cli.common import one_line
from kvbuffer_codegen.cli.verdict import PASSED, SKIPPED, WRONG, Verdict
from kvbuffer_codegen.index import read_index
from kvbuffer_codegen.ir.forms import KernelSpec, cursor_spec
from kvbuffer_codegen.ir.portable import CURSOR_FORMS, PORTABLE_FORMS


def check_portable(folders: list[Path], against_tree: bool) -> list[Verdict]:
    """A verdict on every listed file, and on what should be listed among what ships."""
    verdicts = []
    for folder in folders:
        try:
            listed = read_index(folder).portable
        except ArtifactError:
            continue  # said already, with the artifacts
        verdicts += [_verdict(folder / file, digest, against_tree) for file, digest in listed.items()]
        if against_tree and folder == shipped_folder():
            verdicts += _missing(folder, set(listed))
    return verdicts


def _verdict(path: Path, digest: str, against_tree: bool) -> Verdict:
    from kvbuffer_codegen.compiler.portable import read_portable, stale

    begin = time.monotonic()
    verdict = Verdict(path.stem, str(path), PASSED, target="triton")
    try:
        spec = read_portable(path, digest)
        if against_tree:
            verdict.reason = _unknown(spec) or stale(path, spec)
            verdict.status = WRONG if verdict.reason else PASSED
        else:
            _run(verdict, spec, path, digest)
    except (ArtifactError, ValueError) as error:
        verdict.status, verdict.reason = WRONG, one_line(error)
    verdict.seconds = round(time.monotonic() - begin, 3)
    return verdict


def _unknown(spec: KernelSpec) -> str:
    """Why a recurrence of that name is another one here, or nothing (one of the user's own is what the file says)."""
    from kvbuffer_codegen.ir.recurrences import RECURRENCES

    shipped = RECURRENCES.get(spec.recurrence.name) if spec.recurrence else None
    if spec.recurrence is None or shipped is None or shipped.normal_form.hash == spec.recurrence.hash:
        return ""
    return f"recurrence {spec.recurrence.name} is not what the tree has: build it again"


def _run(verdict: Verdict, spec: KernelSpec, path: Path, digest: str) -> None:
    """All forms on the GPU that is here."""
    import torch

    from kvbuffer_codegen.checking import check_kernel
    from kvbuffer_codegen.runtime.errors import KernelError
    from kvbuffer_codegen.runtime.triton_kernels import TritonKernel, available

    if not torch.cuda.is_available() or not available():
        what = "no cuda device here" if available() else "triton is not installed"
        verdict.status, verdict.reason = SKIPPED, what
        return
    errors: list[float] = []
    for form in PORTABLE_FORMS if spec.recurrence else CURSOR_FORMS:
        one = replace(spec, form=form, window=3 if form == "verify" else 0)
        try:
            result = check_kernel(TritonKernel(one, path, digest, "cuda"), one, "cuda")
        except KernelError as error:
            verdict.status, verdict.reason = WRONG, f"{form}: {one_line(error)}"
            return
        errors += result.errors.values()
        if not result.ok:
            verdict.status, verdict.reason = WRONG, f"{form}: {result.reason}"
    verdict.error = max(errors, default=None)


def _missing(folder: Path, listed: set[str]) -> list[Verdict]:
    """What ships must hold every recurrence that ships."""
    from kvbuffer_codegen.ir.portable import source_file, variants
    from kvbuffer_codegen.ir.recurrences import RECURRENCES

    wanted = [source_file(spec) for r in RECURRENCES.values() for spec in variants(r.normal_form).values()]
    wanted.append(source_file(cursor_spec("advance")))
    command = "kvbuffer-codegen build --target triton --out generated"
    return [
        Verdict(Path(file).stem, str(folder / file), WRONG, f"it is not listed: {command}", "triton")
        for file in wanted
        if file not in listed
    ]
