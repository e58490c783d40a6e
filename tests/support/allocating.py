"""Who gives out devices besides the kubelet: a scheduler that counts, and what may be given out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st

from laneway.core.device_plugin.offer import Form, Offer
from laneway.core.pci import PciAddress

Body = dict[str, Any]


def offer(card: int, function: int, group: int | None, form: Form = Form.PCI) -> Offer:
    """Function 0 of a card is the card."""
    address = PciAddress(0, card, 0, function)
    return Offer(
        resource="example.com/x",
        id=str(address) if form is Form.PCI else f"{card:08x}-{function}",
        form=form,
        kind="PCIDevice",
        name=f"n-{card}-{function}-{form}",
        address=address,
        card=PciAddress(0, card, 0, 0),
        group=group,
    )


def hardware(*, cards: int, functions: int, groups: int, most: int) -> st.SearchStrategy[Any]:
    """Some devices of a node, which may exclude each other."""
    one = st.builds(
        offer,
        st.integers(1, cards),
        st.integers(0, functions),
        st.none() | st.integers(0, groups),
        st.sampled_from([Form.PCI, Form.MDEV]),
    )
    return st.lists(one, max_size=most, unique_by=lambda one: (one.form, one.id))


OFFERS = hardware(cards=3, functions=3, groups=4, most=12)


def overlap(one: Offer, other: Offer) -> bool:
    """Said again from hardware: a group goes to one pod; a card is whole or in parts."""
    if one.group is not None and one.group == other.group:
        return True
    wholes = [it for it in (one, other) if it.form is Form.PCI and it.address == it.card]
    return bool(wholes) and one.card == other.card


class Scheduler:
    """Gives out devices as long as their counters last, as Kubernetes' allocator does.

    Of what was given out before it knows what slices say of that now.
    """

    def __init__(self, parts: Iterable[Body], given: Iterable[str] = ()) -> None:
        parts = list(parts)
        self.devices = {one["name"]: one for part in parts for one in part.get("devices", ())}
        self.left: Counter[tuple[str, str]] = Counter()
        for part in parts:
            for found in part.get("sharedCounters", ()):
                for name, value in found["counters"].items():
                    self.left[found["name"], name] = int(value["value"])

        self._given = set(given)
        for name in self._given & self.devices.keys():
            self.left.subtract(self._wanted(name))

    def give(self, name: str) -> bool:
        """Whether a claim that tolerates no taints gets a device."""
        if name in self._given or self.devices[name].get("taints"):
            return False
        wanted = self._wanted(name)
        if any(self.left[key] < amount for key, amount in wanted.items()):
            return False
        self.left.subtract(wanted)
        self._given.add(name)
        return True

    def _wanted(self, name: str) -> Counter[tuple[str, str]]:
        return Counter(
            {
                (one["counterSet"], counter): int(value["value"])
                for one in self.devices[name].get("consumesCounters", ())
                for counter, value in one["counters"].items()
            }
        )
