"""Label and field selectors: parsed once per request, then applied to every object.

The label grammar and its error texts are those of Kubernetes: clients build selectors by program
and people read the errors. A parsed selector is a pure function of an object and never raises,
whatever the object looks like; an empty selector chooses everything. `!=` and `notin` also choose
objects that lack the label.

Values compare as text, as in Kubernetes; `>` and `<` compare labels that are integers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple, NoReturn

from kapilite import names
from kapilite.errors import ApiError
from kapilite.kinds import Kind
from kapilite.problems import Problem, unfit

EVERYWHERE = ("metadata.name", "metadata.namespace")
"""Field labels that every kind supports."""

_OF_BUILTIN = {
    "events": (
        "involvedObject.apiVersion",
        "involvedObject.fieldPath",
        "involvedObject.kind",
        "involvedObject.name",
        "involvedObject.namespace",
        "involvedObject.resourceVersion",
        "involvedObject.uid",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    "namespaces": ("status.phase",),
    "nodes": ("spec.unschedulable",),
    "pods": (
        "spec.hostNetwork",
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.nominatedNodeName",
        "status.phase",
        "status.podIP",
    ),
    "replicasets": ("status.replicas",),
    "resourceslices": ("spec.driver", "spec.nodeName"),
    "secrets": ("type",),
    "services": ("spec.clusterIP", "spec.type"),
}
_PATHS = {"source": ("source", "component")}
"""Labels that are not the path of their field."""
_ABSENT = {"spec.hostNetwork": "false", "spec.unschedulable": "false", "status.replicas": "0"}
"""What a field that is not there reads as, where that is not the empty text."""

_TOKEN = re.compile(r"[ \t\r\n]*(==|!=|[=!(),<>]|[^ \t\r\n=!(),<>]+)")
_SYMBOLS = frozenset({"=", "==", "!=", "!", "(", ")", ",", "<", ">", ""})
_INTEGER = re.compile("[+-]?[0-9]{1,63}", re.ASCII)
_PLAIN = re.compile("[A-Za-z][A-Za-z0-9._/-]*", re.ASCII)
_ESCAPED = re.compile(r"\\(.?)", re.DOTALL)


class _Requirement(NamedTuple):
    key: str
    negated: bool
    values: frozenset[str] | None
    """None asks only whether the label exists."""

    def holds(self, labels: dict[str, Any]) -> bool:
        found = self.key in labels
        if found and self.values is not None:
            value = labels[self.key]
            found = isinstance(value, str) and value in self.values
        return found != self.negated


class _Comparison(NamedTuple):
    key: str
    greater: bool
    bound: int

    def holds(self, labels: dict[str, Any]) -> bool:
        value = _integer(labels.get(self.key))
        return value is not None and (value > self.bound if self.greater else value < self.bound)


class _Term(NamedTuple):
    path: tuple[str, ...]
    negated: bool
    value: str
    absent: str

    def is_certain(self) -> bool:
        """Whether the value itself is in every object that is chosen.

        A number can be written in more than one way, and some characters are escaped.
        """
        return not self.negated and self.value != self.absent and bool(_PLAIN.fullmatch(self.value))

    def holds(self, obj: dict[str, Any]) -> bool:
        return ((_text(obj, self.path) or self.absent) == self.value) != self.negated


def _certain(one: _Requirement | _Comparison) -> bytes:
    """What is in every object with the label; empty where that can be more than one text."""
    if isinstance(one, _Comparison) or one.negated or one.values is None or len(one.values) != 1:
        return b""
    return b'"%s"' % next(iter(one.values)).encode()


class LabelSelector:
    """Chooses objects by their labels."""

    def __init__(self, requirements: tuple[_Requirement | _Comparison, ...]) -> None:
        self._requirements = requirements
        self.texts = tuple(text for one in requirements if (text := _certain(one)))
        """Bytes that every object which is chosen has in it as it is stored."""

    def __call__(self, obj: dict[str, Any]) -> bool:
        if not self._requirements:
            return True
        meta = obj.get("metadata")
        labels = meta.get("labels") if isinstance(meta, dict) else None
        known = labels if isinstance(labels, dict) else {}
        return all(r.holds(known) for r in self._requirements)


class FieldSelector:
    """Chooses objects by the text of some of their fields; an absent field reads as empty."""

    def __init__(self, terms: tuple[_Term, ...]) -> None:
        self._terms = terms
        self.texts = tuple(one.value.encode() for one in terms if one.is_certain())
        """Bytes that every object which is chosen has in it as it is stored."""

    def __call__(self, obj: dict[str, Any]) -> bool:
        return all(term.holds(obj) for term in self._terms)


def supported_fields(kind: Kind) -> tuple[str, ...]:
    """The field labels that `parse_fields` should accept for a kind."""
    known = kind.selectable if kind.custom else _OF_BUILTIN.get(kind.plural, ())
    return EVERYWHERE + known


def parse_labels(text: str) -> LabelSelector:
    """Parse a `labelSelector` parameter."""
    return LabelSelector(tuple(_Parser(text).requirements()))


def parse_fields(
    text: str, supported: tuple[str, ...] = EVERYWHERE, *, plain: bool = False
) -> FieldSelector:
    """Parse a `fieldSelector` parameter, accepting only the given field labels.

    Of a `plain` kind, one of Kubernetes' own without labels of its own, it words the refusal so.
    """
    terms = []
    for part in re.findall(r"(?:\\.|[^,\\]|\\$)+", text, re.DOTALL):  # commas, unless escaped
        match = re.fullmatch(r"(.*?)(==|!=|=)(.*)", part, re.DOTALL)
        if match is None:
            _refuse(f"invalid selector: '{text}'; can't understand '{part}'")
        label, operator, value = match.groups()
        if label not in supported:
            if plain:
                quoted = ", ".join(f'"{name}"' for name in supported)
                _refuse(f'"{label}" is not a known field selector: only {quoted}')
            _refuse(f"field label not supported: {label}")
        path = _PATHS.get(label) or tuple(label.split("."))
        terms.append(_Term(path, operator == "!=", _unescape(value), _ABSENT.get(label, "")))
    return FieldSelector(tuple(terms))


class _Parser:
    """Recursive descent over the tokens; "" is the end of the text."""

    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)
        self._at = 0

    def requirements(self) -> list[_Requirement | _Comparison]:
        found: list[_Requirement | _Comparison] = []
        if not self._peek():
            return found
        while True:
            if self._peek() != "!" and not self._at_word():
                self._unexpected("!, identifier, or 'end of string'")
            found.append(self._requirement())
            separator = self._take()
            if not separator:
                return found
            if separator != ",":
                self._unexpected("',' or 'end of string'", separator)
            if self._peek() != "!" and not self._at_word():
                self._unexpected("identifier after ','")

    def _requirement(self) -> _Requirement | _Comparison:
        if self._peek() == "!":
            self._take()
            return _Requirement(self._key(), negated=True, values=None)
        key = self._key()
        if self._peek() in {"", ","}:
            return _Requirement(key, negated=False, values=None)
        operator = self._take()
        if operator in {"in", "notin"}:
            values = self._set()
        elif operator in {"=", "==", "!=", ">", "<"}:
            values = frozenset({self._exact()})
        else:
            self._unexpected("in, notin, =, ==, !=, gt, lt", operator)
        for value in values:
            _require_valid(unfit(f"values[0][{key}]", value, names.label_value(value)))
        if operator in {">", "<"}:
            (text,) = values
            bound = _integer(text)
            if bound is None:
                _refuse(
                    f'unable to parse requirement: values[0]: Invalid value: "{text}": '
                    "for 'Gt', 'Lt' operators, the value must be an integer"
                )
            return _Comparison(key, operator == ">", bound)
        return _Requirement(key, negated=operator in {"notin", "!="}, values=values)

    def _key(self) -> str:
        if not self._at_word():
            self._unexpected("identifier")
        key = self._take()
        _require_valid(unfit("key", key, names.qualified_name(key)))
        return key

    def _exact(self) -> str:
        if self._peek() in {"", ","}:
            return ""
        if not self._at_word():
            self._unexpected("identifier")
        return self._take()

    def _set(self) -> frozenset[str]:
        if self._peek() != "(":
            self._unexpected("'('")
        self._take()
        values = set()
        while True:
            values.add(self._take() if self._at_word() else "")
            separator = self._take()
            if separator == ")":
                return frozenset(values)
            if separator != ",":
                self._unexpected("',', ')' or identifier", separator)

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        self._at += 1
        return token

    def _at_word(self) -> bool:
        return self._peek() not in _SYMBOLS

    def _unexpected(self, expected: str, found: str | None = None) -> NoReturn:
        found = self._peek() if found is None else found
        _refuse(f"unable to parse requirement: found '{found}', expected: {expected}")


def _integer(text: Any) -> int | None:
    """The number of 64 bits that a text is."""
    if not isinstance(text, str) or not _INTEGER.fullmatch(text):
        return None
    return number if -(2**63) <= (number := int(text)) < 2**63 else None


def _require_valid(problems: Iterable[Problem]) -> None:
    for found in problems:
        _refuse(f"unable to parse requirement: {found.field}: {found.message}")


def _unescape(value: str) -> str:
    """Undo the escapes of backslash, comma and equals sign; a bare equals sign is refused."""
    if "=" in _ESCAPED.sub("", value):
        _refuse(f"invalid field selector: unescaped character in value: {value}")

    def plain(match: re.Match[str]) -> str:
        if match[1] not in {"\\", ",", "="}:
            _refuse(f"invalid field selector: invalid escape sequence: {match[0]}")
        return match[1]

    return _ESCAPED.sub(plain, value)


def _text(obj: Any, path: tuple[str, ...]) -> str:
    for key in path:
        obj = obj.get(key) if isinstance(obj, dict) else None
    if obj is None:
        return ""
    if isinstance(obj, bool):
        return "true" if obj else "false"
    return str(obj)


def _refuse(message: str) -> NoReturn:
    raise ApiError(400, "BadRequest", message)
