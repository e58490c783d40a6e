"""YAML as Kubernetes reads it, and written so that Kubernetes reads the same.

The resolution of plain scalars is that of `sigs.k8s.io/yaml`, whose fork of go-yaml 2
(`goyaml.v2/resolve.go`) decides for the API server and for kubectl: YAML 1.1's booleans (`y`,
`on`), Go's integers (`0x1f`, `0o14`, `014`, `0b1`, `1_000`), no numbers to base 60; a number that
fits into no 64 bits, or has no fraction, is what its way through JSON makes of it. What looks like
a date is text.

Reading takes linear time and goes down no tree: events are looked at one by one, and too many or
too deep ones end it. Refused, though Kubernetes reads them, are aliases and merge keys, of which a
few lines can fill the memory; tags other than those of plain values; keys with a fraction, which it
rounds; and, where one document is expected, a second one, which it leaves out without a word.
"""

from __future__ import annotations

import math
import re
from typing import Any

import yaml

DEPTH_LIMIT = 200
VALUES_LIMIT = 500_000

# Written in C where PyYAML was built with libyaml, which it is in its wheels.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

_WORDS: dict[str, Any] = {
    form: value
    for words, value in (
        (("y", "yes", "true", "on"), True),
        (("n", "no", "false", "off"), False),
        (("", "~", "null"), None),
    )
    for word in words
    for form in (word, word.capitalize(), word.upper())
}
_NO_NUMBER = frozenset(
    f"{sign}.{form}" for sign in ("", "+", "-") for form in ("inf", "Inf", "INF")
) | {".nan", ".NaN", ".NAN"}
_INTEGER = re.compile(
    r"(?P<sign>[-+]?)(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[oO]?(?P<octal>[0-7]+)|0[bB](?P<binary>[01]+)"
    r"|(?P<decimal>0|[1-9][0-9]*))"
)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_BASES = {"hex": 16, "octal": 8, "binary": 2}
_DIGITS = 310
"""A decimal number of more digits is larger than any number in JSON that Kubernetes reads."""
_STARTS = frozenset("+-.0123456789")
_TAG = "tag:yaml.org,2002:"
_TYPES: dict[str, tuple[type, ...]] = {
    f"{_TAG}null": (type(None),),
    f"{_TAG}bool": (bool,),
    f"{_TAG}int": (int,),
    f"{_TAG}float": (int, float),
}


_STRANGE = "tags other than those of plain values are not accepted"


class YamlError(ValueError):
    """A text that cannot be read. The words say why and quote nothing of it."""

    def __init__(self, why: str, line: int = 0) -> None:
        super().__init__(f"line {line}: {why}" if line else why)
        self.why = why
        self.line = line
        """From 1 on; 0 where it is not known."""


def read(text: bytes | str, *, values: int = VALUES_LIMIT, depth: int = DEPTH_LIMIT) -> Any:
    """The value of the only document, as JSON has values; None where there is none.

    `values` is how many members of maps and lists it may have, `depth` how deep they may be
    nested. Raises YamlError.
    """
    documents = _documents(text, _Reader(values, depth, one=True))
    return documents[0] if documents else None


def read_all(
    text: bytes | str, *, values: int = VALUES_LIMIT, depth: int = DEPTH_LIMIT
) -> list[Any]:
    """The values of all documents. The limits are for all of them together. Raises YamlError."""
    return _documents(text, _Reader(values, depth, one=False))


def _documents(text: bytes | str, reader: _Reader) -> list[Any]:
    try:
        for event in yaml.parse(text, Loader=_Loader):
            reader.take(event)
    except yaml.MarkedYAMLError as error:
        # libyaml counts the end of the text as a line.
        last = len(text.splitlines())
        line = min(error.problem_mark.line + 1, last) if error.problem_mark else 0
        raise YamlError("not valid YAML", line) from None
    except (yaml.YAMLError, UnicodeError):
        raise YamlError("not a YAML text file") from None
    return reader.documents


def write(value: Any) -> str:
    """One document that reads as the same value."""
    text: str = yaml.dump(value, Dumper=_Writer, sort_keys=False)
    return text


class _Reader:
    """Builds values from events."""

    def __init__(self, values: int, depth: int, *, one: bool) -> None:
        """`one`: a second document is refused."""
        self.documents: list[Any] = []
        self._values = values
        self._depth = depth
        self._one = one
        self._open: list[Any] = []
        self._keys: list[str | None] = []
        """Of each open map the key whose value comes next."""

    def take(self, event: yaml.Event) -> None:
        line = event.start_mark.line + 1 if event.start_mark else 0
        match event:
            case yaml.ScalarEvent():
                value = _scalar(event, line)
                if self._expects_key:
                    self._keys[-1] = _key(event, value, line)
                else:
                    self._put(_whole(value) if isinstance(value, float) else value, line)
            case yaml.CollectionStartEvent():
                if event.tag not in (None, "!", f"{_TAG}map", f"{_TAG}seq"):
                    raise YamlError(_STRANGE, line)
                self._begin({} if isinstance(event, yaml.MappingStartEvent) else [], line)
            case yaml.CollectionEndEvent():
                self._open.pop()
                self._keys.pop()
            case yaml.AliasEvent():
                raise YamlError("aliases are not accepted; write out what they stand for", line)
            case yaml.DocumentStartEvent():
                if self._one and self.documents:
                    raise YamlError("a second document begins here; one is expected", line)
                self.documents.append(None)
                if not self._one:
                    self._count(line)

    @property
    def _expects_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1], dict) and self._keys[-1] is None

    def _begin(self, collection: dict[str, Any] | list[Any], line: int) -> None:
        if self._expects_key:
            raise YamlError("a key is a map or a list", line)
        self._put(collection, line)
        self._open.append(collection)
        self._keys.append(None)
        if len(self._open) > self._depth:
            raise YamlError(f"nested more than {self._depth} levels deep", line)

    def _put(self, value: Any, line: int) -> None:
        if not self._open:
            self.documents[-1] = value
            return
        into = self._open[-1]
        if isinstance(into, list):
            into.append(value)
        else:
            into[self._keys[-1]] = value
            self._keys[-1] = None
        self._count(line)

    def _count(self, line: int) -> None:
        self._values -= 1
        if self._values < 0:
            raise YamlError("more values than are accepted", line)


def _scalar(event: yaml.ScalarEvent, line: int) -> Any:
    text: str = event.value
    if event.tag is None and not event.implicit[0]:
        return text  # quoted
    if event.tag in (None, *_TYPES):
        value = _plain(text, line)
        if event.tag is None:
            return value
        if not isinstance(value, _TYPES[event.tag]) or (
            isinstance(value, bool) and event.tag != f"{_TAG}bool"
        ):
            raise YamlError(f"this is no {event.tag.removeprefix(_TAG)}", line)
        return value
    if event.tag in ("!", f"{_TAG}str"):
        return text
    raise YamlError(_STRANGE, line)


def _plain(text: str, line: int) -> Any:
    """What a scalar is that is not quoted."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _STARTS:
        return text
    if text in _NO_NUMBER:
        raise YamlError("JSON has no number that is infinite, or none", line)
    plain = text if text[0] == "." else text.replace("_", "")
    if found := _INTEGER.fullmatch(plain):
        return _integer(found, line)
    if _FLOAT.fullmatch(plain):
        number = float(plain)
        return number if math.isfinite(number) else text
    return text


def _integer(found: re.Match[str], line: int) -> int | float:
    """Within 64 bits with a sign an integer, as Kubernetes has them, and beyond a float."""
    kind = found.lastgroup or "decimal"
    digits = found[kind]
    if kind == "decimal" and len(digits) > _DIGITS:
        raise YamlError("a number is too large", line)
    number = int(digits, _BASES.get(kind, 10))
    if found["sign"] == "-":
        number = -number
    if -(1 << 63) <= number < 1 << 63:
        return number
    try:
        return float(number)
    except OverflowError:
        raise YamlError("a number is too large", line) from None


def _whole(number: float) -> int | float:
    """Go writes a float without a fraction as an integer, unless it is a very large one."""
    return int(number) if number.is_integer() and abs(number) < 1 << 63 else number


def _key(event: yaml.ScalarEvent, value: Any, line: int) -> str:
    match value:
        case str():
            if value == "<<" and event.implicit[0]:
                raise YamlError("merge keys (<<) are not accepted; write out what they add", line)
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            raise YamlError("a key is a number with a fraction or an exponent; quote it", line)
        case _:
            raise YamlError("a key is null", line)


class _Writer(_Dumper):  # type: ignore[misc]  # the base is chosen at run time
    """Quotes also what only Kubernetes reads as something else than text."""


def _quoted(writer: Any, text: str) -> yaml.Node:
    try:
        style = None if _plain(text, 0) == text else "'"
    except YamlError:
        style = "'"
    found: yaml.Node = writer.represent_scalar(f"{_TAG}str", text, style=style)
    return found


_Writer.add_representer(str, _quoted)
