"""Facts as tests write them down."""

from __future__ import annotations

from typing import Any

import pytest

from laneway.core.ledger.facts import Consumer, ConsumerKind, Demand, DeviceFact, NodeFact, Phase

SMALL, LARGE = "nvidia.com/NVIDIA_A2-2Q", "nvidia.com/NVIDIA_A2-8Q"


class Write:
    """Short forms."""

    small, large = SMALL, LARGE

    @staticmethod
    def vm(name: str, namespace: str = "default") -> Consumer:
        return Consumer(ConsumerKind.VM, namespace, name)

    @staticmethod
    def pod(name: str, namespace: str = "default") -> Consumer:
        return Consumer(ConsumerKind.POD, namespace, name)

    @staticmethod
    def devices(node: str, count: int, resource: str = SMALL, **of: Any) -> list[DeviceFact]:
        """`node1-small-0`, `node1-small-1`, …; `owners` have the first of them."""
        owners = of.pop("owners", ())
        called = "small" if resource == SMALL else "large" if resource == LARGE else "other"
        return [
            DeviceFact(
                node,
                resource,
                f"{node}-{called}-{number}",
                owner=owners[number] if number < len(owners) else None,
                **of,
            )
            for number in range(count)
        ]

    def running(self, name: str, node: str, count: int = 1, resource: str = SMALL) -> Demand:
        return Demand(self.vm(name), Phase.RUNNING, {resource: count}, node=node)

    def pending(self, name: str, requests: dict[str, int] | None = None, **more: Any) -> Demand:
        return Demand(self.vm(name), Phase.PENDING, requests or {SMALL: 1}, **more)

    def stopped(self, name: str, requests: dict[str, int] | None = None, **more: Any) -> Demand:
        return Demand(self.vm(name), Phase.STOPPED, requests or {SMALL: 1}, **more)

    @staticmethod
    def nodes(*names: str, **closed: str) -> tuple[NodeFact, ...]:
        """Open nodes by name, and closed ones with the reason."""
        label = "kubernetes.io/hostname"
        return (
            *(NodeFact(name, {label: name}) for name in names),
            *(NodeFact(name, {label: name}, why) for name, why in closed.items()),
        )


@pytest.fixture
def write() -> Write:
    return Write()
