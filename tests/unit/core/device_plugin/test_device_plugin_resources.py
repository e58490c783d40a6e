"""Under which name pods request a function, from all that decides about it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from laneway.core import names
from laneway.core.device_plugin.resources import Named, annotation_of, is_extended, resource_of
from laneway.core.pci import PciAddress
from laneway.core.refusals import ResourceNameInvalid
from support.devices import function

CARD = function(PciAddress(0, 8, 0, 0))
MODEL = names.resource_name_of(CARD)
PLAIN = Named(name="node1-000008000")
PINNED = f"{MODEL.partition('/')[0]}/node1-000008000"


def test_a_function_goes_by_its_model() -> None:
    assert resource_of(CARD, PLAIN) == MODEL
    assert annotation_of(CARD, PLAIN) == ""


def test_the_most_particular_name_counts() -> None:
    own = replace(PLAIN, annotation="acme.com/one")
    assert resource_of(CARD, own) == "acme.com/one"
    pinned = replace(own, pinned=True)
    assert resource_of(CARD, pinned) == "acme.com/node1-000008000"
    claimed = replace(pinned, claimed_as="acme.com/two")
    assert resource_of(CARD, claimed) == "acme.com/two"
    assert resource_of(CARD, replace(claimed, profile="NVIDIA A2-2Q")) == "nvidia.com/NVIDIA_A2-2Q"


def test_a_name_of_its_own_goes_with_the_claim_that_requested_it() -> None:
    pinned = replace(PLAIN, pinned=True)
    assert (resource_of(CARD, pinned), annotation_of(CARD, pinned)) == (PINNED, PINNED)
    released = replace(PLAIN, annotation=PINNED)
    assert (resource_of(CARD, released), annotation_of(CARD, released)) == (MODEL, "")


def test_the_name_of_a_vgpu_goes_with_the_vgpu_also_when_harvester_wrote_it() -> None:
    left = replace(PLAIN, carries=True, annotation="nvidia.com/NVIDIA_A2-2Q")
    assert (resource_of(CARD, left), annotation_of(CARD, left)) == (MODEL, "")


def test_what_a_person_wrote_on_a_device_stays() -> None:
    own = replace(PLAIN, annotation="acme.com/one", pinned=True)
    assert annotation_of(CARD, own) == "acme.com/one"


@pytest.mark.parametrize(
    "text",
    [
        "gpu",
        "acme.com/",
        "/gpu",
        "acme.com/a b",
        "acme.com/-gpu",
        "acme.com/" + "x" * 90,
        "Acme.com/gpu",
        "acme.com/gpu/2",
        "kubernetes.io/gpu",
        "x.kubernetes.io/gpu",
        "requests.acme.com/gpu",
        "acme.com/gpu\n",
    ],
)
def test_what_is_no_name_is_refused_and_said_where(text: str) -> None:
    refusal = resource_of(CARD, replace(PLAIN, claimed_as=text))
    assert isinstance(refusal, ResourceNameInvalid)
    assert "the claim node1-000008000" in refusal.words
    assert "\n" not in refusal.words
    of_device = resource_of(CARD, replace(PLAIN, annotation=text))
    assert isinstance(of_device, ResourceNameInvalid)
    assert "the PCIDevice node1-000008000" in of_device.words


@given(
    st.builds(
        Named,
        name=st.just("node1-000008000"),
        profile=st.text(max_size=80),
        claimed_as=st.text(max_size=80),
        pinned=st.booleans(),
        annotation=st.text(max_size=80),
        carries=st.booleans(),
    )
)
def test_every_name_is_one_that_a_kubelet_takes(named: Named) -> None:
    found = resource_of(CARD, named)
    assert isinstance(found, ResourceNameInvalid) or is_extended(found)
    written = annotation_of(CARD, named)
    assert written in ("", named.annotation) or is_extended(written)


@given(
    st.builds(
        Named,
        name=st.just("node1-000008000"),
        profile=st.sampled_from(["", "NVIDIA A2-2Q"]),
        pinned=st.booleans(),
        annotation=st.sampled_from(["", PINNED, "acme.com/one", "nvidia.com/NVIDIA_A2-4Q"]),
        carries=st.booleans(),
    )
)
def test_an_annotation_that_was_written_changes_nothing_more(named: Named) -> None:
    named = replace(named, carries=named.carries or bool(named.profile))
    written = replace(named, annotation=annotation_of(CARD, named))
    assert annotation_of(CARD, written) == written.annotation
    assert resource_of(CARD, written) == resource_of(CARD, named)
