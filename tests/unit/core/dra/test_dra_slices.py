"""A pool is written as a whole, in a generation of its own, and only when it says something new."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapilite import builtin
from kapilite.builtin.filling import fill_in
from laneway.core.device_plugin.offer import Offer, Owner
from laneway.core.dra.device import DRIVER
from laneway.core.dra.slices import Pool, Stored, needs_more, pool, slice_name, trial, writing
from laneway.core.inventory import Inventory
from laneway.core.pci import PciAddress
from support.devices import function_offer

NODE = "node1"
NOTHING = Inventory()
KIND = next(kind for kind in builtin.KINDS if kind.kind == "ResourceSlice")


def offers(count: int, *, in_pairs: bool = False) -> list[Offer]:
    return [
        function_offer(
            PciAddress(0, index // 32, index % 32, 0), group=index // 2 if in_pairs else index
        )
        for index in range(count)
    ]


def of(found: list[Offer], *, held: int | None = None) -> Pool:
    owner = Owner(namespace="default", pod="vm")
    owners = {} if held is None else {(found[held].resource, found[held].id): owner}
    return pool(found, NOTHING, owners, full=True)


class Server:
    """Keeps slices as the embedded server does, or only the first so many writes."""

    def __init__(self) -> None:
        self.stored: dict[str, dict[str, Any]] = {}
        self.writes = 0

    def publish(self, wanted: Pool, *, only: int | None = None) -> None:
        known = [Stored(name, spec) for name, spec in self.stored.items()]
        change = writing(NODE, wanted, known)
        steps = [*change.write, *change.delete]
        for step in steps[:only]:
            self.writes += 1
            if isinstance(step, str):
                del self.stored[step]
                continue
            name, spec = step
            self.stored[name] = self.keep(name, spec)

    def keep(self, name: str, spec: dict[str, Any]) -> dict[str, Any]:
        obj = {"metadata": {"name": name}, "spec": copy.deepcopy(spec)}
        assert builtin.complete(KIND, obj) == []
        before = self.stored.get(name)
        old = {"metadata": {"name": name}, "spec": before} if before is not None else None
        assert builtin.problems(KIND, obj, old) == []
        fill_in(KIND, obj, old)
        return obj["spec"]  # type: ignore[no-any-return]

    def newest(self) -> list[dict[str, Any]]:
        """What a scheduler looks at."""
        specs = [spec for _, spec in sorted(self.stored.items())]
        newest = max(spec["pool"]["generation"] for spec in specs)
        return [spec for spec in specs if spec["pool"]["generation"] == newest]

    def complete(self) -> bool:
        """Whether a scheduler takes that for the whole pool."""
        return all(
            spec["pool"]["resourceSliceCount"] == len(self.newest()) for spec in self.newest()
        )


def test_what_is_published_is_not_written_again() -> None:
    server = Server()
    wanted = of(offers(5, in_pairs=True), held=1)
    server.publish(wanted)
    assert server.writes == 2
    assert {spec["pool"]["generation"] for spec in server.stored.values()} == {1}
    server.publish(wanted)
    server.publish(of(list(reversed(offers(5, in_pairs=True))), held=4 - 1))
    assert server.writes == 2, "the order of offers says nothing"


def test_a_change_of_one_device_is_a_new_generation_of_all_slices() -> None:
    server = Server()
    found = offers(70)
    server.publish(of(found))
    assert len(server.stored) == 2
    server.publish(of(found, held=3))
    assert {spec["pool"]["generation"] for spec in server.stored.values()} == {2}
    assert server.complete()


def test_devices_that_are_gone_disappear_and_slices_with_them() -> None:
    server = Server()
    server.publish(of(offers(70)))
    server.publish(of(offers(1)))
    assert list(server.stored) == [slice_name(NODE, 0)]
    assert [one["name"] for one in server.stored[slice_name(NODE, 0)]["devices"]] == [
        "pci-0000-00-00-0"
    ]
    assert server.complete()
    server.publish(of([]))
    assert "devices" not in server.stored[slice_name(NODE, 0)]


def test_a_taint_that_stays_keeps_its_time() -> None:
    server = Server()
    server.publish(of(offers(2), held=1))
    taint = server.stored[slice_name(NODE, 0)]["devices"][1]["taints"][0]
    taint["timeAdded"] = "2020-01-01T00:00:00Z"
    server.publish(of(offers(3), held=1))
    devices = server.stored[slice_name(NODE, 0)]["devices"]
    assert devices[1]["taints"][0]["timeAdded"] == "2020-01-01T00:00:00Z"
    assert "taints" not in devices[0]


def test_a_slice_that_was_edited_is_put_right() -> None:
    server = Server()
    server.publish(of(offers(2)))
    server.stored[slice_name(NODE, 0)]["devices"].pop()
    server.publish(of(offers(2)))
    assert len(server.stored[slice_name(NODE, 0)]["devices"]) == 2
    assert server.stored[slice_name(NODE, 0)]["pool"]["generation"] == 2


def test_a_server_that_keeps_no_counters_gets_one_of_each_group_and_none_in_use() -> None:
    found = offers(6, in_pairs=True)
    owners = {(found[0].resource, found[0].id): Owner(namespace="default", pod="vm")}
    plain = pool(found, NOTHING, owners, full=False)
    assert not needs_more(plain)
    names = [one["name"] for part in plain.parts for one in part["devices"]]
    assert names == ["pci-0000-00-02-0", "pci-0000-00-04-0"]
    assert needs_more(pool(found, NOTHING, {}, full=True))
    assert not needs_more(of(offers(3)))


@pytest.mark.parametrize("index", [0, 1])
def test_what_is_tried_is_what_a_real_pool_has(index: int) -> None:
    name, spec = trial(NODE)[index]
    assert Server().keep(name, spec).keys() == spec.keys()


CHANGES = st.tuples(
    st.sampled_from([0, 1, 2, 20, 64, 65]), st.booleans(), st.none() | st.integers(0, 2)
)


@given(st.lists(CHANGES, max_size=4))
def test_a_publisher_killed_at_any_write_ends_where_it_should(
    changes: list[tuple[int, bool, int | None]],
) -> None:
    """And a newest generation that is complete never says half of a change."""
    server, seen = Server(), Server()
    for count, in_pairs, killed_after in changes:
        wanted = of(offers(count, in_pairs=in_pairs))
        before = copy.deepcopy(server.stored)
        server.publish(wanted, only=killed_after)
        if server.stored != before and server.complete():
            assert [_said(spec) for spec in server.newest()] == [
                {"driver": DRIVER, "nodeName": NODE, **part} for part in wanted.parts
            ]
        server.publish(wanted)
        assert server.complete()
        seen.publish(wanted)
        assert {name: _said(spec) for name, spec in server.stored.items()} == {
            name: _said(spec) for name, spec in seen.stored.items()
        }
        writes = server.writes
        server.publish(wanted)
        assert server.writes == writes


def _said(spec: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in spec.items() if key != "pool"}
