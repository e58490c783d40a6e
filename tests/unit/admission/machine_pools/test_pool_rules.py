"""Whatever is asked about machine pools gets an answer, and what is being written counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from laneway.admission.access import AccessReviews
from laneway.admission.judging import Judging
from laneway.admission.machine_pools.harvesters import FollowedHarvesters
from laneway.admission.machine_pools.kinds import PoolRules
from laneway.admission.machine_pools.managed import HOLD_SECONDS, ManagedSource
from laneway.admission.machine_pools.metrics import PoolMetrics
from laneway.admission.metrics import AdmissionMetrics, Outcome
from laneway.admission.review import read
from laneway.admission.world import World
from laneway.api import decode
from laneway.kube.client import Client
from laneway.kube.rancher import CONFIG_GROUP, GROUP, GuestCluster
from support.reviewing import SILENT, review

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
POOLS = st.fixed_dictionaries(
    {},
    optional={
        "name": ANYTHING,
        "quantity": ANYTHING,
        "rollingUpdate": ANYTHING | st.fixed_dictionaries({"maxSurge": ANYTHING}),
        "machineConfigRef": ANYTHING | st.just({"kind": "HarvesterConfig", "name": "nc"}),
    },
)
CLUSTERS = ANYTHING | st.fixed_dictionaries(
    {
        "metadata": st.just({"name": "guest", "namespace": "fleet"}),
        "spec": ANYTHING
        | st.fixed_dictionaries(
            {"rkeConfig": ANYTHING | st.fixed_dictionaries({"machinePools": st.lists(POOLS)})}
        ),
    }
)
CONFIGS = st.fixed_dictionaries(
    {"metadata": st.just({"name": "nc", "namespace": "fleet"})},
    optional=dict.fromkeys(
        ("vgpuInfo", "hostDeviceInfo", "cpuCount", "memorySize", "vmAffinity", "cpuPinning"),
        ANYTHING,
    ),
)


@pytest.fixture
def judging(tmp_path: Path) -> Judging:
    """That of a webhook that knows no Harvester cluster and refuses what it can."""
    registry = CollectorRegistry()
    metrics, own = AdmissionMetrics(registry), PoolMetrics(registry)
    client = Client(SILENT)
    harvesters = FollowedHarvesters(str(tmp_path), own)
    rules = PoolRules(ManagedSource(client), harvesters, own, refuses=True)
    return Judging(rules.kinds, World(), AccessReviews(client, metrics), metrics)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(CLUSTERS, st.none() | CLUSTERS)
async def test_any_cluster_passes_that_is_not_judged(judging: Judging, new: Any, old: Any) -> None:
    found = await judging.validate(asked("clusters", GROUP, new, old))
    assert found.outcome is not Outcome.FAILED
    if found.answer.denial is not None:
        assert all(cause.field for cause in found.answer.denial.causes), "a mistake in it"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(CONFIGS, st.none() | CONFIGS)
async def test_any_configuration_gets_an_answer(judging: Judging, new: Any, old: Any) -> None:
    found = await judging.validate(asked("harvesterconfigs", CONFIG_GROUP, new, old))
    assert found.outcome is not Outcome.FAILED


def asked(resource: str, group: str, new: Any, old: Any) -> Any:
    operation = "CREATE" if old is None else "UPDATE"
    named = new if isinstance(new, dict) and isinstance(new.get("metadata"), dict) else None
    question = review(resource, operation, named, None, group=group)
    question["request"] |= {"object": new, "oldObject": old, "namespace": "fleet"}
    return read(msgspec.json.encode(question))


def test_what_was_admitted_and_never_stored_is_forgotten() -> None:
    """Another webhook may have refused it."""
    now = 0.0
    managed = ManagedSource(Client(SILENT), clock=lambda: now)
    body = {"metadata": {"name": "guest", "namespace": "fleet", "uid": "1", "generation": 1}}
    managed.admit("Cluster", decode(GuestCluster, msgspec.json.encode(body)))
    assert [one.metadata.name for one in managed.managed().clusters] == ["guest"]
    now = HOLD_SECONDS + 1
    assert managed.managed().clusters == ()
