"""Whatever is asked about machine pools gets an answer, and what is being written counts."""

from __future__ import annotations

import json
from collections.abc import Sequence
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
from laneway.controllers.machine_pools.look import Supply
from laneway.controllers.machine_pools.writes.case import Harvester
from laneway.core.ledger.build import build
from laneway.core.ledger.facts import DeviceFact, Facts, NodeFact
from laneway.kube.client import Client
from laneway.kube.rancher import CONFIG_GROUP, GROUP, GuestCluster
from support.reviewing import SILENT, review

OLD = {"namespace": "fleet", "creationTimestamp": "2020-01-01T00:00:00Z"}
A2 = "nvidia.com/NVIDIA_A2-4Q"
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


class One:
    """A Harvester cluster whose only node has two vGPUs."""

    def of(self, _credential: str) -> Harvester:
        devices = tuple(DeviceFact("n1", A2, name) for name in ("d1", "d2"))
        return Harvester("it", Supply(ledger=build(Facts(devices, (), (NodeFact("n1"),)))))

    def all(self) -> Sequence[Harvester]:
        return [self.of("")]


def of_one(client: Client, *, remembers: bool) -> Judging:
    """That of a webhook that knows this one."""
    registry = CollectorRegistry()
    metrics, own = AdmissionMetrics(registry), PoolMetrics(registry)
    rules = PoolRules(ManagedSource(client), One(), own, refuses=True, remembers=remembers)
    return Judging(rules.kinds, World(), AccessReviews(client, metrics), metrics)


def a_cluster(name: str, credential: str) -> Any:
    pool = {
        "name": "gpu",
        "quantity": 2,
        "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1},
        "machineConfigRef": {"kind": "HarvesterConfig", "name": name},
    }
    spec = {"cloudCredentialSecretName": credential, "rkeConfig": {"machinePools": [pool]}}
    return {"metadata": OLD | {"name": name}, "spec": spec}


async def both(judging: Judging, credential: str = "") -> Any:
    """What is said of two clusters that are created at once, each with all devices."""
    for name in ("first", "second"):
        info = json.dumps({"vGPURequests": [{"name": "", "deviceName": A2}]})
        config = {"metadata": OLD | {"name": name}, "vgpuInfo": info}
        await judging.validate(asked("harvesterconfigs", CONFIG_GROUP, config, None))
        found = await judging.validate(asked("clusters", GROUP, a_cluster(name, credential), None))
    return found.answer


async def test_of_two_clusters_at_once_the_second_one_does_not_get_what_the_first_gets() -> None:
    """R9: between a change of a pool and its VMs nothing is reserved."""
    answer = await both(of_one(Client(SILENT), remembers=True))
    assert answer.denial is not None
    assert "Pool gpu: Its machines cannot all start" in answer.denial.message


async def test_where_anybody_may_ask_nothing_that_is_asked_counts() -> None:
    answer = await both(of_one(Client(SILENT), remembers=False))
    assert answer.denial is None


async def test_while_rights_cannot_be_checked_writes_pass_and_nothing_is_told() -> None:
    async with Client(SILENT, connect_delays=()) as client:
        judging = of_one(client, remembers=True)
        answer = await both(judging, "cattle-global-data:cc-abcde")
    assert answer.denial is None
    said = " ".join(answer.warnings)
    assert "Pool gpu: Its machines cannot all start" in said
    assert "get secrets cattle-global-data/cc-abcde could not be checked" in said
    assert "n1" not in said


def test_what_was_admitted_and_never_stored_is_forgotten() -> None:
    """Another webhook may have refused it."""
    now = 0.0
    managed = ManagedSource(Client(SILENT), clock=lambda: now)
    body = {"metadata": {"name": "guest", "namespace": "fleet", "uid": "1", "generation": 1}}
    managed.admit("Cluster", decode(GuestCluster, msgspec.json.encode(body)))
    assert [one.metadata.name for one in managed.managed().clusters] == ["guest"]
    now = HOLD_SECONDS + 1
    assert managed.managed().clusters == ()
