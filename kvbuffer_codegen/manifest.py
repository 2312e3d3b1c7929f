"""What a manifest may hold, checked with small functions of the standard library.

`manifest.schema.json` says the same for other tools and docs/artifacts.md in words; tests hold the two against each
other. Beyond the schema, :func:`validate` checks that names agree: launch arguments name arguments, expressions read
known sizes only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kvbuffer_codegen.expressions import ExpressionError, names, parse

SCHEMA = 1
FORMS = ("step", "decode", "flush", "publish", "verify", "advance", "commit", "compact", "commit_path")
DTYPES = ("float32", "bfloat16", "float16", "int8", "float8_e4m3fn", "int32", "index")
BINARY_SUFFIX = {"cuda": ".cubin", "cpu": ".so"}
MAX_ARGUMENTS = 64

Manifest = dict[str, Any]
Check = Callable[[Any, str], None]


class ManifestError(ValueError):
    """A manifest that is not what docs/artifacts.md describes: names the field, what it holds and what is accepted."""

    def __init__(self, where: str, value: object, accepted: str) -> None:
        shown = repr(value)
        super().__init__(
            f"manifest field {where}: {shown[:77] + '...' if len(shown) > 80 else shown}; accepted: {accepted}"
        )


def validate(manifest: Any) -> None:
    """Raises :class:`ManifestError` unless ``manifest`` is a whole and consistent manifest of schema 1."""
    if not isinstance(manifest, dict):
        raise ManifestError("(root)", manifest, "an object")
    if manifest.get("schema") != SCHEMA:
        raise ManifestError("schema", manifest.get("schema"), f"{SCHEMA}; a newer kvbuffer_codegen may read it")
    _MANIFEST(manifest, "")
    _check_names(manifest)


def symbols(arguments: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """The names that launch expressions may use, in a fixed order: sizes, strides ``<name>_s<axis>``,
    ``<name>_words``, scalars."""
    found: dict[str, None] = {}
    for argument in arguments:
        name = argument["name"]
        if "shape" not in argument:
            found[name] = None
            continue
        found.update(dict.fromkeys(n for size in argument["shape"] for n in names(parse(size))))
        found.update(dict.fromkeys(f"{name}_s{axis}" for axis in argument["free_strides"]))
        if argument["role"] == "index":
            found[f"{name}_words"] = None
    return tuple(found)


def _check_names(manifest: Manifest) -> None:
    arguments = manifest["arguments"]
    by_name = {a["name"]: a for a in arguments}
    if len(by_name) != len(arguments):
        raise ManifestError("arguments", [a["name"] for a in arguments], "names that differ")
    for argument in arguments:
        ndim = len(argument.get("shape", ()))
        if any(axis >= ndim for axis in argument.get("free_strides", ())):
            raise ManifestError(
                f"arguments.{argument['name']}.free_strides", argument["free_strides"], f"axes below {ndim}"
            )
        if argument.get("role") == "index" and (ndim > 2 or argument["free_strides"] != list(range(ndim))):
            raise ManifestError(
                f"arguments.{argument['name']}", argument, "an index tensor with one or two axes of free stride"
            )
    known = symbols(arguments)
    for where, expression in _launch_expressions(manifest["launch"]):
        unknown = sorted(set(names(parse(expression))) - set(known))
        if unknown:
            raise ManifestError(where, expression, f"expressions of {', '.join(known)}")
    for i, item in enumerate(manifest["launch"]["arguments"]):
        if "pointer" in item and "shape" not in by_name.get(item["pointer"], {}):
            raise ManifestError(
                f"launch.arguments[{i}]", item, f"tensors: {', '.join(a for a in by_name if 'shape' in by_name[a])}"
            )
    binaries = [name for name in manifest["files"] if name.endswith(BINARY_SUFFIX[manifest["target"]["kind"]])]
    if len(binaries) != 1:
        raise ManifestError("files", sorted(manifest["files"]), f"one {BINARY_SUFFIX[manifest['target']['kind']]} file")


def _launch_expressions(launch: Mapping[str, Any]) -> Iterable[tuple[str, str | int]]:
    for field in ("grid", "block"):
        yield from ((f"launch.{field}[{i}]", e) for i, e in enumerate(launch[field]))
    yield from ((f"launch.arguments[{i}]", a["integer"]) for i, a in enumerate(launch["arguments"]) if "integer" in a)


# --- checks of one value: each raises ManifestError with the path of the field


def _text(pattern: str, accepted: str) -> Check:
    compiled = re.compile(pattern, re.ASCII)

    def check(value: Any, where: str) -> None:
        if not isinstance(value, str) or not compiled.fullmatch(value):
            raise ManifestError(where, value, accepted)

    return check


def _integer(low: int, high: int = 2**63 - 1) -> Check:
    def check(value: Any, where: str) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ManifestError(where, value, f"an integer from {low}" + (f" to {high}" if high < 2**63 - 1 else ""))

    return check


def _one_of(*values: str) -> Check:
    def check(value: Any, where: str) -> None:
        if not isinstance(value, str) or value not in values:
            raise ManifestError(where, value, ", ".join(values))

    return check


def _list(item: Check, low: int = 0, high: int = 10_000) -> Check:
    def check(value: Any, where: str) -> None:
        if not isinstance(value, list) or not low <= len(value) <= high:
            raise ManifestError(
                where, value, f"a list of {low} items" if low == high else f"a list of {low} to {high} items"
            )
        for i, entry in enumerate(value):
            item(entry, f"{where}[{i}]")

    return check


def _object(required: Mapping[str, Check], optional: Mapping[str, Check] | None = None, more: bool = False) -> Check:
    """An object with these fields; others are refused unless ``more``."""
    known = {**required, **(optional or {})}

    def check(value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise ManifestError(where, value, f"an object with {', '.join(known) or 'any fields'}")
        prefix = f"{where}." if where else ""
        for name in required:
            if name not in value:
                raise ManifestError(prefix + name, "missing", "this field is required")
        for name, entry in value.items():
            if name in known:
                known[name](entry, prefix + name)
            elif not more:
                raise ManifestError(prefix + name, entry, f"the fields {', '.join(known)}")

    return check


def _map(key: Check, item: Check, low: int = 0) -> Check:
    def check(value: Any, where: str) -> None:
        if not isinstance(value, dict) or len(value) < low:
            raise ManifestError(where, value, "an object" + (f" with at least {low} field" if low else ""))
        for name, entry in value.items():
            key(name, f"{where} name")
            item(entry, f"{where}.{name}")

    return check


def _either(test: Callable[[Any], bool], yes: Check, no: Check) -> Check:
    return lambda value, where: (yes if test(value) else no)(value, where)


def _expression(value: Any, where: str) -> None:
    try:
        parse(value)
    except ExpressionError as error:
        raise ManifestError(where, value, str(error)) from None


def _power_of_two(value: Any, where: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value not in {1 << i for i in range(13)}:
        raise ManifestError(where, value, "a power of two from 1 to 4096")


def _true(value: Any, where: str) -> None:
    if value is not True:
        raise ManifestError(where, value, "true, or no such field")


def _null(value: Any, where: str) -> None:
    """For ``_either``: the value is None already."""


_IDENTIFIER = _text(r"[A-Za-z_][A-Za-z0-9_]{0,99}", "a name of letters, digits and _")
_FILE = _text(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", "a plain file name")
_SHA256 = _text(r"[0-9a-f]{64}", "a sha256 in 64 lower-case hex digits")
_STRING = _text(r"(?s:.{0,10000})", "a string")
_DATE = _text(r"\d{4}-\d\d-\d\d(T[0-9:.+Z-]+)?", "an ISO date")
_ANYTHING = _object({}, more=True)

_TENSOR = _object(
    {
        "name": _IDENTIFIER,
        "role": _one_of("state", "scale", "record", "cursors", "index", "input", "parameter", "out"),
        "dtype": _one_of(*DTYPES),
        "shape": _list(_expression, 1, 6),
        "free_strides": _list(_integer(0, 5), 0, 6),
        "align": _power_of_two,
        "access": _one_of("read", "write", "readwrite"),
    }
)
_SCALAR = _object({"name": _IDENTIFIER, "dtype": _one_of("int32")})
_POINTER = _object({"pointer": _IDENTIFIER})
_INTEGER = _object({"integer": _expression, "dtype": _one_of("int32", "int64", "float32")})
_TARGET = {
    "name": _IDENTIFIER,
    "kind": _one_of(*BINARY_SUFFIX),
    "arch": _text(r"[A-Za-z0-9_.-]{1,50}", "an architecture"),
}
_CUDA = _object({**_TARGET, "capabilities": _list(_text(r"\d+\.\d", 'as "9.0"'), 1, 50), "min_driver": _integer(0)})
_CPU = _object({**_TARGET, "machine": _text(r"[A-Za-z0-9_]{1,50}", "as x86_64"), "features": _list(_STRING)})

EVIDENCE: Check = _object(
    {
        "kind": _one_of("check", "timing"),
        "binary": _SHA256,
        "device": _STRING,
        "driver": _STRING,
        "date": _DATE,
        "result": _ANYTHING,
    }
)

_MANIFEST = _object(
    {
        "schema": _integer(SCHEMA, SCHEMA),
        "name": _IDENTIFIER,
        "form": _one_of(*FORMS),
        "recurrence": _either(
            lambda value: value is None,
            _null,
            _object({"name": _IDENTIFIER, "hash": _SHA256, "normal_form": _ANYTHING}),
        ),
        "records": _list(
            _object(
                {
                    "name": _IDENTIFIER,
                    "dtype": _one_of("float32", "bfloat16", "io"),
                    "heads": _one_of("key", "value"),
                    "axis": _either(lambda value: value is None, _null, _one_of("K", "V")),
                },
                more=True,
            )
        ),
        "io": _one_of("float32", "bfloat16", "float16"),
        "state": _one_of("float32", "bfloat16", "float16", "int8", "float8_e4m3fn"),
        "records_mode": _one_of("exact", "bf16", "hilo"),
        "layout": _one_of("VK", "KV"),
        "dims": _object({"K": _integer(0), "V": _integer(0)}),
        "ratio": _integer(1),
        "buffer": _integer(0),
        "window": _integer(0),
        "kv_only": _integer(0),
        "target": _either(lambda value: isinstance(value, dict) and value.get("kind") == "cpu", _CPU, _CUDA),
        "arguments": _list(
            _either(lambda value: isinstance(value, dict) and "shape" in value, _TENSOR, _SCALAR), 1, MAX_ARGUMENTS
        ),
        "launch": _object(
            {
                "entry": _IDENTIFIER,
                "grid": _list(_expression, 1, 3),
                "block": _list(_expression, 1, 3),
                "shared": _integer(0, 2**20),
                "arguments": _list(
                    _either(lambda value: isinstance(value, dict) and "pointer" in value, _POINTER, _INTEGER), 0, 256
                ),
            },
            {"overlap": _true},
        ),
        "schedule": _ANYTHING,
        "schedule_space": _STRING,
        "compiler": _map(_STRING, _STRING),
        "resources": _map(_IDENTIFIER, _integer(0)),
        "files": _map(_FILE, _SHA256, 1),
        "evidence": _list(EVIDENCE),
    },
    {"rounding": _one_of("nearest", "stochastic"), "tree": _true},
)
