"""What every refusal is: facts, the word that machines go by, and the words that people read."""

from __future__ import annotations

import msgspec


class Refusal(msgspec.Struct, frozen=True, tag_field="reason"):
    """Why something that was asked for is not done. Subclasses name the reason."""

    @property
    def reason(self) -> str:
        """CamelCase word for machines, `ProfileExhausted`."""
        return type(self).__name__

    @property
    def words(self) -> str:
        """One line of whole sentences: what is wrong, and what a person can do about it."""
        raise NotImplementedError  # metaclasses of Struct and ABC exclude each other
