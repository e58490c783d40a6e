"""Whatever happens in whatever order: few nodes are away, and no VM with a device is stopped."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from laneway.core.rollout.node import (
    REBOOT_SECONDS,
    Node,
    Rollout,
    Stage,
    Vm,
    is_away,
    next_step,
)
from laneway.core.rollout.terms import Terms

EVENTS = st.tuples(
    st.sampled_from(("look", "look", "look", "boot", "vm", "end", "fail", "cordon", "late")),
    st.integers(0, 5),
)


@dataclass
class Server:
    """A node as it really is."""

    name: str
    boot: int = 1
    new: bool = False
    """Whether it runs what was staged."""
    ready: bool = True
    cordoned: bool = False
    going_down: bool = False
    vms: list[str] = field(default_factory=list)
    rollout: Rollout = field(default_factory=Rollout)

    def seen(self) -> Node:
        return Node(
            self.name,
            ready=self.ready,
            cordoned=self.cordoned,
            agent=Stage.READY if self.new else Stage.STAGED,
            boot=f"b{self.boot}",
            vms=tuple(Vm(name, "holds devices") for name in self.vms),
        )


@given(st.integers(1, 3), st.integers(2, 6), st.lists(EVENTS, max_size=120))
def test_never_more_nodes_are_away_than_the_policy_allows(
    budget: int, count: int, events: list[tuple[str, int]]
) -> None:
    servers = [Server(f"n{number}") for number in range(count)]
    now = 0.0
    for what, which in events:
        server = servers[which % count]
        match what:
            case "look":
                _look(server, servers, budget, now)
            case "boot" if server.going_down:
                server.boot, server.new, server.ready, server.going_down = (
                    server.boot + 1,
                    True,
                    True,
                    False,
                )
            case "vm" if server.ready and not server.cordoned:
                server.vms.append(f"vm{len(server.vms)}")
            case "end" if server.vms:
                server.vms.pop()
            case "fail":
                server.ready = False
            case "cordon":
                server.cordoned = True
            case "late":
                now += REBOOT_SECONDS / 2
    assert all(server.boot <= 2 for server in servers)  # none is rebooted twice


def _look(server: Server, servers: list[Server], budget: int, now: float) -> None:
    """What the manager does when it looks at a node; it may be another one every time."""
    others = [one for one in servers if one is not server]
    away = [one.name for one in others if is_away(one.seen(), one.rollout.stage)]
    failed = [one.name for one in others if one.rollout.stage is Stage.FAILED]
    terms = Terms("p", when="WhenFree", budget=budget, away=len(away), failed="".join(failed[:1]))
    before = server.rollout.stage
    step = next_step(server.seen(), server.rollout, [terms], now)
    if step.rollout.stage is Stage.DRAINING is not before:
        assert len(away) < budget
        assert not failed
    if step.rollout.stage is Stage.REBOOTING is not before:
        assert not server.vms
        assert server.cordoned
        assert len(away) < budget
        server.going_down, server.ready = True, False
    server.rollout = step.rollout
    if step.cordon is not None:
        server.cordoned = step.cordon


@given(st.permutations(range(4)))
def test_every_node_of_a_quiet_cluster_gets_its_reboot(order: list[int]) -> None:
    servers = [Server(f"n{number}") for number in range(4)]
    for _ in range(40):
        for number in order:
            _look(servers[number], servers, 1, 0.0)
            server = servers[number]
            if server.going_down:
                server.boot, server.new, server.ready, server.going_down = 2, True, True, False

    assert all(server.new and not server.cordoned for server in servers)
    assert all(server.rollout == Rollout() for server in servers)
