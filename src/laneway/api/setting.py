"""Setting: a switch of Harvester's, of which Laneway reads two.

The kind is Harvester's. A cluster that lacks it gets this definition of it, which holds as much as
the two settings need; one that is there already is never changed.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from laneway.api.meta import ObjectMeta, Status

SETTING_GROUP = "harvesterhci.io"


class Setting(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """One setting."""

    api_version: str = f"{SETTING_GROUP}/v1beta1"
    kind: str = "Setting"
    metadata: ObjectMeta = ObjectMeta()
    default: Annotated[str, Meta(description="Value that counts while value is empty.")] = ""
    value: Annotated[str, Meta(description="pci-pt-enable and gpu-enable: true or false.")] = ""
    status: Status = Status()
