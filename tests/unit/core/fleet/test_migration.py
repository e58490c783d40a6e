"""Between which GPUs a running VM can be moved."""

from __future__ import annotations

import msgspec
import pytest

from laneway.core.fleet.migration import Answer, Verdict, between, branch, group_of
from laneway.core.fleet.model import Gpu

GPU = Gpu(
    name="a",
    node="a",
    address="0000:08:00.0",
    device="26b9",
    subsystem="1851",
    ecc=True,
    driver="580.65.05",
)


@pytest.mark.parametrize(
    ("change", "answer", "why"),
    [
        ({"driver": "580.95.02"}, Answer.YES, ()),
        ({"device": "26b5"}, Answer.NO, ("GPU model",)),
        ({"ecc": False}, Answer.NO, ("ECC mode",)),
        ({"driver": "570.1"}, Answer.NO, ("host driver",)),
        ({"ecc": None}, Answer.UNKNOWN, ("ECC mode",)),
        ({"driver": ""}, Answer.UNKNOWN, ("host driver",)),
        ({"ecc": None, "driver": "570.1"}, Answer.NO, ("host driver",)),
    ],
)
def test_what_is_not_known_is_neither_yes_nor_no(
    change: dict[str, object], answer: Answer, why: tuple[str, ...]
) -> None:
    found = between(GPU, msgspec.structs.replace(GPU, name="b", node="b", **change))
    assert (found.answer, found.why) == (answer, why)


def test_a_group_has_a_label_only_where_all_of_it_is_known() -> None:
    assert group_of(GPU).label == "26b9-1851-ecc-580"
    assert group_of(msgspec.structs.replace(GPU, ecc=None)).label == ""
    assert branch("R580") == ""


def test_gpus_whose_models_cannot_be_read_are_not_taken_for_alike() -> None:
    gpu = msgspec.structs.replace(GPU, device="0000")
    assert between(gpu, gpu) == Verdict(Answer.UNKNOWN, ("GPU model",))
