"""What the pod of a machine requests."""

from __future__ import annotations

from laneway.core.machine_pools.compute import GIB, MIB, Overcommit, Size, overhead, requested


def test_memory_of_a_machine_with_devices_is_not_overcommitted() -> None:
    plain, with_devices = (requested(Size(4, 8 * GIB, devices=one)) for one in (False, True))
    assert plain[0] == with_devices[0] == 250  # 4 CPUs at 1600 %
    guest = 8 * GIB - 100 * MIB
    assert with_devices[1] == guest + overhead(4, guest, devices=True)
    assert plain[1] == 8 * GIB * 100 // 150 + overhead(4, guest, devices=False)


def test_settings_of_harvester_and_of_the_pool_count() -> None:
    size = Size(2, 4 * GIB, reserved=GIB, pinned=True, devices=True)
    cpu, memory = requested(size, Overcommit(100, 100))
    assert (cpu, memory) == (2000, 3 * GIB + overhead(2, 3 * GIB, devices=True))
    assert requested(Size(2, 4 * GIB), Overcommit(200, 0))[0] == 1000


def test_kubevirt_adds_a_gibibyte_for_devices() -> None:
    assert overhead(1, 0, devices=True) - overhead(1, 0, devices=False) == GIB
    assert overhead(2, 512 * MIB, devices=False) - overhead(1, 0, devices=False) == 9 * MIB
