"""Launch expressions: against Python's own arithmetic, and against hostile text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvbuffer_codegen.expressions import (
    MAX_DEPTH,
    MAX_INTEGER,
    OPERATIONS,
    ExpressionError,
    evaluate,
    names,
    parse,
)

SIZES = {"B": 7, "HV": 32, "state_s0": 524288}

expressions = st.recursive(
    st.integers(0, 50).map(str) | st.sampled_from(sorted(SIZES)),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "//"]), inner).map(" ".join),
        st.tuples(st.sampled_from(["max", "min"]), inner, inner).map(lambda t: f"{t[0]}({t[1]}, {t[2]})"),
        inner.map("({})".format),
        inner.map("-{}".format),
    ),
    max_leaves=12,
)


@given(expressions)
def test_same_value_as_python(text: str) -> None:
    try:
        expected = eval(text, {"max": max, "min": min}, SIZES)
    except ZeroDivisionError:
        expected = None
    try:
        value = evaluate(parse(text), SIZES)
    except ExpressionError as error:
        value = None
        expected = None if "64-bit" in str(error) or "levels" in str(error) else expected
    assert value == expected


@given(st.text(alphabet="0123456789BHV_+-*/(), maxin.%\x00", max_size=40))
def test_any_text_parses_or_is_refused(text: str) -> None:
    try:
        program = parse(text)
    except ExpressionError:
        return
    depth = 0
    for step in program:
        depth += -1 if step.op in OPERATIONS else 1
        assert depth >= 1
    assert depth == 1


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "B +", "+ B", "B HV", "B / 2", "B % 2", "B ** 2", "max(B)", "max(B, 1, 2)", "max", "(B", "B)", "1.5",
        "B.real", "__import__('os')", "min(, 1)", "B if 1 else 2", "١", "９", "lambda: 0", "B[0]", "1_000", "0x10",
        "B\n;B", "B,",
    ],
)  # fmt: skip
def test_refused(text: str) -> None:
    with pytest.raises(ExpressionError, match="accepted are"):
        parse(text)


@pytest.mark.parametrize("text", [None, 1.5, True, b"B", ["B"]])
def test_refused_types(text: object) -> None:
    with pytest.raises(ExpressionError, match="a string or an integer"):
        parse(text)  # type: ignore[arg-type]


def test_hostile_sizes() -> None:
    for text in ("(" * 500, "-" * 500 + "1", "max(" * 200 + "1", "(" * (MAX_DEPTH + 1) + "1" + ")" * (MAX_DEPTH + 1)):
        with pytest.raises(ExpressionError, match="levels"):
            parse(text)
    with pytest.raises(ExpressionError, match="characters"):
        parse("1+" * 1000 + "1")
    for huge in ("9" * 900, str(MAX_INTEGER + 1), 10**4000):
        with pytest.raises(ExpressionError, match="beyond 64 bits"):
            parse(huge)
    assert evaluate(parse(str(MAX_INTEGER)), {}) == MAX_INTEGER
    for overflow in (f"{MAX_INTEGER} + 1", f"-{MAX_INTEGER} - 2", "*".join(["9999999"] * 20)):
        with pytest.raises(ExpressionError, match="64-bit"):
            evaluate(parse(overflow), {})


def test_unknown_name_and_division_by_zero() -> None:
    with pytest.raises(ExpressionError, match="unknown name 'X'; known are B, HV, state_s0"):
        evaluate(parse("B + X"), SIZES)
    with pytest.raises(ExpressionError, match="division by zero"):
        evaluate(parse("B // (HV - 32)"), SIZES)


def test_names_and_integers() -> None:
    assert names(parse("max(HV, B) * HV + 3")) == ("HV", "B")
    assert evaluate(parse(12), {}) == 12
    assert evaluate(parse("-7 // 2"), {}) == -4
    assert evaluate(parse("2 - 3 - 4 * -2"), {}) == 7
