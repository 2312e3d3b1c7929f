"""Portable kernels as files of a folder: written with digests in its index, and held against this tree."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

from kvbuffer_codegen.artifact import ArtifactError, read_file, write_file
from kvbuffer_codegen.index import update_index
from kvbuffer_codegen.ir import portable
from kvbuffer_codegen.ir.forms import KernelSpec, cursor_spec
from kvbuffer_codegen.ir.normal_form import NormalForm
from kvbuffer_codegen.ir.records import RECORDS
from kvbuffer_codegen.runtime.triton_kernels import checked
from kvbuffer_codegen.schedules import triton


def add_portable(nf: NormalForm, out: Path, records: str = "exact") -> list[str]:
    """Write every file of the recurrence's portable kernels with such records into ``out`` and list them; returns them
    relative to it."""
    return _add(list(portable.variants(nf, records).values()), out)


def add_portable_cursors(out: Path) -> list[str]:
    """The same of advance and commit, which serve every recurrence."""
    return _add([cursor_spec("advance")], out)


def _add(specs: list[KernelSpec], out: Path) -> list[str]:
    digests = {}
    for spec in specs:
        file, data = portable.source_file(spec), triton.source(spec).encode()
        (out / file).parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        write_file(out / file, data)
        digests[file] = hashlib.sha256(data).hexdigest()
    update_index(out, portable=digests)
    return sorted(digests)


def read_portable(path: Path, digest: str) -> KernelSpec:
    """The decode kernel of a listed file, at a small size, or its advance kernel. Raises ``ArtifactError`` where the
    file is damaged or is not one that this module writes."""
    data = checked(path, digest)
    last = data.decode(errors="replace").splitlines()[-1] if data else ""
    if last == f"{triton.MADE_OF}null" and path.stem == portable.source_name(cursor_spec("advance")):
        return cursor_spec("advance")
    try:
        nf = NormalForm.from_dict(json.loads(last.removeprefix(triton.MADE_OF)))
    except ValueError as error:
        raise ArtifactError(f"{path}: its last line is no normal form ({error}): build it again") from None
    made = {name: spec for records in RECORDS for name, spec in portable.variants(nf, records).items()}
    if path.stem not in made:
        raise ArtifactError(f"{path} is not a file that this version writes for its recurrence: build it again")
    spec = made[path.stem]
    small = replace(spec, K=16, V=24, ratio=2, buffer=4)
    return small if portable.source_name(small) == path.stem else replace(spec, ratio=2)


def stale(path: Path, spec: KernelSpec) -> str:
    """Why the file is not what this tree writes for ``spec``, or nothing where it is."""
    same = read_file(path) == triton.source(spec).encode()
    return "" if same else "its source is not what the tree emits: build it again"
