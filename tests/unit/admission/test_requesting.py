"""Which user is noted on a desired state, whatever the client wrote about that."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from laneway.admission import review
from laneway.admission.kinds import KINDS
from laneway.admission.requesting import noting
from laneway.admission.world import World
from laneway.core import keys
from laneway.core.requested import RequestedBy, read
from support.reviewing import GROUP
from support.reviewing import review as question

NOTE = keys.ANNOTATION_REQUESTED_BY
NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
AGENT = "system:serviceaccount:harvester-system:laneway-agent"
EARLIER = '{"user":"carol","time":"2029-01-01T00:00:00Z"}'


def vgpu(enabled: bool = False, **annotations: str) -> dict[str, Any]:
    named = {key.replace("_", "-"): value for key, value in annotations.items()}
    metadata = {"name": "node1-000008004"} | ({"annotations": named} if named else {})
    return {"metadata": metadata, "spec": {"enabled": enabled}}


def noted(enabled: bool, note: str = EARLIER) -> dict[str, Any]:
    return vgpu(enabled) | {"metadata": {"annotations": {NOTE: note}}}


def after(new: dict[str, Any], old: dict[str, Any] | None, user: str = "anna") -> dict[str, Any]:
    """The object as it is stored."""
    whole = question("vgpudevices", "UPDATE" if old else "CREATE", new, old, group=GROUP)
    whole["request"]["userInfo"]["username"] = user
    asked = review.read(msgspec.json.encode(whole))
    world = World(trusted=frozenset({AGENT}))
    stored = json.loads(json.dumps(new))
    for one in noting(clock=lambda: NOW)(asked, world).operations:
        *parents, key = (
            part.replace("~1", "/").replace("~0", "~") for part in one["path"].split("/")[1:]
        )
        at = stored
        for part in parents:
            at = at[part]
        if one["op"] == "remove":
            del at[key]
        else:
            at[key] = one["value"]
    return stored


def requested(stored: dict[str, Any]) -> RequestedBy:
    return read(stored["metadata"].get("annotations", {}))


ANNA = RequestedBy("anna", "2030-01-02T03:04:05Z")


@pytest.mark.parametrize("old", [None, vgpu(), noted(False)])
@pytest.mark.parametrize("said", [vgpu(True), noted(True), noted(True, "nonsense")])
def test_who_changes_a_desired_state_is_noted_whatever_the_client_says(
    said: dict[str, Any], old: dict[str, Any] | None
) -> None:
    assert requested(after(said, old)) == ANNA


@pytest.mark.parametrize("said", [vgpu(), noted(False, "nonsense"), noted(False, EARLIER[:-1])])
def test_a_note_that_is_changed_alone_is_put_back(said: dict[str, Any]) -> None:
    assert after(said, noted(False))["metadata"]["annotations"][NOTE] == EARLIER
    assert NOTE not in after(said, vgpu())["metadata"].get("annotations", {})


def test_what_changes_nothing_that_is_requested_changes_no_note() -> None:
    new = noted(True)
    new["metadata"]["labels"] = {"a": "b"}
    assert after(new, noted(True)) == new


@pytest.mark.parametrize("key", [keys.ANNOTATION_SKIP_MIG, keys.ANNOTATION_SKIP_BINDING])
def test_annotations_that_decide_about_hardware_are_requested_as_well(key: str) -> None:
    new = noted(True)
    new["metadata"]["annotations"][key] = "true"
    assert requested(after(new, noted(True))) == ANNA


@pytest.mark.parametrize("new", [noted(True), vgpu(True)])
def test_what_laneways_own_accounts_write_is_stored_as_they_write_it(new: dict[str, Any]) -> None:
    assert after(new, noted(False), AGENT) == new


def test_a_name_neither_breaks_a_line_nor_is_endless() -> None:
    found = requested(after(vgpu(True), vgpu(), "an\n\u202ena" + 999 * "x")).user
    assert found.isprintable()
    assert len(found) == 256
    assert NOTE not in after(vgpu(True), vgpu(), "")["metadata"].get("annotations", {})


def test_every_kind_that_leads_to_writes_is_noted() -> None:
    assert {
        plural for (group, plural), kind in KINDS.items() if group == GROUP and kind.mutate
    } == {
        "hostpolicies",
        "migconfigurations",
        "pcideviceclaims",
        "sriovgpudevices",
        "sriovnetworkdevices",
        "usbdeviceclaims",
        "vgpudevices",
        "vgpulayouts",
    }
