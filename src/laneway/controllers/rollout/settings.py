"""Harvester's settings `pci-pt-enable` and `gpu-enable`, as switches of a HostPolicy each.

`true` makes the policy with the setting's name, or gives it its settings again; how it rolls out,
and all that is changed in it, is its users' matter afterwards. `false` takes the settings out of
it, so that nodes become as they were. Anything else is told, and changes nothing; so does a setting
that is deleted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from laneway.api import Condition, HostPolicy, Setting, to_builtins
from laneway.controllers.cluster.caches import SETTINGS, Caches
from laneway.controllers.cluster.leading import Leading
from laneway.controllers.cluster.metrics import ManagerMetrics
from laneway.controllers.devices.family import merge_conditions
from laneway.controllers.preparation.settings import fields_of, wanted_of
from laneway.controllers.publisher import timestamp
from laneway.core.preparation.wanted import NOTHING, Wanted
from laneway.kube.client import Client
from laneway.kube.controller import Retry
from laneway.kube.errors import AlreadyExistsError, ConflictError, NotFoundError
from laneway.kube.resource import served

SWITCHES: Mapping[str, Wanted] = {
    "pci-pt-enable": Wanted(iommu=True, vfio_at_boot=True),
    "gpu-enable": Wanted(iommu=True, vfio_at_boot=True, blocked_drivers=("nouveau", "nvidiafb")),
}
_CONDITION = "HostPolicy"
_POLICIES = served(HostPolicy)


class Switches(Leading[str]):
    """Works on names of settings."""

    def __init__(self, client: Client, caches: Caches, metrics: ManagerMetrics) -> None:
        super().__init__()
        self._client = client
        self._caches = caches
        self._metrics = metrics
        self.needs = (caches.policies,)  # a cluster need not have settings
        caches.settings.follow(lambda setting: self.ask([setting.metadata.name]))
        caches.policies.subscribe(self._policy_changed)

    def everything(self) -> Iterable[str]:
        return SWITCHES

    def _policy_changed(self, before: HostPolicy | None, after: HostPolicy | None) -> None:
        if before is not None and after is None and before.metadata.name in SWITCHES:
            self.ask([before.metadata.name])

    async def reconcile(self, key: str) -> Retry | None:
        """Have the policy be as the setting says."""
        setting = self._caches.settings.store.get(key)
        if setting is None or key not in SWITCHES or setting.metadata.deletion_timestamp:
            return None
        said = (setting.value or setting.default).strip().lower()
        try:
            match said:
                case "true":
                    await self._switch(key, SWITCHES[key])
                    await self._answer(setting, "True", "Enabled", f"HostPolicy {key} applies.")
                case "false" | "":
                    await self._switch(key, NOTHING)
                    await self._answer(setting, "False", "Disabled", "The setting is off.")
                case _:
                    why = f"The value {said[:40]!r} is neither true nor false. Nothing is changed."
                    await self._answer(setting, "Unknown", "InvalidValue", why)
        except (ConflictError, AlreadyExistsError):
            return Retry(0.5)
        return None

    async def _switch(self, name: str, wanted: Wanted) -> None:
        policy = self._caches.policies.store.get(name)
        spec: dict[str, Any] = fields_of(wanted)
        if policy is None:
            if wanted == NOTHING:
                return
            spec["rollout"] = {"reboot": {"when": "WhenFree"}}
            body = {
                "apiVersion": _POLICIES.api_version,
                "kind": _POLICIES.kind,
                "metadata": {"name": name},
                "spec": spec,
            }
            await self._client.create(_POLICIES, body)
            self._metrics.wrote("create", _POLICIES.kind)
            return
        now = wanted_of(policy.spec)
        if (now == NOTHING) == (wanted == NOTHING):
            return  # what was changed in it stays
        version = {"resourceVersion": policy.metadata.resource_version}
        await self._client.patch(_POLICIES, name, {"metadata": version, "spec": spec})
        self._metrics.wrote("patch", _POLICIES.kind)

    async def _answer(
        self, setting: Setting, status: Literal["True", "False", "Unknown"], reason: str, text: str
    ) -> None:
        meta = setting.metadata
        said = Condition(type=_CONDITION, status=status, reason=reason, message=text)
        known = setting.status.conditions
        conditions = merge_conditions(known, [said], meta.generation, timestamp())
        if conditions == list(known):
            return
        body = {
            "metadata": {"resourceVersion": meta.resource_version},
            "status": {"conditions": [to_builtins(one) for one in conditions]},
        }
        try:
            await self._client.patch(SETTINGS, meta.name, body, subresource="status")
        except NotFoundError:  # Harvester's definition has the status in the object
            with contextlib.suppress(NotFoundError):
                await self._client.patch(SETTINGS, meta.name, body)
        self._metrics.wrote("patch status", SETTINGS.kind)
