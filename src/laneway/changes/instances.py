"""The GPU instances of a GPU in MIG mode, as its MigConfiguration desires them."""

from __future__ import annotations

from collections.abc import Mapping

from laneway.api import MigConfiguration
from laneway.controllers.devices.layout import mig_patch
from laneway.core.mig.profiles import bare_name
from laneway.core.raw import JsonObject


def fields(mig: MigConfiguration, counts: Mapping[str, int] | None) -> JsonObject:
    """Those of the spec for exactly these GPU instances, by profile: `1g.10gb`.

    None: it is not enabled.
    """
    ids = {bare_name(one.name): one.id for one in mig.status.profile_status}
    return mig_patch(mig, (counts is not None, dict(counts or {})), ids)
