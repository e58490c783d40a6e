"""The strings in which Rancher keeps the devices of a pool's machines."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.machine_pools.device_info import (
    HOST_DEVICES,
    VGPUS,
    DeviceInfoError,
    Form,
    changed,
    read,
    write,
)

A2, L4 = "nvidia.com/NVIDIA_A2-4Q", "nvidia.com/AD104GL_L4"


@pytest.mark.parametrize("name", ["node1-000008004", "", "provisioned", None])
def test_every_client_is_understood(name: str | None) -> None:
    entry = {"deviceName": A2} if name is None else {"name": name, "deviceName": A2}
    info = read(VGPUS, json.dumps({"vGPURequests": [entry, entry]}))
    assert info.counts == {A2: 2}
    assert write(VGPUS, info) == (
        '{"vGPURequests":[{"name":"vgpu-0","deviceName":"nvidia.com/NVIDIA_A2-4Q"},'
        '{"name":"vgpu-1","deviceName":"nvidia.com/NVIDIA_A2-4Q"}]}'
    )


@pytest.mark.parametrize("text", ["", " ", '{"vGPURequests":[]}', '{"vGPURequests":null}', "{}"])
def test_no_devices(text: str) -> None:
    """R10: an empty string made a parser throw."""
    assert write(VGPUS, read(VGPUS, text)) == ""


def test_a_count_stands_for_so_many_entries() -> None:
    info = read(HOST_DEVICES, f'{{"hostDevices":[{{"deviceName":"{L4}","count":2}}]}}')
    assert [one["name"] for one in json.loads(write(HOST_DEVICES, info))["hostDevices"]] == [
        "device-0",
        "device-1",
    ]


def test_what_others_wrote_stays_with_its_entry() -> None:
    text = f'{{"v":2,"vGPURequests":[{{"deviceName":"{A2}","a":1}},{{"deviceName":"{L4}","b":2}}]}}'
    after = changed(read(VGPUS, text), {L4: 2})
    assert json.loads(write(VGPUS, after)) == {
        "v": 2,
        "vGPURequests": [
            {"name": "vgpu-0", "deviceName": L4, "b": 2},
            {"name": "vgpu-1", "deviceName": L4},
        ],
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "vgpuInfo is not JSON: "),
        ("[" * 100_000, "longer than"),
        ("[" * 9_000, "vgpuInfo is not JSON: "),
        ("[]", "not a JSON object with a list vGPURequests"),
        ('{"vGPURequests":{}}', "vGPURequests is not a list"),
        ('{"vGPURequests":[3]}', "entry 1 is not a JSON object"),
        (f'{{"vGPURequests":[{{"deviceName":"{A2}"}},{{}}]}}', "entry 2 has no deviceName"),
        ('{"vGPURequests":[{"deviceName":"A2 4Q"}]}', "deviceName 'A2 4Q' is not the name of a"),
        (f'{{"vGPURequests":[{{"deviceName":"{A2}","name":3}}]}}', "name is not a string"),
        (f'{{"vGPURequests":[{{"deviceName":"{A2}","count":0}}]}}', "count '0' is not a number"),
        (f'{{"vGPURequests":[{{"deviceName":"{A2}","count":10000}}]}}', "count '10000' is not"),
        (f'{{"vGPURequests":[{{"deviceName":"{A2}","count":true}}]}}', "count 'True' is not"),
        (json.dumps({"vGPURequests": [{"deviceName": A2}] * 65}), "65 devices for each machine"),
    ],
)
def test_a_mistake_is_named(text: str, words: str) -> None:
    with pytest.raises(DeviceInfoError) as caught:
        read(VGPUS, text)
    assert words in str(caught.value)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["vGPURequests", "deviceName", "name", "count", "x"]), inner, max_size=4
        )
    ),
)


@given(st.sampled_from([VGPUS, HOST_DEVICES]), st.text() | values.map(json.dumps))
def test_whatever_is_there_is_read_or_refused_in_words(form: Form, text: str) -> None:
    info = refused = None
    try:
        info = read(form, text)
    except DeviceInfoError as error:
        refused = str(error)
    assert refused is None or refused.startswith(form.field)
    assert info is None or read(form, write(form, info)) == info
