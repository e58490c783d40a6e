"""Objects of Cluster API's provider for vSphere, as they are judged: their specs stay JSON.

Whether a spec changes is asked of all its fields, and of the list of devices what is written and
not what can be made of it.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from laneway.api import ObjectMeta
from laneway.core.raw import Json, JsonObject, at, members
from laneway.core.vsphere.spec.validation import MACHINE, TEMPLATE, VM


class Written(msgspec.Struct, frozen=True):
    """One object of any of the kinds."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JsonObject = {}


class Where(NamedTuple):
    """A kind, and where its objects have the spec of a machine."""

    kind: str
    path: tuple[str, ...]

    @property
    def base(self) -> str:
        """As paths say it, `spec.template.spec`."""
        return ".".join(self.path)

    def spec_in(self, raw: Json) -> Json:
        """The spec of a machine within an object; None for none."""
        return at(raw, self.path)

    def spec_of(self, obj: Written) -> JsonObject:
        """The same of one that was read."""
        return members(self.spec_in({"spec": obj.spec}))


MACHINES = Where(MACHINE, ("spec",))
TEMPLATES = Where(TEMPLATE, ("spec", "template", "spec"))
VMS = Where(VM, ("spec",))
