"""What ResourceClaims have: the device plugins must not give that to anybody else.

Claims are allocated by the scheduler, which asks no kubelet. So a device that a claim has is
unhealthy for plugins, and with it what excludes it, for as long as the claim has it. Until it is
known what claims have, any of them may have any device.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec.structs import replace

from laneway.core.device_plugin.offer import Offer
from laneway.core.dra.device import DRIVER, device_name
from laneway.core.dra.sharing import exclude

GIVEN_UP = "it is being withdrawn"
UNKNOWN = "it is not known yet which ResourceClaims have devices"


def allocated(status: Mapping[str, object], node: str) -> tuple[str, ...]:
    """Names of a node's devices that a claim of this status has."""
    results = _get(_get(status, "allocation"), "devices").get("results")
    return tuple(
        str(one.get("device"))
        for one in (results if isinstance(results, Sequence) else ())
        if isinstance(one, Mapping)
        and (one.get("driver"), one.get("pool")) == (DRIVER, node)
        and not one.get("adminAccess")
    )


def _get(parent: Mapping[str, object], name: str) -> Mapping[str, object]:
    found = parent.get(name)
    return found if isinstance(found, Mapping) else {}


def without_claimed(offers: Iterable[Offer], claims: Mapping[str, str] | None) -> tuple[Offer, ...]:
    """The offers as plugins may make them.

    `claims`: whose a device is, by its name; None while that is not known.
    """
    offers = tuple(offers)
    if claims is None:
        return tuple(one if one.unhealthy else replace(one, unhealthy=UNKNOWN) for one in offers)
    taken = [(one, claim) for one in offers if (claim := claims.get(device_name(one))) is not None]

    def holder(offer: Offer) -> str | None:
        return claims.get(device_name(offer)) or next(
            (claim for one, claim in taken if exclude(one, offer)), None
        )

    return tuple(
        replace(offer, unhealthy=f"ResourceClaim {claim} has it, or what excludes it")
        if taken and not offer.unhealthy and (claim := holder(offer)) is not None
        else offer
        for offer in offers
    )


def published(
    offers: Iterable[Offer],
    given_up: Iterable[Offer],
    claims: Collection[str],
    owners: Collection[tuple[str, str]],
) -> tuple[Offer, ...]:
    """What slices show of offers, and of devices that are given up.

    A scheduler counts what others have by what slices say of it. So a device that a claim or a pod
    has stays there until it is free, but no other claim gets it.
    """
    held = {device for _, device in owners}
    kept = [
        replace(one, unhealthy=GIVEN_UP)
        for one in given_up
        if device_name(one) in claims or one.id in held
    ]
    return *offers, *kept
