"""A decision is one of three things."""

from __future__ import annotations

from laneway.core.decision import conclude
from laneway.core.plan import LoadModule, Plan, Satisfied
from laneway.core.refusals import DeviceNotFound, NoSriov


def test_whatever_speaks_against_it_leaves_no_plan_and_is_said_once() -> None:
    against = [NoSriov("a"), DeviceNotFound("b"), NoSriov("a")]
    assert conclude(against, [LoadModule("vfio-pci")]) == (NoSriov("a"), DeviceNotFound("b"))


def test_a_plan_without_steps_is_none() -> None:
    assert conclude((), ()) == Satisfied()
    assert conclude((), [LoadModule("vfio-pci")]) == Plan((LoadModule("vfio-pci"),))
