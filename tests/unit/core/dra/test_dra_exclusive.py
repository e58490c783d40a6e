"""Whatever happens, no device is with a pod by the kubelet and with a ResourceClaim as well.

A history of a node: the kubelet gives out what the plugins offer, a scheduler what the slices show,
and in between devices are given up, break, and the slices are switched off.
"""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import example, given, settings
from hypothesis import strategies as st

from laneway.core.device_plugin.health import Facts, device_of, judged
from laneway.core.device_plugin.offer import Form, Offer, Owner
from laneway.core.dra.claims import published, without_claimed
from laneway.core.dra.device import device_name
from laneway.core.dra.slices import Body, pool
from laneway.core.inventory import Inventory
from support.allocating import OFFERS, Scheduler, hardware, offer, overlap
from support.examples import many

NOTHING = Inventory()


class Node:
    """What is known of a node, and what others got of it."""

    def __init__(self, devices: Iterable[Offer], *, full: bool) -> None:
        self.hardware = list(devices)
        self.full = full
        self.publishes = True
        self.claims: set[str] = set()
        self.pods: dict[tuple[str, str], Owner] = {}
        self.given_up: set[str] = set()
        self.broken: set[str] = set()

    def offers(self) -> tuple[Offer, ...]:
        faults = {
            one.address: "it is broken"
            for one in self.hardware
            if one.name in self.broken and one.address is not None
        }
        facts = Facts(owners=self.pods, quarantined=faults)
        return judged(self.hardware, NOTHING, facts)

    def plugins(self) -> tuple[Offer, ...]:
        claims = dict.fromkeys(self.claims, "default/c")
        left = without_claimed(self.offers(), claims)
        return tuple(one for one in left if one.name not in self.given_up)

    def slices(self) -> tuple[Body, ...]:
        if not self.publishes:
            return ()
        offers = self.offers()
        shown = published(
            [one for one in offers if one.name not in self.given_up],
            [one for one in offers if one.name in self.given_up],
            self.claims,
            self.pods,
        )
        return pool(shown, NOTHING, self.pods, full=self.full, claimed=self.claims).parts

    def happens(self, what: str, one: Offer) -> None:
        name, device = device_name(one), device_of(one)
        match what:
            case "pod":
                if any(it.name == one.name and not it.unhealthy for it in self.plugins()):
                    self.pods.setdefault(device, Owner(namespace="default", pod=f"p-{one.name}"))
            case "end":
                self.pods.pop(device, None)
            case "claim":
                scheduler = Scheduler(self.slices(), self.claims)
                if name in scheduler.devices and scheduler.give(name):
                    self.claims.add(name)
            case "free":
                self.claims.discard(name)
            case "give up":
                self.given_up ^= {one.name}
            case "break":
                self.broken ^= {one.name}
            case _:
                self.publishes = not self.publishes

    def check(self) -> None:
        claimed = [one for one in self.hardware if device_name(one) in self.claims]
        held = [one for one in self.hardware if device_of(one) in self.pods]
        for number, one in enumerate(claimed):
            for other in (*held, *claimed[:number]):
                assert one is not other
                assert not overlap(one, other), (one.name, other.name)


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["pod", "claim", "claim", "end", "free", "give up", "break", "switch"]),
        st.integers(0, 3),
    ),
    max_size=10,
)
FEW = hardware(cards=1, functions=2, groups=1, most=4).filter(bool)


PAIR = [offer(1, 1, 0), offer(1, 2, 0)]
"""Members of one IOMMU group."""
CARD = [offer(1, 0, None), offer(1, 1, None, Form.MDEV)]
"""A whole and a part of it."""


@settings(max_examples=many(600))
@example(PAIR, True, [("claim", 0), ("give up", 0), ("claim", 1)])
@example(CARD, False, [("pod", 0), ("give up", 0), ("claim", 1)])
@example(PAIR, False, [("break", 0), ("claim", 1), ("break", 0), ("claim", 0)])
@given(FEW, st.booleans(), EVENTS)
def test_a_device_is_never_with_a_pod_and_a_claim(
    devices: list[Offer], full: bool, events: list[tuple[str, int]]
) -> None:
    node = Node(devices, full=full)
    for what, index in events:
        node.happens(what, devices[index % len(devices)])
        node.check()


@given(OFFERS)
def test_until_claims_are_known_no_pod_gets_anything(devices: list[Offer]) -> None:
    left = without_claimed(devices, None)
    assert [one.id for one in left] == [one.id for one in devices]
    assert all(one.unhealthy for one in left)


def test_what_a_pod_has_under_an_earlier_name_no_claim_gets() -> None:
    """The resource of a device may be called otherwise since its pod got it."""
    one, member = offer(1, 1, 7), offer(1, 2, 7)
    owners = {("example.com/earlier", one.id): Owner(namespace="default", pod="p")}
    scheduler = Scheduler(pool([one, member], NOTHING, owners, full=True).parts)
    assert [name for name in sorted(scheduler.devices) if scheduler.give(name)] == []
