"""Expressions: what they give, what is refused before they run, and that they always end."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapilite.cel.checker import check
from kapilite.cel.program import Budget, CostExceeded, program
from kapilite.cel.syntax import CelSyntaxError
from kapilite.cel.typed import type_of, value_of
from kapilite.cel.types import DYN
from kapilite.cel.values import CelError

SELF = {"a": 1, "s": "héllo", "l": [3, 1, 2], "m": {"k": "v"}, "n": None, "o": [{"n": "x"}, {}]}


def run(text: str, budget: int = 1_000_000) -> Any:
    check(text, program(text).tree, {"self": DYN})
    return program(text).evaluate({"self": SELF}, Budget(budget))


@pytest.mark.parametrize(
    "text",
    [
        "1 + 2 * 3 - 4 / 2 == 5 && 7 % 4 == 3 && -7 / 2 == -3 && -7 % 2 == -1",
        "1 < 2.5 && 2u > 1 && 1 == self.a && dyn(1) == 1.0",
        "true ? !false : 1 / 0 == 1",
        "(1 / 0 == 1 || true) && !(false && 1 / 0 == 1)",
        "self.l.all(x, x > 0) && self.l.exists(x, x == 2) && self.l.exists_one(x, x > 2)",
        "self.l.map(x, x > 1, x * 2) == [6, 4] && self.l.filter(x, x < 3) == [1, 2]",
        "self.m.all(k, self.m[k] == 'v') && 'k' in self.m && 2 in self.l",
        "self.l.all(i, x, i < 3 && x > 0) && self.l.transformList(i, x, i + x) == [3, 2, 4]",
        "has(self.a) && !has(self.zzz) && has(self.o[0].n) && !has(self.o[1].n)",
        "self.?zzz.orValue(7) == 7 && self.?m.?k.orValue('') == 'v' && !self[?'q'].hasValue()",
        "self.?a.optMap(x, x + 1).value() == 2 && [?optional.none(), 1] == [1]",
        "{?'x': optional.none()} == {}",
        "type(self.a) == int && type(self.s) == string && type(self.n) == null_type",
        "size(self.s) == 5 && self.s.size() == 5 && size(b'abc') == 3",
        "self.s.upperAscii() == 'HéLLO' && 'aXb'.lowerAscii() == 'axb' && ' a '.trim() == 'a'",
        "'abc'.charAt(1) == 'b' && 'abcb'.indexOf('b') == 1 && 'abcb'.lastIndexOf('b') == 3",
        "'a,b'.split(',').join('-') == 'a-b' && 'abc'.substring(1, 2) == 'b'",
        "'aaa'.replace('a', 'b', 2) == 'bba' && strings.quote('a\"b') == '\"a\\\\\"b\"'",
        (
            "'%s is %d, %.2f, %x'.format(['a', 'b'].map(x, dyn(x)).filter(x, x == 'a') "
            "+ [dyn(5), dyn(1.5), dyn(255)]) == 'a is 5, 1.50, ff'"
        ),
        "'a1b22'.find('[0-9]+') == '1' && 'a1b22'.findAll('[0-9]+') == ['1', '22']",
        "'abc'.matches('^a.c$') && matches('abc', 'b')",
        "[1, 2, 2].isSorted() && [1, 2].sum() == 3 && [2, 1].min() == 1 && ['a'].max() == 'a'",
        "[1, 2, 1].indexOf(1) == 0 && [1, 2, 1].lastIndexOf(1) == 2 && [].isSorted()",
        (
            "sets.contains([1, 2], [1]) && sets.equivalent([1, 2], [2, 1]) && "
            "!sets.intersects([1], [2])"
        ),
        (
            "url('https://u@h.example:80/p?q=1').getHostname() == 'h.example' && isURL('/x') && "
            "url('https://h/p?q=1&q=2').getQuery()['q'] == ['1', '2'] && !isURL('a b')"
        ),
        "ip('10.0.0.1').family() == 4 && isIP('::1') && ip('::1').isLoopback() && !isIP('1')",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && cidr('10.0.0.0/8').prefixLength() == 8",
        "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && !isCIDR('10.0.0.0')",
        (
            "quantity('1Gi').isGreaterThan(quantity('1G')) && sign(quantity('1500m')) == 1 && "
            "quantity('1k') == quantity('1000') && quantity('2').add(1).asInteger() == 3"
        ),
        "!isQuantity('\u0663') && quantity('0.1n') == quantity('1n') && isQuantity('1e100')",
        "!quantity('99999999999999999999G').isInteger() && !quantity('1m').isInteger()",
        (
            "!format.dns1123Label().validate('a-b').hasValue() && "
            "format.named('uuid').value().validate('x').hasValue()"
        ),
        "duration('1h30m').getMinutes() == 90 && duration('90s') > duration('1m')",
        "timestamp('2020-02-29T00:00:00Z') + duration('24h') == timestamp('2020-03-01T00:00:00Z')",
        "timestamp('2020-02-29T01:02:03Z').getHours('+02:00') == 3",
        "string(1e6) == '1e+06' && string(1.5) == '1.5' && int('12') == 12 && double('1.5') == 1.5",
        "'\\u00e9' == 'é' && r'\\n' == '\\\\n' && b'\\xff' != b'\\xfe' && '''a\nb''' == 'a\\nb'",
        "{'a': 1}.a == 1 && [1, 2] + [3] == [1, 2, 3] && [[1], [2]][1][0] == 2",
    ],
)
def test_these_hold(text: str) -> None:
    assert run(text) is True


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("self.zzz", "no such key: zzz"),
        ("self.l[9]", "index out of bounds: 9"),
        ("1 / 0", "division by zero"),
        ("9223372036854775807 + 1", "integer overflow"),
        ("self.a > 'x'", "no such overload"),
        ("self.l.all(x, x.y)", "no such key: y"),
        ("int(self.s)", "type conversion error"),
        ("timestamp(self.s)", "as a timestamp"),
        ("self.?zzz.value()", "dereference"),
        ("self.s.matches('(' + '')", "error parsing regexp"),
        ("('%.\u00b2f' + '').format([1.0])", "error while parsing precision"),
    ],
)
def test_errors_are_those_of_kubernetes(text: str, why: str) -> None:
    with pytest.raises(CelError, match=why):
        run(text)


TYPED = {
    "type": "object",
    "properties": {
        "n": {"type": "integer"},
        "name": {"type": "string"},
        "port": {"x-kubernetes-int-or-string": True},
        "a-b": {"type": "boolean"},
        "if": {"type": "string"},
        "open": {"x-kubernetes-preserve-unknown-fields": True},
        "when": {"type": "string", "format": "date-time"},
        "ratio": {"type": "number"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "self.none == 1",
            "ERROR: <input>:1:5: undefined field 'none'\n | self.none == 1\n | ....^",
        ),
        ("self.n == 'a'", "found no matching overload for '_==_' applied to '(int, string)'"),
        ("self.n + 1.5 > 0.0", "found no matching overload for '_+_' applied to '(int, double)'"),
        ("frob(self.n)", "undeclared reference to 'frob'"),
        ("self.name.frob()", "undeclared reference to 'frob'"),
        ("other == 1", "undeclared reference to 'other'"),
        ("self.open.x == 1", "undefined field 'open'"),
        ("self.tags.all(t, t > 1)", "no matching overload"),
        ("self.n.all(x, true)", "cannot be range of a comprehension"),
        ("self.n == null", "no matching overload"),
        ("'a' in self", "no matching overload"),
        ("[1, 'a'] == []", "expected type 'int' but found 'string'"),
        ("duration('1 day') == null", "invalid duration argument"),
        ("timestamp('soon') == null", "invalid timestamp argument"),
        ("self.name.matches('(')", "invalid matches argument"),
        ("int('x') == 1", "type conversion error"),
        ("'%d'.format(['x']) == ''", "decimal clause can only be used on integers"),
        ("'%s'.format([1, 2]) == ''", "too many arguments supplied to string.format"),
        ("{1.5: 1} == {}", "unsupported key type 'double'"),
        ("self.n ==", "Syntax error: mismatched input '<EOF>'"),
        ("self.n = 1", "Syntax error"),
        ("'open", "token recognition error"),
        ("has(self)", "invalid argument to has() macro"),
        ("(" * 100 + "1" + ")" * 100, "nested too deeply"),
        ("self.tags" + ".map(x, x)" * 100 + " == []", "nested too deeply"),
    ],
)
def test_what_cannot_work_is_refused_before_it_runs(text: str, why: str) -> None:
    with pytest.raises(CelSyntaxError) as refused:
        check(text, program(text).tree, {"self": type_of(TYPED) or DYN})
    assert why in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "self.a__dash__b && self.__if__ == 'x'",
        "type(self.port) == int ? self.port < 70000 : self.port == 'http'",
        "self.when < timestamp('2030-01-01T00:00:00Z')",
        "self.ratio == 2.0 && self.n == 3",
        "self.labels['a/b'] == 'c' && self.tags[0].startsWith('t')",
        "self.metadata.name == 'me' && self.apiVersion == 'v1'",
        "self == self",
    ],
)
def test_values_have_the_types_of_their_schema(text: str) -> None:
    value = {
        "apiVersion": "v1",
        "metadata": {"name": "me"},
        "n": 3.0,
        "ratio": 2,
        "port": 80,
        "a-b": True,
        "if": "x",
        "open": {"x": 1},
        "when": "2026-01-01T00:00:00Z",
        "labels": {"a/b": "c"},
        "tags": ["t"],
    }
    check(text, program(text).tree, {"self": type_of(TYPED, is_root=True) or DYN})
    variables = {"self": value_of(TYPED, value, is_root=True)}
    assert program(text).evaluate(variables, Budget(1000)) is True


def test_sets_and_map_lists_compare_without_regard_to_order() -> None:
    keyed: dict[str, Any] = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
        "items": {"type": "object", "properties": {"k": {"type": "string"}}},
    }
    unique = {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}
    ordered = {"type": "array", "items": {"type": "string"}}
    for schema, one, two, same in (
        (keyed, [{"k": "a"}, {"k": "b"}], [{"k": "b"}, {"k": "a"}], True),
        (unique, ["a", "b"], ["b", "a"], True),
        (ordered, ["a", "b"], ["b", "a"], False),
    ):
        variables = {"self": value_of(schema, one), "oldSelf": value_of(schema, two)}
        assert program("self == oldSelf").evaluate(variables, Budget(100)) is same


@pytest.mark.parametrize(
    "text",
    [
        "self.l.all(a, self.l.all(b, self.l.all(c, self.l.all(d, true))))",
        "self.s.replace('', self.s).replace('', self.s).replace('', self.s).size() > 0",
        "self.l.map(a, self.s + self.s).join().size() > 0",
    ],
)
def test_every_evaluation_ends_within_its_budget(text: str) -> None:
    variables = {"self": {"l": list(range(1000)), "s": "x" * 20_000}}
    with pytest.raises((CostExceeded, CelError)):
        program(text).evaluate(variables, Budget(1_000_000))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)
SYMBOLS = [*".?:[](){},+-*/%<>!", "==", "!=", "&&", "||", "in", "has(", ".all(x,", ".map(x,"]
VALUES = ["self", "oldSelf", "x", "1", "2.5", "3u", "'a'", "b'b'", "null", "true", "'a'.matches("]
CALLS = [".size()", "int(", "string(", "duration(", ".orValue(", ".?a"]
words = st.sampled_from(SYMBOLS + VALUES + CALLS)


@given(st.lists(words, max_size=14).map(" ".join), json_values)
def test_any_text_is_refused_or_evaluated(text: str, value: Any) -> None:
    with contextlib.suppress(CelSyntaxError, CelError, CostExceeded):
        check(text, program(text).tree, {"self": DYN})
        program(text).evaluate({"self": value}, Budget(10_000))
