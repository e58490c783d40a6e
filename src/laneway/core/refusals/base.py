"""What every refusal is: facts, the word that machines go by, and the words that people read."""

from __future__ import annotations

import msgspec


class Refusal(msgspec.Struct, frozen=True, tag_field="reason"):
    """Why a change is not made. A subclass has the facts and the text of one case.

    The reason is the name of the subclass, or its `tag`: cases that are the same to a client, such
    as a claim of a PCI device in use and one of a USB device, share a reason.
    """

    @property
    def reason(self) -> str:
        """CamelCase word for machines, `ProfileExhausted`."""
        return reason_of(type(self))

    @property
    def words(self) -> str:
        """One line of whole sentences: what is refused, why, and what to do about it."""
        raise NotImplementedError  # metaclasses of Struct and ABC exclude each other


def reason_of(kind: type[Refusal]) -> str:
    """The reason of a kind of refusal."""
    return str(kind.__struct_config__.tag)
