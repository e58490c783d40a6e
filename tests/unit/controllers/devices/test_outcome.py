"""Answers in words, and what an answer that is stored proves, whichever release wrote it."""

from __future__ import annotations

import pytest

from laneway.api import Condition, ObjectMeta, VGPUDevice, VGPUDeviceStatus
from laneway.controllers.devices import gpu, mig, network, vgpu
from laneway.controllers.devices.outcome import (
    LONGEST_TEXT,
    Answers,
    answered,
    explicit,
    in_words,
)
from laneway.core.refusals import CountInvalid, GpuDisabled, GpuNotReady, ModeInvalid


def test_a_few_refusals_are_all_reported() -> None:
    refusals = tuple(CountInvalid(f"NVIDIA A2-{size}Q", 0) for size in (1, 2, 4))

    assert in_words(refusals) == " ".join(one.words for one in refusals)


def test_a_command_ends_before_the_next_refusal() -> None:
    disabled, invalid = GpuDisabled("gpu"), CountInvalid("NVIDIA A2-1Q", 0)

    text = in_words((disabled, invalid, disabled))

    assert text == f"{disabled.words}; {invalid.words} {disabled.words}"


def test_of_thousands_the_first_are_reported_and_the_others_counted() -> None:
    refusals = tuple(CountInvalid(f"NVIDIA A2-{size}Q", 0) for size in range(4000))

    text = in_words(refusals)

    assert text.startswith(refusals[0].words)
    reported = sum(one.words in text for one in refusals)
    assert reported > 10
    assert text.endswith(f" Further reasons: {4000 - reported}.")
    assert len(text) < LONGEST_TEXT + 100


def test_one_that_is_too_long_is_cut() -> None:
    text = in_words((ModeInvalid("M" * 100_000), ModeInvalid("")))

    assert len(text) < LONGEST_TEXT + 100
    assert text.endswith(" Further reasons: 1.")


def stored(reason: str, *, generation: int = 2) -> VGPUDevice:
    """An object whose first or present spec was answered so; all families carry the same."""
    said = Condition(type="Ready", status="False", reason=reason, observed_generation=2)
    status = VGPUDeviceStatus(observed_generation=2, conditions=[said])
    return VGPUDevice(metadata=ObjectMeta(generation=generation), status=status)


SETTLED = [
    (gpu.ANSWERS, ["VfsElsewhere", "ModeElsewhere", "OtherCard"]),
    (gpu.ANSWERS, ["VgpuDevicesMissing", "VgpuDevicesLeft"]),
    (vgpu.ANSWERS, ["ConfiguredElsewhere", "OtherProfileRunning", "OtherCard"]),
    (mig.ANSWERS, ["InstancesElsewhere", "OtherInstances", "OtherCard"]),
    (network.ANSWERS, ["VfsElsewhere", "OtherVfCount"]),
]
"""What release 0.1's agents answered to objects for which nothing may be taken away."""
ABSENT = [
    (gpu.ANSWERS, ["VfsElsewhere", "VgpuDevicesLeft"]),
    (vgpu.ANSWERS, ["ConfiguredElsewhere"]),
    (mig.ANSWERS, ["InstancesElsewhere"]),
    (network.ANSWERS, ["VfsElsewhere"]),
]
"""What they answered to objects that request nothing to be there."""


@pytest.mark.parametrize(("answers", "former"), SETTLED)
def test_an_upgrade_takes_nothing_away_that_the_release_before_left_alone(
    answers: Answers, former: list[str]
) -> None:
    for reason in former:
        assert not explicit(stored(reason), answers, asks=True, seen=True), reason
    assert explicit(stored("DeviceHeld"), answers, asks=True, seen=True)


@pytest.mark.parametrize(("answers", "former"), ABSENT)
def test_another_change_after_an_upgrade_does_not_either(
    answers: Answers, former: list[str]
) -> None:
    for reason in former:
        changed = stored(reason, generation=3)
        assert not explicit(changed, answers, asks=False, seen=True), reason
        assert explicit(changed, answers, asks=True, seen=True), reason


def test_what_waited_before_an_upgrade_is_no_news_after_it() -> None:
    waits = (GpuNotReady("0000:08:00.0", "its mode changes to MIG"),)
    assert answered(stored("GpuPreparing"), waits)
    assert answered(stored("GpuNotReady"), waits)
    assert not answered(stored("GpuPreparing", generation=3), waits)
