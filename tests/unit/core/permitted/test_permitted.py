"""KubeVirt's lists: ours is a set, what is others' stays as it is, and nothing is written twice."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core import permitted
from laneway.core.permitted import Entry, Key, List, Way, merge

L4 = Entry(List.PCI, "nvidia.com/AD104GL_L4", "10de:27b8")
A2 = Entry(List.PCI, "nvidia.com/GA107GL_A2", "10de:25b6")
TWIN = Entry(List.PCI, "nvidia.com/GA107GL_A2", "10de:25b7")
MDEV = Entry(List.MDEV, "nvidia.com/NVIDIA_A2-2Q", "NVIDIA A2-2Q")
STICK = Entry(List.USB, "kubevirt.io/node1-046d-c52b-003011", "046d:c52b")
OURS = [L4, A2, TWIN, MDEV, STICK]

THEIRS: dict[List, list[Any]] = {
    List.PCI: [
        {"pciVendorSelector": "8086:1572", "resourceName": "intel.com/X710"},
        {
            "pciVendorSelector": "15B3:1017",
            "resourceName": "mellanox.com/CX5",
            "externalResourceProvider": True,
            "note": "of a field that nobody knows",
        },
    ],
    List.MDEV: [{"mdevNameSelector": "GRID T4-1Q", "resourceName": "nvidia.com/GRID_T4-1Q"}],
    List.USB: [
        {
            "resourceName": "kubevirt.io/storage",
            "selectors": [
                {"vendor": "0951", "product": "1666"},
                {"vendor": "46f4", "product": "1"},
            ],
        }
    ],
}


def _pci(item: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {**item, **changes}


def _keys(lists: permitted.Lists) -> list[Key | None]:
    return [permitted.key_of_item(name, item) for name in List for item in lists.get(name, ())]


def test_an_entry_is_written_as_harvester_writes_it() -> None:
    lists, _ = merge({}, {}, OURS)
    assert lists[List.PCI] == [
        {
            "pciVendorSelector": "10de:27b8",
            "resourceName": "nvidia.com/AD104GL_L4",
            "externalResourceProvider": True,
        },
        {
            "pciVendorSelector": "10de:25b6",
            "resourceName": "nvidia.com/GA107GL_A2",
            "externalResourceProvider": True,
        },
        {
            "pciVendorSelector": "10de:25b7",
            "resourceName": "nvidia.com/GA107GL_A2",
            "externalResourceProvider": True,
        },
    ]
    assert lists[List.MDEV] == [
        {
            "mdevNameSelector": "NVIDIA A2-2Q",
            "resourceName": "nvidia.com/NVIDIA_A2-2Q",
            "externalResourceProvider": True,
        }
    ]
    assert lists[List.USB] == [
        {
            "selectors": [{"vendor": "046d", "product": "c52b"}],
            "resourceName": "kubevirt.io/node1-046d-c52b-003011",
            "externalResourceProvider": True,
        }
    ]


def test_what_was_ours_goes_and_nothing_else_does() -> None:
    lists, record = merge(THEIRS, {}, OURS)
    lists, record = merge(lists, record, [A2])
    assert [key for key in _keys(lists) if key in map(permitted.key_of, OURS)] == [
        permitted.key_of(A2)
    ]
    assert merge(lists, record, []) == (THEIRS, {})


@pytest.mark.parametrize(
    ("entry", "name", "item"),
    [
        (A2, List.PCI, {"pciVendorSelector": "10DE:25B6", "resourceName": A2.resource}),
        (MDEV, List.MDEV, {"mdevNameSelector": "NVIDIA_A2-2Q", "resourceName": MDEV.resource}),
        (
            STICK,
            List.USB,
            {
                "selectors": [{"vendor": "46D", "product": "0C52b"}],
                "resourceName": STICK.resource,
            },
        ),
    ],
)
def test_an_equal_entry_of_another_is_enough_and_stays_its_own(
    entry: Entry, name: List, item: dict[str, Any]
) -> None:
    external = _pci(item, externalResourceProvider=True)
    lists, record = merge({name: [external]}, {}, [entry])
    assert (lists[name], record) == ([external], {})
    assert merge(lists, record, []).lists[name] == [external]


def test_an_entry_that_kubevirt_serves_is_ours_for_as_long_as_we_need_it() -> None:
    theirs = {"pciVendorSelector": "10DE:25B6", "resourceName": A2.resource}
    lists, record = merge({List.PCI: [theirs]}, {}, [A2])
    assert lists[List.PCI] == [_pci(theirs, externalResourceProvider=True)]
    lists, record = merge(lists, permitted.read_record(permitted.record_text(record)), [])
    assert lists[List.PCI] == [_pci(theirs, externalResourceProvider=False)]
    assert record == {}


def test_an_own_entry_that_a_hand_made_kubevirts_is_made_external_again() -> None:
    lists, record = merge({}, {}, [A2])
    lists[List.PCI][0].pop("externalResourceProvider")
    mended = merge(lists, record, [A2])
    assert mended.lists[List.PCI][0]["externalResourceProvider"] is True
    assert merge(*mended, []).lists[List.PCI] == [], "it never was anybody else's"


def test_an_entry_that_a_hand_made_kubevirts_stays_when_we_need_it_no_more() -> None:
    lists, record = merge({}, {}, [A2])
    own = lists[List.PCI][0] | {"externalResourceProvider": False}
    after = merge({List.PCI: [own]}, record, [])
    assert (after.lists[List.PCI], after.record) == ([own], {})


def test_copies_of_an_own_entry_become_one() -> None:
    lists, record = merge({}, {}, [A2, L4])
    item = lists[List.PCI][0]
    lists[List.PCI] = [item, *lists[List.PCI], item]
    assert [key.resource for key in _keys(merge(lists, record, [A2, L4]).lists) if key] == [
        L4.resource,
        A2.resource,
    ]


def test_a_list_whose_devices_are_not_all_known_stays() -> None:
    lists, record = merge(THEIRS, {}, OURS)
    assert merge(lists, record, [], known=[]) == (lists, record)
    after = merge(lists, record, [], known=[List.MDEV])
    assert after.lists[List.PCI] == lists[List.PCI]
    assert after.lists[List.MDEV] == THEIRS[List.MDEV]
    assert {key.list for key in after.record} == {List.PCI, List.USB}


@pytest.mark.parametrize(
    "item",
    [
        None,
        7,
        "text",
        [],
        {},
        {"resourceName": 3, "pciVendorSelector": "10de:25b6"},
        {"resourceName": "nvidia.com/GA107GL_A2"},
        {"resourceName": "nvidia.com/GA107GL_A2", "pciVendorSelector": ["10de:25b6"]},
        {"resourceName": "x", "selectors": "046d"},
        {"resourceName": "x", "selectors": [None, {"vendor": "0x46d", "product": "1"}]},
        {"resourceName": "x", "selectors": [{"vendor": "1", "product": "²"}]},
    ],
)
def test_what_is_not_understood_stays_where_it_is(item: Any) -> None:
    present = {name: [item] for name in List}
    lists, record = merge(present, {}, OURS)
    assert all(lists[name][0] == item for name in List)
    assert merge(lists, record, []).lists == present


@pytest.mark.parametrize("text", ["[", "[]", '{"usb":{"a":"b"}}', '{"usb":{"a":[1]}}', "ÿ"])
def test_a_spoilt_record_is_reported(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        permitted.read_record(text)


@pytest.mark.parametrize(
    ("vendor", "device"), [("", "25b6"), ("10de", ""), ("10dg", "25b6"), ("10de", "25b6f")]
)
def test_nothing_is_permitted_by_ids_that_are_none(vendor: str, device: str) -> None:
    assert permitted.pci(vendor, device, "a/b") is None
    assert permitted.usb(vendor, device, "a/b") is None


def test_nothing_is_permitted_without_a_name() -> None:
    assert permitted.pci("10de", "25b6", "") is None
    assert permitted.mdev("NVIDIA A2-2Q", "") is None
    assert permitted.mdev(" ", "a/b") is None


def test_a_selector_is_in_lower_case() -> None:
    assert permitted.pci("10DE", "25B6", A2.resource) == A2


@pytest.mark.parametrize(
    ("way", "needed"),
    [
        (Way(bound=False, advertised=False, leaving=False), False),
        (Way(bound=True, advertised=False, leaving=False), True),
        (Way(bound=True, advertised=True, leaving=False), True),
        (Way(bound=True, advertised=True, leaving=True), True),
        (Way(bound=True, advertised=False, leaving=True), False),
        (Way(bound=False, advertised=True, leaving=True), True),
    ],
)
def test_an_entry_comes_after_the_hardware_and_goes_after_the_kubelet(
    way: Way, needed: bool
) -> None:
    assert permitted.needed(way) is needed


def test_a_name_of_several_devices_is_reported() -> None:
    merged = merge(THEIRS, {}, OURS)
    (found,) = permitted.collisions(merged, OURS)
    assert (found.resource, found.selectors) == (A2.resource, ("10de:25b6", "10de:25b7"))
    assert "disableResourcePooling" in found.words


def test_a_name_that_kubevirt_advertises_too_is_reported() -> None:
    theirs = {"pciVendorSelector": "10DE:20F1", "resourceName": A2.resource}
    merged = merge({List.PCI: [theirs]}, {}, [A2])
    assert merged.lists[List.PCI][0] == theirs
    (found,) = permitted.collisions(merged, [A2])
    assert found.internal == ("10de:20f1",)
    assert "KubeVirt itself" in found.words


def test_names_of_others_are_none_of_our_business() -> None:
    theirs = [
        {"pciVendorSelector": f"8086:157{n}", "resourceName": "intel.com/X710"} for n in range(3)
    ]
    assert permitted.collisions(merge({List.PCI: theirs}, {}, [A2]), [A2]) == []


# ---- laws ----

_hex = st.text("0123456789abcdefABCDEF", min_size=4, max_size=4)
_entries = st.one_of(
    st.builds(permitted.pci, _hex, _hex, st.sampled_from(["a/b", "a/c"])),
    st.builds(permitted.usb, _hex, _hex, st.sampled_from(["k/1", "k/2"])),
    st.builds(
        permitted.mdev, st.sampled_from(["A 1", "A_1", "B"]), st.sampled_from(["n/1", "n/2"])
    ),
    st.sampled_from(OURS),
).filter(bool)
_wanted = st.sets(_entries, max_size=6)


def _entry_sets(lists: permitted.Lists) -> set[Key]:
    return {key for key in _keys(lists) if key}


@given(st.lists(_wanted, min_size=1, max_size=5))
def test_whatever_was_wanted_before_the_end_is_what_is_wanted_now(
    history: list[set[Entry]],
) -> None:
    lists: permitted.Lists = THEIRS
    record: permitted.Record = {}
    for wanted in history:
        lists, record = merge(lists, permitted.read_record(permitted.record_text(record)), wanted)
        assert merge(lists, record, wanted) == (lists, record), "nothing is written at rest"
    assert _entry_sets(lists) - _entry_sets(THEIRS) == set(map(permitted.key_of, history[-1]))
    assert set(record) == set(map(permitted.key_of, history[-1]))
    for name in List:
        theirs = [item for item in lists[name] if item in THEIRS[name]]
        assert theirs == THEIRS[name], "in their order"


_Edit = tuple[str, int, int]
_edits = st.tuples(
    st.sampled_from(["remove", "copy", "internal", "external", "move", "shout"]),
    st.integers(0, 2),
    st.integers(0, 20),
)


def _edited(lists: permitted.Lists, edit: _Edit) -> permitted.Lists:
    """What a hand does to one of our entries."""
    what, which, where = edit
    name = list(List)[which]
    items = [*lists[name]]
    mine = [place for place, item in enumerate(items) if item not in THEIRS[name]]
    if not mine:
        return lists
    place = mine[where % len(mine)]
    item = items[place]
    match what:
        case "remove":
            del items[place]
        case "copy":
            items.insert(where % (len(items) + 1), dict(item))
        case "internal":
            items[place] = {**item, "externalResourceProvider": False}
        case "external":
            items[place] = {**item, "externalResourceProvider": True}
        case "move":
            items.append(items.pop(place))
        case "shout":
            if "pciVendorSelector" in item:
                items[place] = {**item, "pciVendorSelector": item["pciVendorSelector"].upper()}
    return {**lists, name: items}


@given(st.lists(st.tuples(_wanted, st.lists(_edits, max_size=4)), min_size=1, max_size=4), _wanted)
def test_hands_between_the_reconciles_change_nothing_in_the_end(
    history: list[tuple[set[Entry], list[_Edit]]], last: set[Entry]
) -> None:
    lists: permitted.Lists = THEIRS
    record: permitted.Record = {}
    for wanted, edits in history:
        lists, record = merge(lists, record, wanted)
        for edit in edits:
            lists = _edited(lists, edit)
        lists, record = merge(lists, record, wanted)
    lists, record = merge(lists, record, last)
    assert _entry_sets(lists) - _entry_sets(THEIRS) == set(map(permitted.key_of, last))
    for name in List:
        ours = [item for item in lists[name] if item not in THEIRS[name]]
        assert all(item["externalResourceProvider"] is True for item in ours)
        assert len(ours) == len({permitted.key_of_item(name, item) for item in ours}), (
            "no entry twice"
        )
        assert [item for item in lists[name] if item in THEIRS[name]] == THEIRS[name]
    assert merge(lists, record, []) == (THEIRS, {})


@given(_wanted, _wanted, st.permutations([0, 1, 2]))
def test_the_order_of_reconciles_does_not_matter(
    first: set[Entry], second: set[Entry], order: list[int]
) -> None:
    steps = [first, second, first | second]

    def after(sequence: list[int]) -> set[Key]:
        lists: permitted.Lists = THEIRS
        record: permitted.Record = {}
        for step in sequence:
            lists, record = merge(lists, record, steps[step])
        return _entry_sets(merge(lists, record, steps[0]).lists)

    assert after(order) == after([0, 1, 2])


_junk: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["resourceName", "selectors", "pciVendorSelector", "mdevNameSelector", "vendor"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@given(st.lists(_junk, max_size=4), _wanted)
def test_hostile_items_are_carried_along(junk: list[Any], wanted: set[Entry]) -> None:
    present = dict.fromkeys(List, junk)
    merged = merge(present, {}, wanted)
    permitted.collisions(merged, wanted)
    assert merge(*merged, wanted) == merged
    assert merge(*merged, []).lists == present


@given(st.text(max_size=40))
def test_any_text_is_a_record_or_a_value_error(text: str) -> None:
    try:
        permitted.read_record(text)
    except ValueError:
        return


@given(st.dictionaries(_entries.map(permitted.key_of), st.booleans(), max_size=8))
def test_a_record_reads_back(record: dict[Key, bool]) -> None:
    assert permitted.read_record(permitted.record_text(record)) == record
