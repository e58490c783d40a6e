"""A page about one thing: a title, then sections of labelled facts or of plain lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:  # slow to import
    from laneway.core.vgpu.occupancy import Occupancy


class Fact(msgspec.Struct, frozen=True):
    """Something known. A fact without a value is not shown; each value takes a line."""

    label: str
    values: tuple[str, ...]


class Picture(msgspec.Struct, frozen=True):
    """What a picture of a GPU's memory shows."""

    occupancy: Occupancy
    holders: Mapping[str, str]
    """What has the vGPU of a function, by the function's address; empty where nothing has it."""


class Section(msgspec.Struct, frozen=True):
    """Facts, then lines, under a heading; one without content is not shown."""

    heading: str
    facts: tuple[Fact, ...] = ()
    lines: tuple[str, ...] = ()
    picture: Picture | None = None
    """Stands before all others."""

    @property
    def shown_facts(self) -> tuple[Fact, ...]:
        return tuple(fact for fact in self.facts if fact.values)

    @property
    def shown(self) -> bool:
        return bool(self.shown_facts or self.lines or self.picture)


class Page(msgspec.Struct, frozen=True):
    """All that is said about one thing."""

    title: str
    sections: tuple[Section, ...]


def fact(label: str, *values: str) -> Fact:
    """A fact from the values that are not empty."""
    return Fact(label, tuple(value for value in values if value))
