"""Makes or changes a HostPolicy as a form or a command describes all of it."""

from __future__ import annotations

from typing import Any

from laneway.api import HostPolicy, HostPolicySpec, to_builtins
from laneway.changes.errors import OvertakenError
from laneway.controllers.preparation.settings import fields_of, wanted_of
from laneway.kube.client import Client
from laneway.kube.errors import ConflictError
from laneway.kube.resource import served

POLICIES = served(HostPolicy)
_TRIES = 5


async def create(
    client: Client, name: str, spec: HostPolicySpec, *, dry_run: bool = False
) -> HostPolicy:
    """Make a policy. Raises KubeError."""
    body = {
        "apiVersion": POLICIES.api_version,
        "kind": POLICIES.kind,
        "metadata": {"name": name},
        "spec": _fields(spec),
    }
    return await client.create(POLICIES, body, dry_run=dry_run)


async def change(
    client: Client, name: str, spec: HostPolicySpec, generation: int, *, dry_run: bool = False
) -> HostPolicy:
    """Give a policy another spec, if its spec is still the one of this generation.

    Its status changes all the time during a roll-out, so a conflict alone says nothing. Raises
    KubeError and OvertakenError.
    """
    for _ in range(_TRIES):
        known = await client.get(POLICIES, name)
        if known.metadata.generation != generation:
            break
        fields = _fields(spec)
        labels = dict.fromkeys(known.spec.node_selector.match_labels)
        fields["nodeSelector"]["matchLabels"] = labels | fields["nodeSelector"]["matchLabels"]
        body = {
            "metadata": {"resourceVersion": known.metadata.resource_version},
            "spec": fields,
        }
        try:
            return await client.patch(POLICIES, name, body, dry_run=dry_run)
        except ConflictError:
            continue
    raise OvertakenError(
        f"HostPolicy {name} was changed meanwhile. Nothing was written. Open it again"
    )


def _fields(spec: HostPolicySpec) -> dict[str, Any]:
    """Every field, so that a merge patch leaves none of before."""
    rollout, selector = spec.rollout, spec.node_selector
    return {
        **fields_of(wanted_of(spec)),
        "nodeSelector": {
            "matchLabels": dict(selector.match_labels),
            "names": list(selector.names),
        },
        "rollout": {
            "paused": rollout.paused,
            "maxUnavailable": rollout.max_unavailable,
            "skipDrain": rollout.skip_drain,
            "stopVMs": rollout.stop_vms,
            "reboot": {
                "when": rollout.reboot.when or "Never",
                "windows": [to_builtins(one) for one in rollout.reboot.windows],
            },
        },
    }
