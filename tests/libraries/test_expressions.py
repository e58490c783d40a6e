"""Expressions of CEL, read by kapilite and by Kubernetes' libraries: one verdict."""

from __future__ import annotations

import base64
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kapilite.cel.checker import check, checked
from kapilite.cel.costs import estimate
from kapilite.cel.kubernetes import Format
from kapilite.cel.program import Budget, CostExceeded, program
from kapilite.cel.quantities import Quantity
from kapilite.cel.syntax import CelSyntaxError
from kapilite.cel.types import BOOL, DOUBLE, DYN, INT, STRING, kind_of
from kapilite.cel.values import CelError, Optional, TypeValue
from kapilite.gotext.numbers import number_text
from kapilite.gotext.urls import Url
from kubebasics import quantity
from support.expressions import expressions

MANY = settings(max_examples=2000, print_blob=True)

TYPES = {"n": INT, "s": STRING, "b": BOOL, "d": DOUBLE, "o": DYN, "l": DYN}
VARIABLES: dict[str, Any] = {
    "n": 7,
    "s": "a-b.c/d",
    "b": True,
    "d": 1.5,
    "o": {"a": 1},
    "l": [1, 2.5, "x", None, [2]],
}
SCOPE = {"n": "int", "s": "string", "b": "bool", "d": "double", "o": "dyn", "l": "dyn"}


_LARGEST = quantity.LARGEST * quantity.NANO


def ours(text: str, variables: dict[str, Any] = VARIABLES) -> Any:
    """Type, kind and value; "refused" before it is evaluated, "error" while it is."""
    try:
        kind = check(text, program(text).tree, TYPES)
    except CelSyntaxError:
        return "refused"
    try:
        value = program(text).evaluate(variables, Budget(1_000_000))
    except (CelError, CostExceeded):
        return "error"
    return str(kind), kind_of(value), value


def is_same(found: Any, answer: dict[str, Any]) -> bool:
    for verdict in ("refused", "error"):
        if verdict in answer:
            return bool(found == verdict)
    if not isinstance(found, tuple):
        return False
    kind, kind_of_value, value = found
    return (kind, kind_of_value) == (answer["type"], answer["kind"]) and _is_written(
        value, answer["value"]
    )


def _is_written(value: Any, text: Any) -> bool:
    """Whether the checker writes a value so."""
    match value:
        case Optional():
            return _is_written(value.value, text) if value.present else text == "optional.none()"
        case dict():
            written = {_key(key): item for key, item in value.items()}
            return written.keys() == text.keys() and all(
                _is_written(item, text[key]) for key, item in written.items()
            )
        case list():
            return len(value) == len(text) and all(map(_is_written, value, text))
        case Quantity():
            return bool(quantity.value(text) == max(-_LARGEST, min(value.nanos, _LARGEST)))
        case Format() | Url():
            return isinstance(text, str)
        case float():
            return bool(
                float(text) == value if math.isfinite(value) else text == number_text(value)
            )
        case bytes():
            return bool(text == base64.b64encode(value).decode())
        case TypeValue():
            return bool(text == value.name)
        case None | bool() | int():
            return bool(text == value)
    return bool(text == str(value))


def _key(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


@MANY
@given(text=expressions(SCOPE))
def test_expressions(checker: Any, text: str) -> None:
    types = {name: str(kind) for name, kind in TYPES.items()}
    answer = checker.ask("cel", expression=text, variables=VARIABLES, types=types)
    found = ours(text)
    assert is_same(found, answer), (text, found, answer)
    if found != "refused":
        tree = program(text).tree
        cost = estimate(tree, checked(text, tree, TYPES), None)
        # Of large costs, which come from what has no limit, Go loses the last digits.
        assert cost == pytest.approx(answer["estimate"][1], rel=1e-9), (text, cost, answer)


FORMATS = (
    *("dns1123Label", "dns1123LabelPrefix", "dns1123Subdomain", "dns1123SubdomainPrefix"),
    *("dns1035Label", "dns1035LabelPrefix", "qualifiedName", "labelValue", "uri", "uuid", "byte"),
    *("date", "datetime"),
)
READERS = (
    "[isIP(s), isCIDR(s), isURL(s), isQuantity(s), isSemver(s), isSemver(s, true)]",
    f"[{', '.join(f'format.{name}().validate(s).hasValue()' for name in FORMATS)}]",
    *("ip(s)", "cidr(s)", "cidr(s).masked()", "cidr(s).ip()", "ip.isCanonical(s)"),
    "[ip(s).isLoopback(), ip(s).isLinkLocalUnicast(), ip(s).isLinkLocalMulticast()]",
    "[ip(s).isGlobalUnicast(), ip(s).isUnspecified()]",
    "[url(s).getHost(), url(s).getHostname(), url(s).getPort(), url(s).getEscapedPath()]",
    *("url(s).getQuery()", "url(s).getScheme()", "quantity(s)", "quantity(s).isInteger()"),
    *("semver(s)", "semver(s, true)", "int(s)", "uint(s)", "double(s)", "bool(s)", "timestamp(s)"),
    *("string(duration(s))", "strings.quote(s)", "'%s|%x'.format([[s], s])", "s.trim()"),
)
_PATTERNS = (
    r"[0-9a-f:]{0,12}(:[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3})?(/[0-9]{1,3})?",
    r"([0-9]{1,3}\.){2,4}[0-9]{1,3}(/-?[0-9]{1,3})?",
    r"([a-z+]{0,4}:)?(//)?([a-z:]*@)?[a-z0-9.\[\]:%-]{0,8}(/[a-z%0-9 {}]*)?(\?[a-z=&;%+]*)?(#%?)?",
    r"v?[0-9]{0,3}(\.[0-9]{0,3}){0,3}(-[a-zA-Z0-9.-]{0,5})?(\+[a-z0-9.-]{0,4})?",
    r"[+-]?[0-9]{0,4}(\.[0-9]{0,12})?(n|m|k|Ki|E|e[+-]?[0-9]{1,2}|h|s|ms|\u00b5s)?([0-9]{1,2}[hms])?",
    r"[0-9]{4}-[01][0-9]-[0-3][0-9]([Tt][0-2][0-9]:[0-5][0-9]:[0-6][0-9](\.[0-9]{0,10})?[Zz]?)?",
    r"2020-02-28T01:02:03([+-][0-2][0-9]:[0-9]{2})?",
)
_SPECIAL = (
    *("inf", "-Infinity", "+nan", "0x1p4", "1_0", "1e400", "true", "T", "yes", "::ffff:1.2.3.4"),
    *(
        "1::%eth0",
        "2001:DB8::1",
        "224.0.0.1",
        "255.255.255.255",
        "ff02::1",
        "fe80::1",
        "169.254.1.1",
    ),
    *("127.1.2.3", "0.0.0.0", "::", "ff01::1", "fc00::1", "*", "http://[::1%25x]:8/"),
)
_texts = st.one_of(
    *(st.from_regex(pattern, fullmatch=True) for pattern in _PATTERNS),
    st.sampled_from(_SPECIAL),
    st.text('a-A._/ =+1\u00e9\n\x00\t\u2028\U0001f600\u200b"\\', max_size=6),
)


@settings(max_examples=500, print_blob=True)
@given(text=_texts)
def test_texts_that_functions_read(checker: Any, text: str) -> None:
    for reader in READERS:
        answer = checker.ask("cel", expression=reader, variables={"s": text}, types={"s": "string"})
        found = ours(reader, {"s": text})
        assert is_same(found, answer), (reader, text, found, answer)
