"""What is wrong with the spec of a VSphereMachine, VSphereMachineTemplate or VSphereVM.

CAPV's own rules are all here, because where Laneway takes CAPV's place no other webhook has them;
they begin with CAPV's words, and name the field that is really meant. In addition they have what
CAPV lets pass and vCenter refuses much later: ids that no device has, labels that are dropped,
hardware that is too old, virtualisation within the guest.

All of it is pure, and takes any JSON for a spec: what is not of the type that it should be is the
API server's to refuse, by its schemas, and is passed over.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence

from laneway.core.vsphere.spec import parsing
from laneway.core.vsphere.spec.parsing import Problem
from laneway.core.vsphere.spec.requests import GroupRequest, PassthroughRequest, Requested
from laneway.core.vsphere.spec.vm_names import BeyondError, NamingError, is_object_name, vm_name

MACHINE = "VSphereMachine"
TEMPLATE = "VSphereMachineTemplate"
VM = "VSphereVM"

DYNAMIC_VERSION = 17
"""From this hardware version on a machine can have whole devices (Dynamic DirectPath I/O)."""
TRY_SOFT = "trySoft"
WINDOWS = "Windows"
WINDOWS_NAME_LIMIT = 15

_HARDWARE = re.compile(r"vmx-([1-9][0-9]?)", re.ASCII)
_SOFT_TIMEOUT = "guestSoftPowerOffTimeoutSeconds"
_IN_TEMPLATES = "cannot be set in templates"


def problems(spec: object, base: str) -> tuple[Problem, ...]:
    """What is wrong with the devices of a spec, and with what bears on them.

    `base` is where the spec is: `spec`, or `spec.template.spec`.
    """
    if not isinstance(spec, Mapping):
        return ()
    requested, found = parsing.read_spec(spec)
    own = (
        *found,
        *_peers(requested, found),
        *_hardware(spec, requested),
        *_nested(spec, requested),
    )
    return _below(base, own)


def created(kind: str, name: str, spec: object, base: str) -> tuple[Problem, ...]:
    """What speaks against a new object of one of the kinds."""
    if not isinstance(spec, Mapping):
        return ()
    found = [*problems(spec, base), *_below(base, _soft_power_off(spec))]
    if kind == TEMPLATE:
        found += _below(base, [*_only_of_machines(spec), *naming(spec)])
    else:
        found += _below(base, addresses(spec))
    if kind == VM and spec.get("os") == WINDOWS and len(name) > WINDOWS_NAME_LIMIT:
        words = "name has to be less than 16 characters for Windows VM"
        found.append(Problem("metadata.name", name, words))
    return tuple(found)


def updated(kind: str, old: object, new: object, base: str) -> tuple[Problem, ...]:
    """What speaks against what is new in the parts that may change; the rest is `changes`'."""
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return ()
    found: list[Problem] = []
    if kind != TEMPLATE and any(old.get(key) != new.get(key) for key in _OFF):
        found += _soft_power_off(new)
    if kind == MACHINE and _cards(old) != _cards(new):
        found += addresses(new)
    if kind == TEMPLATE and _template_of(old) != _template_of(new):
        found += naming(new)
    return _below(base, found)


def hardware_version(text: object) -> int | None:
    """19 for `vmx-19`; None for what is no hardware version."""
    found = _HARDWARE.fullmatch(text) if isinstance(text, str) else None
    return None if found is None else int(found[1])


def _below(base: str, found: Sequence[Problem] | Iterator[Problem]) -> tuple[Problem, ...]:
    return tuple(one._replace(path=f"{base}.{one.path}") for one in found)


# ------------------------------------------------------------------------------------ devices


def _peers(requested: Requested, found: Sequence[Problem]) -> Iterator[Problem]:
    several = len(requested.devices) > 1 or any(
        isinstance(one, GroupRequest) for one in requested.devices
    )
    if requested.peer_to_peer and not several and not found:
        words = "requires two or more devices, or a device group"
        yield Problem("peerToPeer", True, words)


def _hardware(spec: Mapping[str, object], requested: Requested) -> Iterator[Problem]:
    written = spec.get("hardwareVersion")
    if not isinstance(written, str) or not written:
        return
    version = hardware_version(written)
    if version is None:
        words = "should be a valid VM hardware version, example vmx-17"
        yield Problem("hardwareVersion", written, words)
    elif version < DYNAMIC_VERSION and any(
        isinstance(one, PassthroughRequest) for one in requested.devices
    ):
        words = (
            f"should be vmx-{DYNAMIC_VERSION} or newer for whole devices; "
            "without hardwareVersion, Laneway upgrades the VM as far as needed"
        )
        # The VM that is cloned may be newer, and none is made older.
        yield Problem("hardwareVersion", written, words, works=True)


def _nested(spec: Mapping[str, object], requested: Requested) -> Iterator[Problem]:
    if spec.get("nestedHV") is True and requested.devices:
        words = (
            "should not be set together with pciDevices: ESXi adds no PCI passthrough devices "
            "when Nested Hardware-Assisted Virtualization is enabled"
        )
        yield Problem("nestedHV", True, words)


# ---------------------------------------------------------------------------------- the rest


_OFF = ("powerOffMode", _SOFT_TIMEOUT)


def _soft_power_off(spec: Mapping[str, object]) -> Iterator[Problem]:
    seconds = spec.get(_SOFT_TIMEOUT)
    if seconds and spec.get("powerOffMode") != TRY_SOFT:
        words = "should not be set in templates unless the powerOffMode is trySoft"
        yield Problem(_SOFT_TIMEOUT, seconds, words)


def _cards(spec: Mapping[str, object]) -> Sequence[object]:
    network = spec.get("network")
    cards = network.get("devices") if isinstance(network, Mapping) else None
    return cards if isinstance(cards, list | tuple) else ()


def _addresses(spec: Mapping[str, object]) -> Iterator[tuple[int, Sequence[object]]]:
    """What addresses the network cards are given, by card."""
    for i, card in enumerate(_cards(spec)):
        given = card.get("ipAddrs") if isinstance(card, Mapping) else None
        yield i, given if isinstance(given, list | tuple) else ()


def addresses(spec: Mapping[str, object]) -> Iterator[Problem]:
    """Addresses of network cards that are none."""
    for i, given in _addresses(spec):
        for j, text in enumerate(given):
            if not _is_cidr(text):
                words = "ip addresses should be in the CIDR format"
                yield Problem(f"network.devices[{i}].ipAddrs[{j}]", text, words)


def _is_cidr(text: object) -> bool:
    if not isinstance(text, str):
        return False
    address, _, length = text.partition("/")
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    plain = length.isascii() and length.isdigit() and len(length) <= 3
    return plain and int(length) <= found.max_prefixlen and "%" not in address


def _only_of_machines(spec: Mapping[str, object]) -> Iterator[Problem]:
    """What one machine can have, and not many of them."""
    if spec.get("providerID"):
        yield Problem("providerID", None, _IN_TEMPLATES, "Forbidden")
    for i, given in _addresses(spec):
        if given:
            yield Problem(f"network.devices[{i}].ipAddrs", None, _IN_TEMPLATES, "Forbidden")


def _template_of(spec: Mapping[str, object]) -> object:
    said = spec.get("naming")
    return said.get("template") if isinstance(said, Mapping) else None


def naming(spec: Mapping[str, object]) -> Iterator[Problem]:
    """That no name can be made by the template for names."""
    template = _template_of(spec)
    if not isinstance(template, str) or not template:
        return
    words = ""
    try:
        name = vm_name(template, "machine")
    except BeyondError:
        return  # CAPV's own webhook can tell; Laneway's controllers tell that they cannot.
    except NamingError as error:
        words = f"invalid VSphereVM name template: {error}"
    else:
        if not is_object_name(name):
            words = (
                "invalid VSphereVM name template, generated name is not a valid Kubernetes object "
                "name: it should consist of lower case letters, digits, '-' or '.', and begin and "
                "end with a letter or digit"
            )
    if words:
        yield Problem("naming.template", template, words)
