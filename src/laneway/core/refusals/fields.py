"""Why an object is refused for what is written in it, in the form that Kubernetes has for this.

The words are what follows the path in `<path>: Invalid value: <value>: <message>`; the path is the
refusal's field.
"""

from __future__ import annotations

from laneway.core.phrases import line
from laneway.core.refusals.base import Refusal

_LONGEST_VALUE = 256
_CAUSES = {
    "Invalid value": "FieldValueInvalid",
    "Required value": "FieldValueRequired",
    "Forbidden": "FieldValueForbidden",
    "Too many": "FieldValueTooMany",
}


class FieldInvalid(Refusal, frozen=True):
    """A field says what it may not say."""

    field: str
    """`spec.pciDevices[3].deviceId`"""
    kind: str
    """`Invalid value`, `Required value`, `Forbidden`, `Too many`."""
    value: str
    """What is written there, as JSON; empty where that does not matter."""
    message: str
    because: str = ""
    """The reason of the refusal that the message is of; empty: there is none."""

    @property
    def cause(self) -> str:
        """What it is because of, else what Kubernetes calls the kind."""
        return self.because or _CAUSES.get(self.kind, self.reason)

    @property
    def words(self) -> str:
        long = len(self.value) > _LONGEST_VALUE
        value = f"{self.value[:_LONGEST_VALUE]}…" if long else self.value
        return line(": ".join(part for part in (self.kind, value, self.message) if part))
