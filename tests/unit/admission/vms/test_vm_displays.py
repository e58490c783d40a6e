"""Which of several vGPUs gets the display of a VM."""

from __future__ import annotations

from typing import Any

import pytest

GPU = "nvidia.com/GA100_A100"
VGPU = "nvidia.com/NVIDIA_A2-2Q"
ADDRESS = "0000:08:00.{}"


def mediated(cluster: Any, *options: dict[str, Any] | None) -> dict[str, Any]:
    entries = []
    for number, said in enumerate(options):
        name = cluster.vgpu("n1", ADDRESS.format(number), framework="mdev")
        entry: dict[str, Any] = {"name": name, "deviceName": VGPU}
        if said is not None:
            entry["virtualGPUOptions"] = said
        entries.append(entry)
    raw: dict[str, Any] = cluster.vm(gpus=entries)
    return raw


def shown(cluster: Any, raw: dict[str, Any]) -> list[Any]:
    after = cluster.mutated(raw)
    assert cluster.judge(after).allowed
    return [
        one.get("virtualGPUOptions", {}).get("display") for one in cluster.devices(after, "gpus")
    ]


def test_of_several_mediated_vgpus_the_first_has_the_display(cluster: Any) -> None:
    raw = mediated(cluster, None, None, {})
    assert shown(cluster, raw) == [
        {"enabled": True, "ramFB": {"enabled": True}},
        {"enabled": False},
        {"enabled": False},
    ]


def test_with_one_there_is_nothing_to_choose(cluster: Any) -> None:
    assert shown(cluster, mediated(cluster, None)) == [None]


def test_a_decision_about_one_display_counts(cluster: Any) -> None:
    raw = mediated(cluster, None, {"display": {}})
    assert shown(cluster, raw) == [{"enabled": False}, {}]


@pytest.mark.parametrize("off", [{"enabled": False}, {"ramFB": {"enabled": False}}])
def test_switching_off_leaves_the_display_to_the_others(cluster: Any, off: dict[str, Any]) -> None:
    on = {"enabled": True, "ramFB": {"enabled": True}}
    assert shown(cluster, mediated(cluster, None, {"display": off})) == [on, off]
    assert shown(cluster, mediated(cluster, {"display": off}, None)) == [off, on]


def test_who_wants_no_display_says_so_of_all(cluster: Any) -> None:
    off = {"display": {"enabled": False}}
    assert shown(cluster, mediated(cluster, off, off)) == [{"enabled": False}] * 2


def test_another_gpu_that_speaks_of_displays_takes_none_away(cluster: Any) -> None:
    """KubeVirt gives no display by itself once any entry of gpus says something."""
    raw = mediated(cluster, None)
    gpu = cluster.pci("n1", "0000:0a:00.0", GPU)
    off = {"virtualGPUOptions": {"display": {"enabled": False}}}
    cluster.devices(raw, "gpus").append({**cluster.entry(gpu), **off})
    assert shown(cluster, raw)[0] == {"enabled": True, "ramFB": {"enabled": True}}
