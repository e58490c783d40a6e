"""The GPU instances that a MigConfiguration is to have."""

from __future__ import annotations

from laneway.api import MigConfiguration, MigConfigurationStatus, MigProfileStatus
from laneway.changes.instances import fields

MIG = MigConfiguration(
    status=MigConfigurationStatus(
        profile_status=[
            MigProfileStatus(name="MIG 1g.10gb", id=19),
            MigProfileStatus(name="MIG 3g.40gb", id=9),
        ]
    )
)


def test_instances_are_requested_by_the_ids_of_the_driver() -> None:
    assert fields(MIG, {"3g.40gb": 2}) == {
        "enabled": True,
        "profileSpec": [{"name": "MIG 3g.40gb", "id": 9, "requested": 2}],
    }


def test_without_instances_the_configuration_is_not_enabled() -> None:
    assert fields(MIG, None) == {"enabled": False}
