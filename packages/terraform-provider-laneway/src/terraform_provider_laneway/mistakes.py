"""What is wrong with values of a configuration, whatever the cluster has. They may be unknown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from laneway.core.gpu.modes import Mode
from laneway.core.names import is_resource_name
from laneway.core.phrases import few
from terraform_provider_laneway.problems import Path, ProblemError
from terraform_provider_laneway.values import State, is_unknown

_NUMBER = "a whole number"


def number(
    config: State, attribute: str, least: int, most: int, *, form: str = _NUMBER
) -> list[ProblemError]:
    """Of an attribute that may be left out. `form`: what is to be written."""
    value = config.get(attribute)
    return [] if value is None else _number(value, least, most, [attribute], form)


def counts(config: State, attribute: str, most: int) -> list[ProblemError]:
    """Of a map of numbers."""
    return [
        problem
        for name, count in _entries(config, attribute)
        for problem in _number(count, 1, most, [attribute, (name,)])
    ]


def requests(config: State, attribute: str, most: int) -> list[ProblemError]:
    """Of how many devices of each resource are requested."""
    found = counts(config, attribute, most)
    for name, _ in _entries(config, attribute):
        found += _resource(name, [attribute, (name,)])
    return found


def resources(config: State, attribute: str) -> list[ProblemError]:
    """Of a map of resources."""
    return [
        problem
        for name, resource in _entries(config, attribute)
        for problem in _resource(resource, [attribute, (name,)])
    ]


def mode(config: State, modes: Iterable[Mode]) -> list[ProblemError]:
    """Of the attribute `mode`."""
    value, known = config.get("mode"), [one.value for one in modes]
    if value is None or is_unknown(value) or value in known:
        return []
    return [ProblemError("Unknown mode", f"The modes are {few(known)}.", ["mode"])]


def _entries(config: State, attribute: str) -> list[tuple[str, Any]]:
    found = config.get(attribute)
    return list(found.items()) if isinstance(found, dict) else []


def _number(
    value: Any, least: int, most: int, path: Path, form: str = _NUMBER
) -> list[ProblemError]:
    if is_unknown(value) or (isinstance(value, int) and least <= value <= most):
        return []
    return [ProblemError("Invalid number", f"Write {form} from {least} to {most}.", path)]


def _resource(name: str | None, path: Path) -> list[ProblemError]:
    if is_unknown(name) or is_resource_name(name or ""):
        return []
    words = f"{(name or 'null')[:80]} is not the name of a resource, such as "
    return [ProblemError("Invalid resource", f"{words}nvidia.com/NVIDIA_A2-4Q.", path)]
