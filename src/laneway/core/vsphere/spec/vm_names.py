"""The name of the VM of a machine, by the template in its spec (`naming.template`).

Such a template is one of Go's, of which CAPV documents `.machine.name`, `trimSuffix` and `trunc`:
those are understood here, with pipes, parentheses and trimmed spaces. What else Go's templates can
do is known by name, so that it is not taken for a mistake.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from laneway.core.phrases import quoted

LIMIT = 63
"""Characters; what is longer is cut."""

_ACTION = re.compile(r"\{\{(- )?(.*?)( -)?\}\}", re.DOTALL)
_TOKEN = re.compile(
    r"""\s*(?:(?P<field>\.[\w.]*)|(?P<text>"(?:[^"\\\n]|\\.)*"|`[^`]*`)|(?P<number>[-+]?\d+)"""
    r"""|(?P<name>\w+)|(?P<mark>[|()]))""",
    re.ASCII,
)
_SUBDOMAIN = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII
)
_OTHERS = re.compile(
    "and|block|break|call|continue|define|else|end|eq|ge|gt|html|if|index|js|le|len|lt|ne|not|or|"
    "print|printf|println|range|slice|template|urlquery|with"
)
"""What else Go's templates have."""

Token = tuple[str, str]


class NamingError(ValueError):
    """A template that gives no name; the text says why."""


class BeyondError(NamingError):
    """A template that Go understands, and Laneway does not."""


def vm_name(template: str, machine: str) -> str:
    """The name for a machine. Raises NamingError."""
    parts: list[str] = []
    end = 0
    trim = False
    for action in _ACTION.finditer(template):
        text = template[end : action.start()]
        parts.append(_between(text, start=trim, end=bool(action[1])))
        if not action[2].strip().startswith("/*"):
            parts.append(_value(action[2], machine))
        end, trim = action.end(), bool(action[3])
    parts.append(_between(template[end:], start=trim, end=False))
    return "".join(parts)[:LIMIT]


def is_object_name(name: str) -> bool:
    """Whether an object of Kubernetes can be called that."""
    return len(name) <= 253 and _SUBDOMAIN.fullmatch(name) is not None


def _between(text: str, *, start: bool, end: bool) -> str:
    if "{{" in text:
        raise NamingError("{{ without }}")
    text = text.lstrip() if start else text
    return text.rstrip() if end else text


def _value(action: str, machine: str) -> str:
    if "$" in action:
        raise BeyondError("variables are not supported")
    tokens = list(_tokens(action))
    if others := [text for kind, text in tokens if kind == "name" and _OTHERS.fullmatch(text)]:
        raise BeyondError(f"{others[0]} is not supported; trimSuffix and trunc are")
    if not tokens:
        raise NamingError("nothing between {{ and }}")
    value, rest = _pipeline(tokens, machine, depth=0)
    if rest:
        raise NamingError(f"unexpected {quoted(rest[0][1])}")
    return str(value)


def _tokens(text: str) -> Iterator[Token]:
    at = 0
    while text[at:].strip():
        found = _TOKEN.match(text, at)
        if found is None:
            raise NamingError(f"unexpected {quoted(text[at:].strip())}")
        kind = found.lastgroup or ""
        yield kind, found[kind]
        at = found.end()


Value = str | int


def _pipeline(tokens: list[Token], machine: str, depth: int) -> tuple[Value, list[Token]]:
    """The value of commands that hand on to each other, and the tokens behind them."""
    if depth > 16:
        raise NamingError("too many parentheses")
    value, rest = _command(tokens, machine, depth, ())
    while rest and rest[0] == ("mark", "|"):
        value, rest = _command(rest[1:], machine, depth, (value,))
    return value, rest


def _command(
    tokens: list[Token], machine: str, depth: int, handed: tuple[Value, ...]
) -> tuple[Value, list[Token]]:
    name = tokens[0][1] if tokens and tokens[0][0] == "name" else ""
    rest = tokens[1:] if name else tokens
    values: list[Value] = []
    while rest and rest[0] not in (("mark", "|"), ("mark", ")")):
        value, rest = _operand(rest, machine, depth)
        values.append(value)
    values += handed
    if name:
        return _call(name, values), rest
    if len(values) != 1:
        raise NamingError("a value is missing" if not values else "one value is expected")
    return values[0], rest


def _operand(tokens: list[Token], machine: str, depth: int) -> tuple[Value, list[Token]]:
    (kind, text), rest = tokens[0], tokens[1:]
    match kind:
        case "field" if text == ".machine.name":
            return machine, rest
        case "field":
            raise NamingError(f"there is no {quoted(text)}, only .machine.name")
        case "text":
            return _unquoted(text), rest
        case "number":
            return int(text[:9]), rest
        case "mark" if text == "(":
            value, rest = _pipeline(rest, machine, depth + 1)
            if not rest or rest[0] != ("mark", ")"):
                raise NamingError("( without )")
            return value, rest[1:]
        case _:
            raise NamingError(f"unexpected {quoted(text)}")


def _unquoted(text: str) -> str:
    if "\\" in text and not text.startswith("`"):
        raise BeyondError("escapes in texts are not supported")
    return text[1:-1]


def _call(name: str, values: list[Value]) -> Value:
    match name, values:
        case "trimSuffix", [str() as suffix, str() as text]:
            return text.removesuffix(suffix)
        case "trunc", [int() as count, str() as text]:
            return text[count:] if count < 0 else text[:count]
        case (("trimSuffix" | "trunc"), _):
            raise NamingError(f"{name} is called with wrong arguments")
        case _:
            raise NamingError(f"function {quoted(name)} not defined; trimSuffix and trunc are")
