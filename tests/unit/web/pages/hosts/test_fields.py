"""The form of a HostPolicy gives back what it was filled with, and tells what it cannot read."""

from __future__ import annotations

import pytest

from laneway.api import (
    HostHugePages,
    HostPolicy,
    HostPolicySpec,
    HostReboot,
    HostRebootWindow,
    HostRollout,
    NodeSelector,
    ObjectMeta,
)
from laneway.web.pages.hosts.fields import Values, Window, empty, field_of, is_name, read, shown
from laneway.web.rendering import Texts

FULL = HostPolicySpec(
    node_selector=NodeSelector(match_labels={"gpu": "yes", "rack": ""}, names=["n1", "n2"]),
    iommu=True,
    iommu_passthrough=True,
    vfio_at_boot=True,
    blocked_drivers=["nouveau", "nvidiafb"],
    huge_pages=[HostHugePages(size="1G", count=16), HostHugePages(size="2M", count=512)],
    kernel_arguments=["quiet", "console=tty0,115200"],
    rollout=HostRollout(
        paused=True,
        max_unavailable="10%",
        skip_drain=True,
        stop_vms=True,
        reboot=HostReboot(
            when="InWindow",
            windows=[
                HostRebootWindow(days=["Sat", "Sun"], start="22:00", minutes=240),
                HostRebootWindow(start="01:30", minutes=60, time_zone="Europe/Berlin"),
                HostRebootWindow(days=["Mon"], start="00:00", minutes=1440),
            ],
        ),
    ),
)


def test_a_policy_that_is_opened_and_stored_is_the_same() -> None:
    values = shown(HostPolicy(metadata=ObjectMeta(name="all"), spec=FULL))
    assert read(values, Texts()) == (FULL, {})
    assert not any(values.windows[-1]), "no further window can be entered"


def test_a_new_policy_reboots_no_node_unasked() -> None:
    spec, wrong = read(empty(), Texts())
    assert not wrong
    assert spec.iommu
    assert spec.rollout.reboot.when == "OnCommand"
    assert not spec.rollout.stop_vms


@pytest.mark.parametrize(
    ("typed", "field"),
    [
        ({"labels": "gpu"}, "labels"),
        ({"labels": "=yes"}, "labels"),
        ({"labels": "gpu=yes gpu=no"}, "labels"),
        ({"pages": "1G"}, "pages"),
        ({"pages": "1G=0"}, "pages"),
        ({"pages": "3G=1"}, "pages"),
        ({"blocked": "../x"}, "blocked"),
        ({"arguments": "init=/bin/sh"}, "arguments"),
        ({"arguments": "intel_iommu=off"}, "arguments"),
        ({"max_unavailable": "some"}, "max_unavailable"),
        ({"when": "InWindow"}, "windows"),
        ({"windows": [Window(["Sat"], "", "", "")]}, "windows"),
        ({"windows": [Window((), "25:00", "60", "")]}, "windows"),
        ({"windows": [Window((), "22:00", "60", "Mars/Olympus")]}, "windows"),
    ],
)
def test_what_cannot_be_carried_out_is_told_at_its_field(
    typed: dict[str, object], field: str
) -> None:
    given: Values = empty()._replace(**typed)  # type: ignore[arg-type]
    assert list(read(given, Texts())[1]) == [field]


def test_a_refusal_of_the_server_finds_its_field() -> None:
    assert field_of("spec.rollout.reboot.windows[0].start") == "windows"
    assert field_of("spec.nodeSelector.names[1]") == "names"
    assert field_of("spec.unheard") == ""


def test_names_are_those_of_objects() -> None:
    assert is_name("gpu-nodes.example")
    for name in ("", "Gpu", "-a", "a..b", "a/b", "x" * 254):
        assert not is_name(name)
