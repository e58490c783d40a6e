"""What a Containerfile says, as far as Laneway's does: its instructions, stage by stage.

Only the forms that Laneway uses are understood, and anything else is an error, so that no reader
takes for checked what nothing has read.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_VARIABLE = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True)
class Step:
    """COPY or RUN, in words. A RUN that needs a shell has just one."""

    name: str
    words: tuple[str, ...]
    options: Mapping[str, str]


@dataclass
class Stage:
    """One FROM and what follows it. Environment, user and so on are those at its end."""

    name: str
    workdir: str = "/"
    environment: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    user: str = "0:0"
    entrypoint: tuple[str, ...] = ()
    steps: list[Step] = field(default_factory=list)


class RecipeError(Exception):
    """A line that is not understood."""


def read(text: str) -> list[Stage]:
    """The stages of a Containerfile."""
    stages: list[Stage] = []
    arguments: dict[str, str] = {}
    for name, raw in _lines(text):
        rest = _VARIABLE.sub(lambda match: arguments.get(match[1], ""), raw)
        if name == "ARG":
            argument, _, default = rest.partition("=")
            arguments.setdefault(argument, default)
        elif name == "FROM":
            words = rest.split()
            stages.append(Stage(words[2] if words[1:2] == ["AS"] else ""))
        elif not stages:
            raise RecipeError(f"{name} before any FROM")
        else:
            _add(stages[-1], name, rest)
    return stages


def _add(stage: Stage, name: str, rest: str) -> None:
    match name:
        case "WORKDIR":
            stage.workdir = rest
        case "USER":
            stage.user = rest
        case "ENTRYPOINT":
            stage.entrypoint = tuple(json.loads(rest))
        case "ENV":
            stage.environment.update(_pairs(rest))
        case "LABEL":
            stage.labels.update(_pairs(rest))
        case "COPY" | "RUN":
            options = {}
            while rest.startswith("--"):
                option, _, rest = rest.partition(" ")
                key, _, value = option[2:].partition("=")
                options[key] = value
                rest = rest.lstrip()
            if name == "COPY":
                words = tuple(rest.split())
            else:
                words = tuple(json.loads(rest)) if rest.startswith("[") else (rest,)
            stage.steps.append(Step(name, words, options))
        case _:
            raise RecipeError(f"{name} is not known to tools/image/recipe.py")


def _pairs(rest: str) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in shlex.split(rest))


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Instructions with their arguments, each on one line."""
    joined = ""
    for line in text.splitlines():
        if line.lstrip().startswith("#") or not line.strip():
            continue
        joined += line.strip()
        if joined.endswith("\\"):
            joined = joined[:-1]
            continue
        name, _, rest = joined.partition(" ")
        yield name, rest.strip()
        joined = ""
