"""Which of several migrations of one instance goes on, whatever their controller knew of others."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from laneway.kube.kubevirt import MIGRATIONS
from laneway.kube.pods import PODS
from laneway.simcluster.kubevirt.manifest import current_pod, pod_name
from laneway.simcluster.kubevirt.migrating import Migration, handed_over, is_done, obstacle
from laneway.simcluster.kubevirt.objects import INSTANCES, Instance

POD = PODS.decode(
    b'{"metadata": {"name": "target", "uid": "p"}, "spec": {"nodeName": "n2"},'
    b' "status": {"phase": "Running"}}'
)
BUSY = "VMI is not eligible for migration because another migration job is in progress."


def migration(uid: str, phase: str = "", made: str = "2026-01-01T00:00:00Z") -> Migration:
    meta = {"name": uid, "uid": uid, "namespace": "default", "creationTimestamp": made}
    body = {"metadata": meta, "spec": {"vmiName": "vm"}, "status": {"phase": phase}}
    return MIGRATIONS.decode(msgspec.json.encode(body))


def instance(**state: Any) -> Instance:
    status = {"phase": "Running", "nodeName": "n1", "migrationState": state or None}
    meta = {"name": "vm", "uid": "u", "namespace": "default"}
    return INSTANCES.decode(msgspec.json.encode({"metadata": meta, "status": status}))


def test_of_two_that_are_new_the_older_one_goes_first() -> None:
    old, new = migration("b"), migration("a", made="2026-01-01T00:00:01Z")
    assert obstacle(old, instance(), None, [old, new]) == ""
    assert obstacle(new, instance(), None, [old, new]) == BUSY


def test_of_two_that_both_have_a_pod_the_one_that_the_instance_names_goes_on() -> None:
    """As when neither was seen by the other in time."""
    one, two = migration("one", "Scheduled"), migration("two", "Scheduled")
    assert obstacle(two, instance(), POD, [one, two]) == ""
    held = instance(migrationUid="one", sourcePod="source", targetPod="other")
    assert obstacle(one, held, POD, [one, two]) == ""
    assert obstacle(two, held, POD, [one, two]) == BUSY


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({}, "VMI's migration state was cleared during the active migration."),
        (
            {"migrationUid": "two"},
            (
                "VMI's migration state was taken over by another migration job during active "
                "migration."
            ),
        ),
        ({"migrationUid": "one", "failed": True}, "source node reported migration failed"),
        ({"migrationUid": "one"}, ""),
    ],
)
def test_one_that_was_handed_over_goes_on_only_while_the_instance_says_so(
    state: dict[str, Any], words: str
) -> None:
    assert obstacle(migration("one", "Running"), instance(**state), POD, []) == words


def test_the_instance_is_in_its_old_pod_until_it_is_said_to_have_arrived() -> None:
    before = instance()
    body: Any = handed_over(migration("one", "Scheduled"), before, POD)
    state = body["status"]["migrationState"]
    state = {name: value for name, value in state.items() if value is not None}
    assert current_pod(instance(**state)) == pod_name(before)
    there = instance(**state, completed=True)
    assert current_pod(there) == "target"
    assert is_done(migration("one", "Running"), there)
    stayed = instance(**state, completed=True, failed=True)
    assert current_pod(stayed) == pod_name(before)


def test_what_has_arrived_is_not_failed_by_what_happens_then() -> None:
    there = instance(migrationUid="one", completed=True)
    gone = msgspec.structs.replace(
        there, status=msgspec.structs.replace(there.status, phase="Succeeded")
    )
    assert obstacle(migration("one", "Running"), gone, None, []) == ""
