"""The answer to Allocate: what a container gets for the devices that the kubelet chose for it.

The names of the variables and nodes are those that virt-launcher reads; they are part of the
contract. Two laws hold for any offers and any request, because a VM that starts with
less than it requested, or with what another one has, is worse than one that does not start:

- all or nothing: an id that is not offered, or not healthy, refuses the whole request;
- no device goes to two containers, and none twice to one.

An IOMMU group can be used by one process only, so with a function its group members of the same
resource go as well: the VM gets the group, or nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from laneway.core.device_plugin.offer import Form, Offer

_VARIABLES = {
    Form.PCI: "PCI_RESOURCE",
    Form.MDEV: "MDEV_PCI_RESOURCE",
    Form.USB: "USB_RESOURCE",
}


class Answer(msgspec.Struct, frozen=True):
    """For one container."""

    environment: dict[str, str]
    nodes: tuple[str, ...]
    """Below /dev, the same in the container as on the host; to be read, written and made."""


class Denied(msgspec.Struct, frozen=True):
    """Nothing is allocated."""

    why: str
    senseless: bool = False
    """The request itself is wrong; else it could be fulfilled at another time."""


def variable(resource: str, form: Form) -> str:
    """The variable in which virt-launcher looks: `PCI_RESOURCE_NVIDIA_COM_NVIDIA_A2-2Q`."""
    return f"{_VARIABLES[form]}_{environment_name(resource)}"


def environment_name(resource: str) -> str:
    """What virt-launcher makes of a resource's name; not unique: `a.b/c` and `a_b/C` are alike."""
    return resource.upper().replace("/", "_").replace(".", "_")


def answer(
    resource: str,
    offers: Mapping[str, Offer],
    requests: Sequence[Sequence[str]],
    given: Collection[str] = (),
) -> tuple[Answer, ...] | Denied:
    """The answer for each container, given the offers of the resource by id.

    `given` are ids that were allocated a moment ago and of which the kubelet does not yet say who
    has. The kubelet may request these again, when the pod was not admitted after all; but what
    shares a group with one is not for anybody else.
    """
    asked = [one for request in requests for one in request]
    if twice := _repeated(asked):
        return Denied(f"{twice[:80]!r} is requested twice", senseless=True)
    answers, reported = [], set[str]()
    for request in requests:
        for one in request:
            if why := _obstacle(resource, offers, one):
                return why
        devices = with_group_members(offers, request)
        if why := _member_obstacle(offers, devices, {*request}, reported, given):
            return why
        reported.update(devices)
        answers.append(_reported(resource, [offers[one] for one in sorted(devices)]))
    return tuple(answers)


def _obstacle(resource: str, offers: Mapping[str, Offer], one: str) -> Denied | None:
    offer = offers.get(one)
    if offer is None:
        return Denied(f"{one[:80]!r} is not a device of {resource} on this node", senseless=True)
    if offer.unhealthy:
        return Denied(f"{one} cannot be allocated: {offer.unhealthy}")
    if offer.form is Form.PCI and offer.group is None:
        return Denied(f"{one} cannot be allocated: it is in no IOMMU group")
    if offer.form is Form.USB and offer.usb is None:
        return Denied(f"{one} cannot be allocated: its bus and device numbers are unknown")
    return None


def _member_obstacle(
    offers: Mapping[str, Offer],
    devices: set[str],
    asked: set[str],
    reported: set[str],
    given: Collection[str],
) -> Denied | None:
    again = {offers[one].group for one in asked if one in given}
    for one in sorted(devices):
        group = offers[one].group
        if one in reported:
            return Denied(
                f"{one} is in IOMMU group {group}, which another container of the pod gets"
            )
        if one in asked or group in again:
            continue
        if one in given:
            return Denied(f"{one} of the same IOMMU group {group} was allocated a moment ago")
        if why := offers[one].unhealthy:
            return Denied(f"{one} of the same IOMMU group {group} cannot be allocated: {why}")
    return None


def with_group_members(offers: Mapping[str, Offer], request: Collection[str]) -> set[str]:
    """Devices that are allocated, and those of their IOMMU groups that go with them."""
    groups = {
        offers[one].group for one in request if one in offers and offers[one].form is Form.PCI
    }
    return {
        *request,
        *(
            one
            for one, offer in offers.items()
            if offer.form is Form.PCI and offer.group is not None and offer.group in groups
        ),
    }


def _reported(resource: str, devices: Sequence[Offer]) -> Answer:
    environment: dict[str, str] = {}
    for form in Form:
        if values := [_value(offer) for offer in devices if offer.form is form]:
            environment[variable(resource, form)] = ",".join(values)
    return Answer(environment, tuple(sorted({*_nodes(devices)})))


def _value(offer: Offer) -> str:
    if offer.form is Form.USB and offer.usb is not None:
        bus, number = offer.usb
        return f"{bus}:{number}"
    return offer.id


def _nodes(devices: Iterable[Offer]) -> Iterable[str]:
    for offer in devices:
        if offer.form is Form.USB and offer.usb is not None:
            bus, number = offer.usb
            yield f"/dev/bus/usb/{bus:03d}/{number:03d}"
        elif offer.form is Form.MDEV:
            yield "/dev/vfio/"
        else:
            yield "/dev/vfio/vfio"
            yield f"/dev/vfio/{offer.group}"


def _repeated(asked: Sequence[str]) -> str:
    seen = set[str]()
    for one in asked:
        if one in seen:
            return one
        seen.add(one)
    return ""
