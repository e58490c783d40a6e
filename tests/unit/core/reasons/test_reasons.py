"""The golden list of public reasons is what the program uses: no reason more, and none less."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import laneway
from laneway.core.certificates.rotation import Step
from laneway.core.passthrough.usability import ReasonKind
from laneway.core.reasons import REASONS
from laneway.core.refusals import Refusal, reason_of

SOURCE = Path(laneway.__file__).parent
LISTED = {one.reason for one in REASONS}
OF_VSPHERE = {one.reason for one in REASONS if "vSphere" in one.where}
POSITIONS = {
    "Answer": 0,
    "Cause": 0,
    "Condition": 2,
    "DeviceNotReady": 1,
    "Failure": 0,
    "NewEvent": 1,
    "OperationNames": 1,
    "Say": 0,
    "Standing": 0,
    "_answer": 2,
    "_condition_of": 1,
    "_not_ready": 0,
    "_record": 1,
    "_said": 2,
    "_say": 1,
    "ready": 0,
    "record": 1,
}
"""What makes a condition or event, and where its reason stands among the arguments."""


def _text(node: ast.expr, constants: dict[str, str]) -> Iterator[str]:
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.Name(id=name) if name in constants:
            yield constants[name]
        case ast.IfExp(body=one, orelse=other):
            yield from _text(one, constants)
            yield from _text(other, constants)


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """`NAME = "text"`, also of several at once."""
    for node in tree.body:
        if not isinstance(node, ast.Assign):
            continue
        targets, values = node.targets, [node.value]
        if isinstance(targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
            targets, values = targets[0].elts, node.value.elts
        for target, value in zip(targets, values, strict=False):
            if isinstance(target, ast.Name) and isinstance(value, ast.Constant):
                yield target.id, str(value.value)


def _literals(path: Path) -> Iterator[str]:
    """The reasons that a module writes literally."""
    tree = ast.parse(path.read_text())
    constants = _shared_constants() | dict(_constants(tree))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if name not in POSITIONS:
            continue
        given = [one.value for one in node.keywords if one.arg == "reason"]
        given += node.args[POSITIONS[name] :][:1]
        for one in given:
            yield from (
                text for text in _text(one, constants) if re.fullmatch("[A-Z][A-Za-z]+", text)
            )


@cache
def _shared_constants() -> dict[str, str]:
    """Those of all modules, for modules that import them."""
    return {
        name: text for path in _modules() for name, text in _constants(ast.parse(path.read_text()))
    }


def _modules() -> Iterator[Path]:
    for layer in ("controllers", "admission", "core"):
        yield from sorted((SOURCE / layer).rglob("*.py"))


@cache
def used() -> set[str]:
    """All reasons that the program writes, but for those of vSphere."""
    refusals = {reason_of(kind) for kind in Refusal.__subclasses__()}
    literal = {text for path in _modules() for text in _literals(path)}
    return refusals | literal | {kind.value for kind in ReasonKind} | {step.value for step in Step}


def test_every_reason_is_listed() -> None:
    assert used() - LISTED == set()


def test_every_listed_reason_is_used() -> None:
    assert LISTED - used() - OF_VSPHERE == set()


def test_a_reason_is_listed_once() -> None:
    assert [one for one, count in Counter(one.reason for one in REASONS).items() if count > 1] == []


def test_every_reason_says_what_it_means_and_what_to_do() -> None:
    for one in REASONS:
        assert re.fullmatch("([A-Z][a-z0-9]*|CA|USB|GPU|MIG)+", one.reason), one
        assert one.meaning.endswith("."), one
        assert one.remedy.endswith("."), one
