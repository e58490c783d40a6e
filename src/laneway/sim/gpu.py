"""Which vGPUs one GPU still takes: the driver's accounting in same-size mode, without any files.

All vGPUs of a GPU have one framebuffer size, whatever their series; the first one decides it and
with the last one the choice is free again. A type is creatable while fewer vGPUs exist than that
type's own maximum, on every function that carries none. What a dump shows as configured is taken
as given, also where it breaks these rules: an existing vGPU of any other size rules a type out.
"""

from __future__ import annotations

import msgspec


class CardType(msgspec.Struct, frozen=True):
    """A vGPU type of one board."""

    id: int
    name: str
    framebuffer_mib: int
    maximum: int
    """How many a GPU takes when all have this size."""


class Card:
    """The vGPUs of one GPU, by the function that carries them."""

    def __init__(self, types: tuple[CardType, ...]) -> None:
        self.types = {kind.id: kind for kind in types}
        self._configured: dict[str, CardType] = {}
        self._open = types

    def configured(self, function: str) -> CardType | None:
        return self._configured.get(function)

    def creatable(self, function: str) -> tuple[CardType, ...]:
        return () if function in self._configured else self._open

    def configure(self, function: str, kind: CardType) -> None:
        """Record a vGPU, whether or not it was creatable."""
        self._configured[function] = kind
        self._update()

    def clear(self, function: str) -> None:
        self._configured.pop(function, None)
        self._update()

    def _update(self) -> None:
        sizes = {kind.framebuffer_mib for kind in self._configured.values()}
        count = len(self._configured)
        self._open = tuple(
            kind
            for kind in self.types.values()
            if count < kind.maximum and sizes <= {kind.framebuffer_mib}
        )
