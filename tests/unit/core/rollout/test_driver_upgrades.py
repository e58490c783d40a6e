"""Another driver comes to one node at a time, and never to two at once."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from laneway.core.rollout.drivers import LATE_SECONDS, SETTLE_SECONDS, DriverPod, Next, next_pod

OLD = DriverPod("n1", "old-1", current=False, ready=True, age=9e6, unchanged=9e6)
OLD_2 = OLD._replace(node="n2", name="old-2")
NEW = DriverPod("n1", "new-1", current=True, ready=True, age=900, unchanged=SETTLE_SECONDS)
BUILDING = NEW._replace(ready=False, unchanged=0)


def test_nothing_is_to_be_done() -> None:
    assert next_pod([], 0) == Next()
    assert next_pod([NEW, NEW._replace(node="n2")], 2) == Next()


def test_the_whole_way() -> None:
    assert next_pod([OLD_2, OLD], 2).replace == OLD

    for seen in ([OLD._replace(going=True), OLD_2], [OLD_2], [BUILDING, OLD_2]):
        found = next_pod(seen, 2)
        assert found.replace is None
        assert found.busy

    just = NEW._replace(unchanged=SETTLE_SECONDS - 1)
    assert "n1" in next_pod([just, OLD_2], 2).busy
    assert next_pod([NEW, OLD_2], 2).replace == OLD_2


def test_a_node_whose_driver_is_needed_is_passed_over() -> None:
    held = OLD._replace(held="VM default/a has devices")

    found = next_pod([held, OLD_2], 2)
    assert found.replace == OLD_2
    assert "n1 (VM default/a has devices)" in found.waits

    left = next_pod([held, NEW._replace(node="n2")], 2)
    assert left.replace is None
    assert "n1" in left.waits


def test_one_that_does_not_work_anyway_is_first() -> None:
    broken = OLD_2._replace(ready=False, unchanged=0, failed="HashMismatch: other bytes")

    assert next_pod([OLD, broken], 2).replace == broken


def test_a_failure_stops_the_others() -> None:
    back = NEW._replace(failed="BuildFailed: error: implicit declaration")

    found = next_pod([back, OLD_2], 2)
    assert found.replace is None
    assert (found.node, found.stopped) == (
        "n1",
        "Node n1: BuildFailed: error: implicit declaration",
    )

    late = next_pod([BUILDING._replace(unchanged=LATE_SECONDS), OLD_2], 2)
    assert "not ready after 45 minutes" in late.stopped


def test_a_pod_that_begins_again_after_a_reboot_is_not_late() -> None:
    assert next_pod([BUILDING._replace(age=9e6, unchanged=10)], 1).stopped == ""


def test_a_failure_of_the_pod_before_does_not_count() -> None:
    young = BUILDING._replace(age=5, failed="HashMismatch: other bytes")

    assert next_pod([young, OLD_2], 2).stopped == ""


def test_the_last_node_is_watched_as_well() -> None:
    assert next_pod([NEW._replace(failed="LoadFailed: no")], 1).stopped == "Node n1: LoadFailed: no"


@dataclass(frozen=True)
class Server:
    """The driver of a node as it really is."""

    pod: str = "old"
    """`old`, `ends`, nothing, `builds`, `new`, `failed`."""
    used: bool = False


_EVENTS = st.tuples(
    st.sampled_from(("look", "look", "look", "go on", "go on", "fail", "use", "free", "correct")),
    st.integers(0, 4),
)


@given(st.integers(2, 5), st.lists(_EVENTS, max_size=150))
def test_never_two_at_once(count: int, events: list[tuple[str, int]]) -> None:
    servers = [Server() for _ in range(count)]
    for what, which in events:
        one = which % count
        server = servers[one]
        match what, server.pod:
            case "look", _:
                found = next_pod([p for n, s in enumerate(servers) for p in _pods(n, s)], count)
                if found.replace:
                    begun = int(found.replace.node)
                    assert not servers[begun].used
                    assert not any(_is_under_way(s) for s in servers)
                    servers[begun] = replace(servers[begun], pod="ends")
            case "go on", "ends":
                servers[one] = replace(server, pod="")
            case "go on", "":
                servers[one] = replace(server, pod="builds")
            case "go on", "builds":
                servers[one] = replace(server, pod="new")
            case "fail", "builds":
                servers[one] = replace(server, pod="failed")
            case "correct", "failed":
                servers[one] = replace(server, pod="builds")
            case (("use" | "free"), "old" | "new"):
                servers[one] = replace(server, used=what == "use")


def _is_under_way(server: Server) -> bool:
    return server.pod not in ("old", "new")


def _pods(number: int, server: Server) -> list[DriverPod]:
    base = OLD._replace(node=str(number), held="a VM" if server.used else "")
    match server.pod:
        case "old":
            return [base]
        case "ends":
            return [base._replace(going=True, ready=False)]
        case "builds":
            return [base._replace(current=True, ready=False, unchanged=0, age=100)]
        case "failed":
            return [base._replace(current=True, failed="BuildFailed: no", age=100)]
        case "new":
            return [base._replace(current=True)]
        case _:
            return []
