"""The text of an expression as a tree.

The grammar is that of the CEL specification with optional syntax (`a.?b`, `a[?0]`, `[?x]`). Macros
become nodes of their own. A tree is never deeper than `DEPTH_LIMIT`, so that code that walks it may
recurse; chains of `&&` and `||` are flat, as generated rules have long ones.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from kapilite.cel.values import UInt

DEPTH_LIMIT = 60
LENGTH_LIMIT = 100_000


class CelSyntaxError(ValueError):
    """The text is no expression; shown as Kubernetes shows it, with the place."""


class Literal(NamedTuple):
    value: Any
    at: int


class Ident(NamedTuple):
    name: str
    at: int
    is_global: bool = False
    """Written with a dot in front: no variable of a macro."""


class Select(NamedTuple):
    operand: Node
    field: str
    is_test: bool
    is_optional: bool
    at: int


class Index(NamedTuple):
    operand: Node
    key: Node
    is_optional: bool
    at: int


class Call(NamedTuple):
    function: str
    """An operator is written with underscores for its operands: `_+_`."""
    target: Node | None
    args: tuple[Node, ...]
    at: int


class ListOf(NamedTuple):
    items: tuple[tuple[Node, bool], ...]
    """Each with whether it is optional."""
    at: int


class MapOf(NamedTuple):
    entries: tuple[tuple[Node, Node, bool], ...]
    at: int


class Comprehension(NamedTuple):
    macro: str
    range: Node
    names: tuple[str, ...]
    body: tuple[Node, ...]
    at: int


Node = Literal | Ident | Select | Index | Call | ListOf | MapOf | Comprehension

# The macros by name and number of arguments, with how many of them are names.
_MACROS = {
    ("all", 2): 1,
    ("exists", 2): 1,
    ("exists_one", 2): 1,
    ("map", 2): 1,
    ("map", 3): 1,
    ("filter", 2): 1,
    ("optMap", 2): 1,
    ("optFlatMap", 2): 1,
    ("all", 3): 2,
    ("exists", 3): 2,
    ("existsOne", 3): 2,
    ("exists_one", 3): 2,
    ("transformList", 3): 2,
    ("transformList", 4): 2,
    ("transformMap", 3): 2,
    ("transformMap", 4): 2,
    ("transformMapEntry", 3): 2,
    ("transformMapEntry", 4): 2,
    ("sortBy", 2): 1,
}
RESERVED = frozenset(
    {"as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in"}
    | {"let", "loop", "namespace", "null", "package", "return", "true", "var", "void", "while"}
)
_TOKEN = re.compile(
    r"""(?P<space>(?:\s+|//[^\n]*)+)
    |(?P<string>[rRbB]{0,2}(?:\"{3}.*?(?<!\\)(?:\\\\)*\"{3}|'{3}.*?(?<!\\)(?:\\\\)*'{3}))
    |(?P<line>(?:[bB]?[rR]|[rR][bB])(?:"[^"\n]*"|'[^'\n]*')
       |[bB]?(?:"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
    |(?P<float>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)
    |(?P<int>0x[0-9a-fA-F]+[uU]?|\d+[uU]?)
    |(?P<name>[_a-zA-Z][_a-zA-Z0-9]*)
    |(?P<op>==|!=|<=|>=|&&|\|\||[-+*/%<>!?:.,()\[\]{}])""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_LEVELS: dict[str, int] = {
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">=", "in"), 1),
    **dict.fromkeys(("+", "-"), 2),
    **dict.fromkeys(("*", "/", "%"), 3),
}


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


def parse(text: str) -> Node:
    """The tree of an expression, or a CelSyntaxError that shows the place."""
    if len(text) > LENGTH_LIMIT:
        raise CelSyntaxError(f"the expression is longer than {LENGTH_LIMIT} characters")
    parser = _Parser(text)
    node = parser.expression(0)
    parser.expect("end", "")
    _check_depth(text, node)
    return node


def show(text: str, at: int, why: str) -> str:
    """An error with its place, in the form of cel-go."""
    line = text.count("\n", 0, at) + 1
    begin = text.rfind("\n", 0, at) + 1
    whole = text[begin:].split("\n", 1)[0]
    return f"ERROR: <input>:{line}:{at - begin + 1}: {why}\n | {whole}\n | {'.' * (at - begin)}^"


def children(node: Node) -> tuple[Node, ...]:
    """The nodes directly below."""
    match node:
        case Select():
            return (node.operand,)
        case Index():
            return node.operand, node.key
        case Call():
            return node.args if node.target is None else (node.target, *node.args)
        case ListOf():
            return tuple(item for item, _ in node.items)
        case MapOf():
            return tuple(part for key, value, _ in node.entries for part in (key, value))
        case Comprehension():
            return node.range, *node.body
    return ()


def qualified(node: Node) -> str:
    """The dotted name that a chain of selections spells; empty for anything else."""
    if isinstance(node, Ident):
        return node.name
    if isinstance(node, Select) and not node.is_test and not node.is_optional:
        before = qualified(node.operand)
        return f"{before}.{node.field}" if before else ""
    return ""


def mentions(node: Node, name: str) -> bool:
    """Whether a variable of this name is used anywhere."""
    if isinstance(node, Ident):
        return node.name == name
    return any(mentions(child, name) for child in children(node))


def _check_depth(text: str, node: Node) -> None:
    level = [node]
    for _ in range(DEPTH_LIMIT):
        level = [child for parent in level for child in children(parent)]
        if not level:
            return
    raise CelSyntaxError(show(text, level[0].at, "the expression is nested too deeply"))


class _Parser:
    """Precedence climbing over the tokens."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._scan()
        self._next = 0

    def _scan(self) -> list[_Token]:
        found, at = [], 0
        while at < len(self._text):
            match = _TOKEN.match(self._text, at)
            if match is None:
                raise self._error(
                    at, f"Syntax error: token recognition error at: '{self._text[at]}'"
                )
            if match.lastgroup != "space":
                found.append(_Token(str(match.lastgroup), match[0], at))
            at = match.end()
        found.append(_Token("end", "", at))
        return found

    def _error(self, at: int, why: str) -> CelSyntaxError:
        return CelSyntaxError(show(self._text, at, why))

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._tokens[self._next]
        self._next += 1
        return token

    def _accept(self, text: str) -> bool:
        token = self._peek()
        if token.kind == "op" and token.text == text:
            self._next += 1
            return True
        return False

    def expect(self, kind: str, text: str) -> _Token:
        token = self._take()
        if token.kind != kind or (text and token.text != text):
            shown = token.text or "<EOF>"
            wanted = f" expecting '{text}'" if text else ""
            raise self._error(token.at, f"Syntax error: mismatched input '{shown}'{wanted}")
        return token

    def expression(self, depth: int) -> Node:
        if depth > DEPTH_LIMIT:
            raise self._error(self._peek().at, "the expression is nested too deeply")
        test = self._chain("||", depth)
        at = self._peek().at
        if not self._accept("?"):
            return test
        yes = self._chain("||", depth + 1)
        self.expect("op", ":")
        return Call("_?_:_", None, (test, yes, self.expression(depth + 1)), at)

    def _chain(self, operator: str, depth: int) -> Node:
        def operand() -> Node:
            return self._chain("&&", depth) if operator == "||" else self._binary(1, depth)

        terms = [operand()]
        at = self._peek().at
        while self._accept(operator):
            terms.append(operand())
        return terms[0] if len(terms) == 1 else Call(f"_{operator}_", None, tuple(terms), at)

    def _binary(self, level: int, depth: int) -> Node:
        left = self._unary(depth)
        while True:
            token = self._peek()
            found = _LEVELS.get(token.text, 0) if token.kind in ("op", "name") else 0
            if found < level:
                return left
            self._take()
            right = self._binary(found + 1, depth)
            name = "@in" if token.text == "in" else f"_{token.text}_"
            left = Call(name, None, (left, right), token.at)

    def _unary(self, depth: int) -> Node:
        token = self._peek()
        if token.kind == "op" and token.text in "!-":
            count = 1
            self._take()
            while self._accept(token.text):
                count += 1
            if count % 2 == 0:
                return self._member(self._primary(depth), depth)  # an even number is none
            if token.text == "-" and count == 1 and self._peek().kind in ("int", "float"):
                # Only so can the smallest integer be written.
                return self._member(self._number("-"), depth)
            return Call(
                f"{token.text}_", None, (self._member(self._primary(depth), depth),), token.at
            )
        return self._member(self._primary(depth), depth)

    def _member(self, node: Node, depth: int) -> Node:
        while True:
            at = self._peek().at
            if self._accept("."):
                optional = self._accept("?")
                field = self.expect("name", "")
                if not optional and self._accept("("):
                    node = self._call(node, field, depth)
                else:
                    if field.text in RESERVED:
                        why = f"Syntax error: reserved identifier: {field.text}"
                        raise self._error(field.at, why)
                    node = Select(node, field.text, is_test=False, is_optional=optional, at=at)
            elif self._accept("["):
                optional = self._accept("?")
                node = Index(node, self.expression(depth + 1), optional, at)
                self.expect("op", "]")
            else:
                return node

    def _call(self, target: Node | None, name: _Token, depth: int) -> Node:
        args: list[Node] = []
        if not self._accept(")"):
            args.append(self.expression(depth + 1))
            while self._accept(","):
                args.append(self.expression(depth + 1))
            self.expect("op", ")")
        if target is None and name.text == "has":
            if len(args) == 1 and isinstance(args[0], Select) and not args[0].is_optional:
                return args[0]._replace(is_test=True)
            raise self._error(name.at, "invalid argument to has() macro")
        names = _MACROS.get((name.text, len(args)), 0)
        if target is None or not names:
            return Call(name.text, target, tuple(args), name.at)
        bound = [arg.name for arg in args[:names] if isinstance(arg, Ident)]
        if len(bound) < names or len(set(bound)) < names:
            raise self._error(args[0].at, "argument must be a simple name")
        return Comprehension(name.text, target, tuple(bound), tuple(args[names:]), name.at)

    def _primary(self, depth: int) -> Node:
        token = self._peek()
        if token.kind in ("int", "float"):
            return self._number("")
        self._take()
        if token.kind in ("string", "line"):
            return Literal(self._string(token), token.at)
        if token.kind == "name":
            return self._name(token, depth)
        if token.kind == "op":
            match token.text:
                case "(":
                    inner = self.expression(depth + 1)
                    self.expect("op", ")")
                    return inner
                case "[":
                    return self._list(token.at, depth)
                case "{":
                    return self._map(token.at, depth)
                case ".":
                    return self._global(self.expect("name", ""), depth)
        shown = token.text or "<EOF>"
        raise self._error(token.at, f"Syntax error: mismatched input '{shown}'")

    def _global(self, token: _Token, depth: int) -> Node:
        if token.text in ("true", "false", "null"):
            raise self._error(token.at, f"Syntax error: mismatched input '{token.text}'")
        found = self._name(token, depth)
        return found._replace(is_global=True) if isinstance(found, Ident) else found

    def _name(self, token: _Token, depth: int) -> Node:
        if token.text in ("true", "false", "null"):
            value = {"true": True, "false": False, "null": None}[token.text]
            return Literal(value, token.at)
        if token.text in RESERVED:
            raise self._error(token.at, f"Syntax error: reserved identifier: {token.text}")
        if self._accept("("):
            return self._call(None, token, depth)
        return Ident(token.text, token.at)

    def _list(self, at: int, depth: int) -> Node:
        items: list[tuple[Node, bool]] = []
        while not self._accept("]"):
            optional = self._accept("?")
            items.append((self.expression(depth + 1), optional))
            if not self._accept(","):
                self.expect("op", "]")
                break
        return ListOf(tuple(items), at)

    def _map(self, at: int, depth: int) -> Node:
        entries: list[tuple[Node, Node, bool]] = []
        while not self._accept("}"):
            optional = self._accept("?")
            key = self.expression(depth + 1)
            self.expect("op", ":")
            entries.append((key, self.expression(depth + 1), optional))
            if not self._accept(","):
                self.expect("op", "}")
                break
        return MapOf(tuple(entries), at)

    def _number(self, sign: str) -> Node:
        token = self._take()
        if token.kind == "float":
            return Literal(float(sign + token.text), token.at)
        unsigned = token.text[-1] in "uU"
        digits = token.text.rstrip("uU")
        if len(digits) > 40:
            raise self._error(token.at, "invalid int literal")
        value = int(sign + digits, 16 if digits.startswith("0x") else 10)
        low, high = (0, 2**64) if unsigned else (-(2**63), 2**63)
        if not low <= value < high:
            raise self._error(token.at, f"invalid {'uint' if unsigned else 'int'} literal")
        return Literal(UInt(value) if unsigned else value, token.at)

    def _string(self, token: _Token) -> str | bytes:
        start = min(token.text.index(quote) for quote in "'\"" if quote in token.text)
        prefix, quoted = token.text[:start].lower(), token.text[start:]
        width = 3 if token.kind == "string" else 1
        body = quoted[width:-width]
        is_bytes = "b" in prefix
        if "r" in prefix:
            return body.encode() if is_bytes else body
        parts: list[bytes] = []
        at = 0
        for match in _ESCAPE.finditer(body):
            parts.append(body[at : match.start()].encode())
            parts.append(self._escaped(match[0], token.at, is_bytes=is_bytes))
            at = match.end()
        parts.append(body[at:].encode())
        whole = b"".join(parts)
        return whole if is_bytes else whole.decode()

    def _escaped(self, text: str, at: int, *, is_bytes: bool) -> bytes:
        simple = _SIMPLE.get(text[1:2])
        if len(text) == 2 and simple is not None:
            return simple
        if len(text) == 2:
            raise self._error(at, f"Syntax error: invalid escape sequence: {text}")
        base, digits = (8, text[1:]) if text[1].isdigit() else (16, text[2:])
        code = int(digits, base)
        if text[1] in "uU" and is_bytes:
            raise self._error(at, f"Syntax error: invalid escape sequence: {text}")
        if is_bytes and code < 256:
            return bytes([code])
        if code > 0x10FFFF or 0xD800 <= code < 0xE000:
            raise self._error(at, f"Syntax error: invalid escape sequence: {text}")
        return chr(code).encode()


_ESCAPE = re.compile(
    r"\\(?:[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2}|.)", re.DOTALL
)
_SIMPLE = {
    "a": b"\a",
    "b": b"\b",
    "f": b"\f",
    "n": b"\n",
    "r": b"\r",
    "t": b"\t",
    "v": b"\v",
    "\\": b"\\",
    "'": b"'",
    '"': b'"',
    "`": b"`",
    "?": b"?",
}
