"""The driver's programs in the driver's container, which comes, goes and is not what it seems."""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from laneway.core.programs import MODPROBE, NVIDIA_SMI, SRIOV_MANAGE
from laneway.host.executors.choice import ChosenExecutor
from laneway.host.executors.local import LocalExecutor
from laneway.host.executors.pod import PodExecutor
from laneway.host.port import CommandMissingError
from support.driver_pods import OWNER, Containers, DriverPods, container_id, pod, ran, served, uid

SMI = "echo of the pod $*"


@pytest.fixture
async def api() -> AsyncIterator[DriverPods]:
    async with served() as api:
        yield api


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Containers:
    """A node on which nothing runs yet."""
    found = Containers(tmp_path)
    monkeypatch.setattr("laneway.host.executors.entering.FOLDERS", (str(found.folder),))
    return found


@pytest.fixture
def executor(api: DriverPods, node: Containers) -> PodExecutor:
    return PodExecutor(api.client, "one", proc=str(node.proc))


async def test_a_program_runs_in_the_first_container_of_this_nodes_pod(
    api: DriverPods, node: Containers, executor: PodExecutor
) -> None:
    api.pods = [pod("other", number=2, node="two"), pod("mine"), pod("third", node="one-b")]
    fails = "echo out $*; echo Cannot obtain unbindLock >&2; exit 1"
    root = node.add(1, sriov_manage=fails)
    others = node.add(2, sriov_manage=fails)
    sidecar = node.add(99, sriov_manage=fails)

    done = await executor.run([SRIOV_MANAGE, "-e", "a b;$(id)"], 10)

    assert done == (1, "out -e a b;$(id)\nCannot obtain unbindLock\n")
    assert ran(root)[-1] == f"{SRIOV_MANAGE} -e a b;$(id)"
    assert not ran(others)
    assert not ran(sidecar)


async def test_nothing_is_asked_of_the_api_but_where_the_pod_is_and_who_made_it(
    api: DriverPods, node: Containers, executor: PodExecutor
) -> None:
    api.pods = [pod()]
    node.add(1, nvidia_smi=SMI)

    for _ in range(3):
        assert await executor.has(NVIDIA_SMI)
        await executor.run([NVIDIA_SMI], 10)

    assert api.asked == ["GET /apis/apps/v1/namespaces/harvester-system/daemonsets/driver"]


async def test_pods_are_looked_for_in_the_namespace_of_the_driver(api: DriverPods) -> None:
    api.namespace = "gpus"

    with pytest.raises(CommandMissingError, match="in namespace gpus"):
        await PodExecutor(api.client, "one", namespace="gpus").run([NVIDIA_SMI], 10)


@pytest.mark.parametrize(
    ("pods", "text"),
    [
        ([], "node one has no driver pod .label app=nvidia-driver-daemonset in namespace harv"),
        ([pod(node="two")], "node one has no driver pod"),
        ([pod(ready=False)], "driver pod driver-1 on node one is not Ready"),
        ([pod(deleted=True)], "driver pod driver-1 on node one is being deleted"),
        ([pod() | {"status": {}}], "is not Ready"),
        ([pod() | {"status": None}], "is not Ready"),
        ([pod() | {"metadata": 5}], "no driver pod"),
    ],
)
async def test_without_a_usable_pod_nothing_runs_and_the_reason_is_reported(
    api: DriverPods, node: Containers, executor: PodExecutor, pods: list[dict], text: str
) -> None:
    api.pods = pods
    root = node.add(1, nvidia_smi=SMI)

    assert not await executor.has(NVIDIA_SMI)
    with pytest.raises(CommandMissingError, match=text) as caught:
        await executor.run([NVIDIA_SMI], 10)
    assert caught.value.errno == errno.ENOENT
    assert not ran(root)


FORGED = {
    "without privileges": (pod("forged", privileged=False), "is not privileged"),
    "without an owner": (pod("forged", owner={}), "no DaemonSet of such pods owns it"),
    "of another kind": (pod("forged", owner={**OWNER, "kind": "ReplicaSet"}), "no DaemonSet"),
    "of another group": (pod("forged", owner={**OWNER, "apiVersion": "a/v1"}), "no DaemonSet"),
    "of a DaemonSet that is not there": (pod("forged", owner={**OWNER, "name": "x"}), "no Daem"),
    "of one that was there": (pod("forged", owner={**OWNER, "uid": "earlier"}), "no DaemonSet"),
    "of one that makes other pods": (
        pod("forged", owner={**OWNER, "name": "other", "uid": "uid of other"}),
        "no DaemonSet of such pods owns it",
    ),
}


@pytest.mark.parametrize("how", FORGED)
async def test_a_pod_that_only_looks_like_the_drivers_is_not_entered(
    api: DriverPods, node: Containers, executor: PodExecutor, how: str
) -> None:
    forged, text = FORGED[how]
    api.pods = [forged]
    root = node.add(1, nvidia_smi="echo forged")

    assert not await executor.has(NVIDIA_SMI)
    with pytest.raises(PermissionError, match=text) as caught:
        await executor.run([NVIDIA_SMI], 10)
    assert caught.value.errno == errno.EACCES
    assert not ran(root)

    # Nor does it stand in the way of the real one.
    forged["metadata"]["creationTimestamp"] = "2026-01-09T00:00:00Z"
    api.pods = [forged, pod("real", number=2)]
    node.add(2, nvidia_smi=SMI)
    assert (await executor.run([NVIDIA_SMI], 10)).output == "of the pod\n"
    assert not ran(root)


async def test_only_a_ready_pod_is_used_and_the_newest_of_these(
    api: DriverPods, node: Containers, executor: PodExecutor
) -> None:
    api.pods = [
        pod("leaving", number=5, deleted=True, created="2026-01-05T00:00:00Z"),
        pod("older", number=2, created="2026-01-02T00:00:00Z"),
        pod("newer", number=3, created="2026-01-03T00:00:00Z"),
        pod("oldest", number=1, created="2026-01-01T00:00:00Z"),
        pod("starting", number=4, ready=False, created="2026-01-04T00:00:00Z"),
    ]
    roots = [node.add(number, nvidia_smi=SMI) for number in range(1, 6)]

    await executor.run([NVIDIA_SMI], 10)

    assert [bool(ran(root)) for root in roots] == [False, False, True, False, False]


async def test_a_ready_pod_without_a_probe_is_checked_for_the_marker(
    api: DriverPods, node: Containers, executor: PodExecutor
) -> None:
    api.pods = [pod()]
    root = node.add(1, ready=False, nvidia_smi=SMI)

    assert not await executor.has(NVIDIA_SMI)
    with pytest.raises(CommandMissingError, match=r"driver is not installed yet in .* driver-1"):
        await executor.run([NVIDIA_SMI], 10)
    assert set(ran(root)) == {"test -e /tmp/ready"}

    (root / "bin" / "test").write_text("#!/bin/sh\n")
    assert (await executor.run([NVIDIA_SMI], 10)).output == "of the pod\n"


async def test_a_pod_with_a_probe_is_taken_at_its_word(
    api: DriverPods, node: Containers, executor: PodExecutor
) -> None:
    api.pods = [pod(probe=True)]
    root = node.add(1, nvidia_smi=SMI)

    await executor.run([NVIDIA_SMI, "-L"], 10)

    assert ran(root) == ["nvidia-smi -L"]


async def test_what_was_found_is_read_once(
    api: DriverPods, node: Containers, executor: PodExecutor
) -> None:
    api.pods = [pod()]
    root = node.add(1, nvidia_smi=SMI)

    for _ in range(3):
        assert await executor.has(NVIDIA_SMI)
        await executor.run([NVIDIA_SMI], 10)

    once = ["test -e /tmp/ready", "nvidia-smi -h"]
    assert ran(root) == [*once, "nvidia-smi", "nvidia-smi", "nvidia-smi"]


@pytest.mark.parametrize(
    "successor",
    [pod(number=2), pod(number=2, name="driver-2")],
    ids=["recreated under its name", "replaced"],
)
async def test_nothing_known_of_a_pod_is_believed_of_another(
    api: DriverPods, node: Containers, executor: PodExecutor, successor: dict
) -> None:
    api.pods = [pod()]
    node.add(1, nvidia_smi=SMI)
    assert await executor.has(NVIDIA_SMI)

    api.pods = [successor]
    node.add(2, ready=False, nvidia_smi=SMI)

    assert not await executor.has(NVIDIA_SMI)
    with pytest.raises(CommandMissingError, match="not installed yet"):
        await executor.run([NVIDIA_SMI], 10)


async def test_nothing_is_entered_but_that_container_of_that_pod(
    api: DriverPods, node: Containers, executor: PodExecutor
) -> None:
    """Another pod's, another one of this pod, or one named below another's cgroup."""
    api.pods = [pod()]
    roots = [node.add(number, nvidia_smi="echo wrong") for number in (2, 3, 4)]
    own = f"pod{uid(1)}/{container_id(1)}"
    for number, path in (
        (2, f"pod{uid(2)}/{container_id(1)}"),
        (3, f"pod{uid(1)}/{container_id(3)}"),
        (4, f"pod{uid(4)}/{container_id(4)}/kubepods/{own}"),
    ):
        (node.proc / str(1000 + number) / "cgroup").write_text(f"0::/kubepods/{path}\n")

    assert not await executor.has(NVIDIA_SMI)
    with pytest.raises(
        OSError, match=r"driver pod driver-1: no process of container 0+ of pod"
    ) as e:
        await executor.run([NVIDIA_SMI], 10)
    assert e.value.errno == errno.EHOSTUNREACH
    assert not any(map(ran, roots))


async def test_of_a_containers_processes_the_first_shows_the_way(
    api: DriverPods, node: Containers, executor: PodExecutor
) -> None:
    """Later ones may have left for somewhere else, and numbers begin again."""
    api.pods = [pod()]
    root = node.add(1, nvidia_smi=SMI)
    elsewhere = node.add(2, nvidia_smi="echo wrong")
    node.process(7, elsewhere, uid(1), container_id(1), started=51)

    assert (await executor.run([NVIDIA_SMI], 10)).output == "of the pod\n"
    assert ran(root)


async def test_a_container_with_users_of_its_own_is_not_entered(
    api: DriverPods, node: Containers, executor: PodExecutor
) -> None:
    api.pods = [pod()]
    root = node.add(1, nvidia_smi=SMI)
    users = node.proc / "1001" / "ns" / "user"
    users.unlink()
    users.touch()

    with pytest.raises(PermissionError, match="user namespace of its own") as caught:
        await executor.run([NVIDIA_SMI], 10)
    assert caught.value.errno == errno.EACCES
    assert not ran(root)


@pytest.mark.parametrize("program", [NVIDIA_SMI, SRIOV_MANAGE])
async def test_a_program_that_the_container_lacks_is_missing(
    api: DriverPods, node: Containers, executor: PodExecutor, program: str
) -> None:
    api.pods = [pod()]
    node.add(1)

    assert not await executor.has(program)
    with pytest.raises(CommandMissingError, match=f"{program} is missing in driver pod driver-1"):
        await executor.run([program], 10)


async def test_namespaces_that_cannot_be_entered_mean_that_nothing_was_started(
    api: DriverPods, node: Containers, executor: PodExecutor
) -> None:
    api.pods = [pod(probe=True)]
    node.add(1, nvidia_smi=SMI)
    said = "nsenter: reassociate to namespace 'ns/mnt' failed: Operation not permitted"
    (node.folder / "nsenter").write_text(f'#!/bin/sh\necho "{said}" >&2; exit 1\n')

    with pytest.raises(OSError, match=r"in driver pod driver-1: .*ns/mnt' failed: Op") as caught:
        await executor.run([NVIDIA_SMI], 10)
    assert caught.value.errno == errno.EHOSTUNREACH

    (node.folder / "nsenter").unlink()
    with pytest.raises(OSError, match=r"nsenter is not installed .* util-linux") as caught:
        await executor.run([NVIDIA_SMI], 10)
    assert caught.value.errno == errno.EHOSTUNREACH


@pytest.mark.parametrize(
    ("status", "said"), [(127, "my own\n"), (1, "exec: modprobe: no such file or directory\n")]
)
async def test_what_a_program_says_itself_is_a_result(
    api: DriverPods, node: Containers, executor: PodExecutor, status: int, said: str
) -> None:
    api.pods = [pod()]
    node.add(1, nvidia_smi=f"printf '{said}'; exit {status}")

    assert await executor.run([NVIDIA_SMI], 10) == (status, said)


async def test_a_program_that_does_not_end_is_stopped(
    api: DriverPods, node: Containers, executor: PodExecutor
) -> None:
    api.pods = [pod()]
    node.add(1, nvidia_smi="exec /bin/sleep 1000")

    with pytest.raises(TimeoutError, match=r"did not end within 0\.2 s and was stopped") as caught:
        await executor.run([NVIDIA_SMI], 0.2)
    assert caught.value.errno == errno.ETIMEDOUT


async def test_a_program_that_was_killed_may_have_done_its_work(
    api: DriverPods, node: Containers, executor: PodExecutor
) -> None:
    """As all are whose container ends."""
    api.pods = [pod()]
    node.add(1, nvidia_smi="kill -9 $$")

    with pytest.raises(OSError, match="killed by signal 9; whether it did its work is") as caught:
        await executor.run([NVIDIA_SMI], 10)
    assert caught.value.errno == errno.EIO


async def test_a_pod_that_does_not_answer_before_the_program_starts(
    api: DriverPods, node: Containers, executor: PodExecutor
) -> None:
    """What became of the question is unknown; that the program was not started is known."""
    api.pods = [pod()]
    root = node.add(1, nvidia_smi=SMI)
    (root / "bin" / "test").write_text("#!/bin/sh\nkill -9 $$\n")

    with pytest.raises(OSError, match="driver pod driver-1 does not answer") as caught:
        await executor.run([NVIDIA_SMI], 10)
    assert caught.value.errno == errno.EHOSTUNREACH


@pytest.mark.parametrize(("code", "number"), [(403, errno.EACCES), (500, errno.EHOSTUNREACH)])
async def test_an_api_server_that_refuses_is_reported(
    api: DriverPods, executor: PodExecutor, code: int, number: int, caplog: Any
) -> None:
    status = {"kind": "Status", "code": code, "message": "because"}

    api.refusal = web.json_response(status, status=code)
    with pytest.raises(OSError, match="driver pods cannot be listed: because") as caught:
        await executor.run([NVIDIA_SMI], 10)
    assert caught.value.errno == number

    api.refusal = web.json_response(status, status=code)
    assert not await executor.has(NVIDIA_SMI)
    assert "because" in caplog.text


@pytest.mark.parametrize("argv", [[], [MODPROBE, "vfio-pci"], ["sh", "-c", "id"], ["/bin/sh"]])
async def test_nothing_but_the_drivers_programs_is_run(
    api: DriverPods, node: Containers, executor: PodExecutor, argv: list[str]
) -> None:
    api.pods = [pod()]
    root = node.add(1, nvidia_smi=SMI)
    with pytest.raises(PermissionError, match="not a program that Laneway runs"):
        await executor.run(argv, 10)
    assert not ran(root)


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> LocalExecutor:
    """A node that has all the programs."""
    for name in (NVIDIA_SMI, MODPROBE):
        path = tmp_path / name
        path.write_text(f'#!/bin/sh\necho "{name} of the node $*"\n')
        path.chmod(0o755)
    monkeypatch.setattr("laneway.host.executors.local.FOLDERS", (str(tmp_path),))
    return LocalExecutor()


@pytest.fixture
def bare(tmp_path: Any) -> LocalExecutor:
    """A node that has none."""
    return LocalExecutor(str(tmp_path / "nothing"))


async def test_the_pod_comes_first_and_its_end_is_noticed(
    api: DriverPods, node: Containers, executor: PodExecutor, local: LocalExecutor
) -> None:
    chosen = ChosenExecutor(executor, local)
    node.add(1, nvidia_smi=SMI)
    node.add(2, nvidia_smi="echo of another pod $*")

    async def where() -> str:
        return (await chosen.run([NVIDIA_SMI, "-L"], 10)).output

    assert await where() == "nvidia-smi of the node -L\n"
    api.pods = [pod()]
    assert await where() == "of the pod -L\n"
    api.pods = [pod(ready=False)]
    assert await where() == "nvidia-smi of the node -L\n"
    api.pods = [pod(deleted=True), pod("driver-2", number=2)]
    assert await where() == "of another pod -L\n"


async def test_a_program_that_only_the_pod_has_is_there(
    api: DriverPods, node: Containers, executor: PodExecutor, bare: LocalExecutor
) -> None:
    api.pods = [pod()]
    node.add(1, nvidia_smi=SMI)
    assert await ChosenExecutor(executor, bare).has(NVIDIA_SMI)


async def test_modules_are_loaded_on_the_node_even_if_there_is_a_pod(
    api: DriverPods, node: Containers, executor: PodExecutor, local: LocalExecutor
) -> None:
    api.pods = [pod()]
    root = node.add(1, modprobe="echo of the pod")
    chosen = ChosenExecutor(executor, local)

    assert await chosen.has(MODPROBE)
    done = await chosen.run([MODPROBE, "vfio-pci"], 10)
    assert done.output == "modprobe of the node vfio-pci\n"
    assert not ran(root)


async def test_the_node_serves_while_the_api_server_does_not(
    api: DriverPods, executor: PodExecutor, local: LocalExecutor
) -> None:
    api.refusal = web.json_response({"code": 500, "message": "no"}, status=500)

    done = await ChosenExecutor(executor, local).run([NVIDIA_SMI], 10)

    assert done.output == "nvidia-smi of the node \n"


async def test_what_may_have_run_in_the_pod_is_not_run_again_on_the_node(
    api: DriverPods, node: Containers, executor: PodExecutor, local: LocalExecutor
) -> None:
    api.pods = [pod()]
    node.add(1, nvidia_smi="echo half; kill -9 $$")

    with pytest.raises(OSError, match="whether it did its work is unknown"):
        await ChosenExecutor(executor, local).run([NVIDIA_SMI], 10)


async def test_where_neither_has_the_driver_the_pods_reason_is_reported(
    executor: PodExecutor, bare: LocalExecutor
) -> None:
    chosen = ChosenExecutor(executor, bare)

    assert not await chosen.has(NVIDIA_SMI)
    with pytest.raises(CommandMissingError, match="enable the add-on nvidia-driver-toolkit"):
        await chosen.run([NVIDIA_SMI], 10)
