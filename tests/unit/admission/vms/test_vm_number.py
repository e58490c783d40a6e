"""More devices than anybody needs are refused before anything is judged."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from laneway.admission.vms.number import LIMIT, refused


def instance(count: int, **more: Any) -> dict[str, Any]:
    half = count // 2
    entries: list[Any] = [{"name": f"d{n}", "deviceName": "x"} for n in range(count)]
    return {"domain": {"devices": {"hostDevices": entries[:half], "gpus": entries[half:]}}, **more}


def vm(count: int, **more: Any) -> dict[str, Any]:
    return {"template": {"spec": instance(count)}, **more}


SPECS = [instance, vm, lambda count: {"virtualMachineTemplate": {"spec": vm(count)}}]


def raw(spec: Any, **metadata: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode({"metadata": metadata, "spec": spec}))


@pytest.mark.parametrize("spec", SPECS)
def test_the_limit_holds_wherever_a_kind_has_its_devices(spec: Any) -> None:
    assert refused(raw(spec(LIMIT)), None) is None
    refusal = refused(raw(spec(LIMIT + 1)), None)
    assert refusal is not None
    assert "has 65 entries in hostDevices and gpus; at most 64 are accepted" in refusal.words


def test_what_has_too_many_may_be_kept_deleted_and_mended_but_not_changed() -> None:
    old = raw(vm(LIMIT + 9))
    assert refused(raw(vm(LIMIT + 9), labels={"a": "b"}), old) is None
    assert refused(raw(vm(LIMIT + 9, running=True), deletionTimestamp="now"), old) is None
    assert refused(raw(vm(LIMIT)), old) is None
    assert refused(raw(vm(LIMIT + 9, running=True)), old) is not None


@pytest.mark.parametrize("spec", [None, {}, {"template": None}, {"domain": {"devices": None}}, 7])
def test_what_names_no_devices_is_left_to_the_rules(spec: Any) -> None:
    assert refused(raw(spec), None) is None


def test_entries_that_cannot_be_read_count() -> None:
    entries = [None] * (LIMIT + 1)
    assert refused(raw({"domain": {"devices": {"gpus": entries}}}), None) is not None
