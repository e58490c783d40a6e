"""What several policies ask of one host together."""

from __future__ import annotations

import pytest

from laneway.core.preparation.merging import Asked, Contradiction, merge
from laneway.core.preparation.wanted import HugePages, Wanted


def test_policies_add_up_in_the_order_of_their_names() -> None:
    first = Asked("a", Wanted(iommu=True, blocked_drivers=("nouveau",), kernel_arguments=("x=1",)))
    second = Asked("b", Wanted(vfio_at_boot=True, blocked_drivers=("nouveau", "nvidiafb")))

    both = merge([second, first])

    assert both == merge([first, second])
    assert both == Wanted(
        iommu=True,
        vfio_at_boot=True,
        blocked_drivers=("nouveau", "nvidiafb"),
        kernel_arguments=("x=1",),
    )


def test_two_consoles_of_one_policy_are_no_contradiction() -> None:
    consoles = Wanted(kernel_arguments=("console=tty0", "console=ttyS0"))

    assert merge([Asked("a", consoles), Asked("b", consoles)]) == consoles


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        (
            Wanted(huge_pages=(HugePages("2M", 10),)),
            Wanted(huge_pages=(HugePages("2M", 20),)),
            "the number of 2M huge pages is 10 in a and 20 in b",
        ),
        (
            Wanted(kernel_arguments=("mitigations=off",)),
            Wanted(kernel_arguments=("mitigations=auto",)),
            "kernel argument mitigations is off in a and auto in b",
        ),
        (
            Wanted(kernel_arguments=("pcie-aspm=off",)),
            Wanted(kernel_arguments=("pcie_aspm=force",)),
            "kernel argument pcie_aspm is off in a and force in b",
        ),
        (Wanted(iommu=True), Wanted(kernel_arguments=("iommu=off",)), "switches off the IOMMU"),
    ],
)
def test_policies_that_cannot_both_be_met_contradict_each_other(
    first: Wanted, second: Wanted, why: str
) -> None:
    found = merge([Asked("a", first), Asked("b", second)])

    assert isinstance(found, Contradiction)
    assert found.policies == ("a", "b")
    assert why in found.why
