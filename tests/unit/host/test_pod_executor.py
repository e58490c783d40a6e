"""The driver's programs in the driver's pod, which comes, goes and is not what it seems."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from laneway.core.programs import MODPROBE, NVIDIA_SMI, SRIOV_MANAGE
from laneway.host.executors.choice import ChosenExecutor
from laneway.host.executors.local import LocalExecutor
from laneway.host.executors.pod import PodExecutor
from laneway.host.port import CommandMissingError
from laneway.kube.client import Client
from laneway.kube.cluster import Cluster, ClusterConfig
from support.kubelet import Behaviour, ends, not_found, sends, upgrade


def pod(name: str = "driver-1", *, uid: str = "", ready: bool = True, **more: Any) -> dict:
    """A driver pod as the toolkit's DaemonSet makes it."""
    meta = {
        "name": name,
        "namespace": "harvester-system",
        "uid": uid or f"uid of {name}",
        "labels": {"app": "nvidia-driver-daemonset"},
        "creationTimestamp": more.get("created", "2026-01-01T00:00:00Z"),
    }
    if more.get("deleted"):
        meta["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    driver: dict[str, Any] = {"name": "driver", "image": "x"}
    if more.get("probe"):
        driver["readinessProbe"] = {"exec": {"command": ["true"]}}
    return {
        "metadata": meta,
        "spec": {"nodeName": more.get("node", "one"), "containers": [driver, {"name": "sidecar"}]},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            "containerStatuses": [
                {"name": "sidecar", "containerID": "containerd://s", "restartCount": 0},
                {"name": "driver", "containerID": more.get("start", "containerd://1")},
            ],
        },
    }


@dataclass
class Api:
    """Pods, and what programs in them do; the toolkit's marker is there."""

    client: Client = field(init=False)
    pods: list[dict] = field(default_factory=list)
    programs: dict[str, Behaviour] = field(
        default_factory=lambda: {
            "test": ends(),
            NVIDIA_SMI: ends(0, b"of the pod\n"),
            SRIOV_MANAGE: ends(0, b"done\n"),
        }
    )
    refusal: web.Response | None = None
    namespace: str = "harvester-system"
    ran: list[tuple[str, str, list[str]]] = field(default_factory=list)

    async def list_pods(self, request: web.Request) -> web.Response:
        if self.refusal is not None:
            return self.refusal
        assert request.match_info["namespace"] == self.namespace
        assert request.query["labelSelector"] == "app=nvidia-driver-daemonset"
        selector, _, node = request.query["fieldSelector"].partition("=")
        assert selector == "spec.nodeName"
        items = [one for one in self.pods if one["spec"]["nodeName"] == node]
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": items})

    async def execute(self, request: web.Request) -> web.StreamResponse:
        argv = request.query.getall("command")
        self.ran.append((request.match_info["pod"], request.query["container"], argv))
        absent = sends((3, not_found(argv[0])))
        return await upgrade(request, self.programs.get(argv[0], absent))

    @property
    def commands(self) -> list[str]:
        return [" ".join(argv) for _, _, argv in self.ran]

    def executor(self) -> PodExecutor:
        return PodExecutor(self.client, "one")


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    served = Api()
    app = web.Application()
    app.router.add_get("/api/v1/namespaces/{namespace}/pods", served.list_pods)
    app.router.add_get("/api/v1/namespaces/harvester-system/pods/{pod}/exec", served.execute)
    server = TestServer(app, host="127.0.0.1")
    await server.start_server()
    async with Client(ClusterConfig(Cluster(str(server.make_url(""))))) as served.client:
        yield served
    await server.close()


async def test_a_program_runs_in_the_first_container_of_this_nodes_pod(api: Api) -> None:
    api.pods = [pod("other", node="two"), pod("mine"), pod("third", node="one-b")]
    api.programs[SRIOV_MANAGE] = ends(1, b"out\n", b"Cannot obtain unbindLock\n")

    done = await api.executor().run([SRIOV_MANAGE, "-e", "0000:08:00.0"], 10)

    assert done == (1, "out\nCannot obtain unbindLock\n")
    assert api.ran[-1] == ("mine", "driver", [SRIOV_MANAGE, "-e", "0000:08:00.0"])


async def test_pods_are_looked_for_in_the_namespace_of_the_driver(api: Api) -> None:
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
async def test_without_a_usable_pod_nothing_runs_and_the_reason_is_told(
    api: Api, pods: list[dict], text: str
) -> None:
    api.pods = pods
    executor = api.executor()

    assert not await executor.has(NVIDIA_SMI)
    with pytest.raises(CommandMissingError, match=text) as caught:
        await executor.run([NVIDIA_SMI], 10)
    assert caught.value.errno == errno.ENOENT
    assert not api.ran


async def test_only_a_ready_pod_is_used_and_the_newest_of_these(api: Api) -> None:
    api.pods = [
        pod("leaving", deleted=True, created="2026-01-05T00:00:00Z"),
        pod("older", created="2026-01-02T00:00:00Z"),
        pod("newer", created="2026-01-03T00:00:00Z"),
        pod("oldest", created="2026-01-01T00:00:00Z"),
        pod("starting", ready=False, created="2026-01-04T00:00:00Z"),
    ]

    await api.executor().run([NVIDIA_SMI], 10)

    assert {name for name, _, _ in api.ran} == {"newer"}


async def test_a_ready_pod_without_a_probe_is_asked_for_the_marker(api: Api) -> None:
    api.pods = [pod()]
    api.programs["test"] = ends(1)
    executor = api.executor()

    assert not await executor.has(NVIDIA_SMI)
    with pytest.raises(CommandMissingError, match=r"driver is not installed yet in .* driver-1"):
        await executor.run([NVIDIA_SMI], 10)
    assert set(api.commands) == {"test -e /tmp/ready"}

    api.programs["test"] = ends()
    assert (await executor.run([NVIDIA_SMI], 10)).output == "of the pod\n"


async def test_a_pod_with_a_probe_is_taken_at_its_word(api: Api) -> None:
    api.pods = [pod(probe=True)]

    await api.executor().run([NVIDIA_SMI, "-L"], 10)

    assert api.commands == ["nvidia-smi -L"]


async def test_what_was_found_is_asked_for_once(api: Api) -> None:
    api.pods = [pod()]
    executor = api.executor()

    for _ in range(3):
        assert await executor.has(NVIDIA_SMI)
        await executor.run([NVIDIA_SMI], 10)

    assert api.commands == [
        "test -e /tmp/ready",
        "nvidia-smi -h",
        "nvidia-smi",
        "nvidia-smi",
        "nvidia-smi",
    ]


@pytest.mark.parametrize(
    "successor",
    [pod(uid="another"), pod(start="containerd://2"), pod("driver-2")],
    ids=["recreated under its name", "container restarted", "replaced"],
)
async def test_nothing_known_of_a_pod_is_believed_of_another(api: Api, successor: dict) -> None:
    api.pods = [pod()]
    executor = api.executor()
    assert await executor.has(NVIDIA_SMI)

    api.pods = [successor]
    api.programs["test"] = ends(1)

    assert not await executor.has(NVIDIA_SMI)
    with pytest.raises(CommandMissingError, match="not installed yet"):
        await executor.run([NVIDIA_SMI], 10)


@pytest.mark.parametrize("program", [NVIDIA_SMI, SRIOV_MANAGE])
@pytest.mark.parametrize("as_status", [False, True])
async def test_a_program_that_the_container_lacks_is_missing(
    api: Api, program: str, as_status: bool
) -> None:
    """Most runtimes refuse; some report it as the end of a program that never was."""
    api.pods = [pod()]
    if as_status:
        api.programs[program] = ends(127, err=not_found(program)["message"].encode())
    else:
        del api.programs[program]
    executor = api.executor()

    assert not await executor.has(program)
    with pytest.raises(CommandMissingError, match=f"{program} is missing in driver pod driver-1"):
        await executor.run([program], 10)


@pytest.mark.parametrize(
    ("status", "said"), [(127, "my own\n"), (1, "exec: modprobe: no such file or directory\n")]
)
async def test_what_a_program_says_itself_is_a_result(api: Api, status: int, said: str) -> None:
    api.pods = [pod()]
    api.programs[NVIDIA_SMI] = ends(status, said.encode())

    assert await api.executor().run([NVIDIA_SMI], 10) == (status, said)


async def test_a_program_that_does_not_end_meets_the_limit(api: Api) -> None:
    async def hang(socket: web.WebSocketResponse) -> None:
        await asyncio.Event().wait()

    api.pods = [pod()]
    api.programs[NVIDIA_SMI] = hang

    with pytest.raises(TimeoutError, match=r"did not end within 0\.2 s; it may go on") as caught:
        await api.executor().run([NVIDIA_SMI], 0.2)
    assert caught.value.errno == errno.ETIMEDOUT


async def test_an_outcome_that_is_unknown_is_told_as_such(api: Api) -> None:
    api.pods = [pod()]
    api.programs[NVIDIA_SMI] = sends((1, b"half"))

    with pytest.raises(OSError, match=r"nvidia-smi in driver pod .*is unknown") as caught:
        await api.executor().run([NVIDIA_SMI], 10)
    assert caught.value.errno == errno.EIO


async def test_a_pod_that_does_not_answer_before_the_program_starts(api: Api) -> None:
    """The marker's outcome is unknown; that the program was not started is known."""
    api.pods = [pod()]
    api.programs["test"] = sends()

    with pytest.raises(OSError, match="driver pod driver-1 does not answer") as caught:
        await api.executor().run([NVIDIA_SMI], 10)
    assert caught.value.errno == errno.EHOSTUNREACH


@pytest.mark.parametrize(("code", "number"), [(403, errno.EACCES), (500, errno.EHOSTUNREACH)])
async def test_an_api_server_that_refuses_is_told(
    api: Api, code: int, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    executor = api.executor()
    status = {"kind": "Status", "code": code, "message": "because"}

    api.refusal = web.json_response(status, status=code)
    with pytest.raises(OSError, match="driver pod cannot be looked for: because") as caught:
        await executor.run([NVIDIA_SMI], 10)
    assert caught.value.errno == number

    api.refusal = web.json_response(status, status=code)
    assert not await executor.has(NVIDIA_SMI)
    assert "because" in caplog.text


@pytest.mark.parametrize("argv", [[], [MODPROBE, "vfio-pci"], ["sh", "-c", "id"], ["/bin/sh"]])
async def test_nothing_but_the_drivers_programs_is_run(api: Api, argv: list[str]) -> None:
    api.pods = [pod()]
    with pytest.raises(PermissionError, match="none of the programs that Laneway runs"):
        await api.executor().run(argv, 10)
    assert not api.ran


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


async def test_the_pod_comes_first_and_goes_unnoticed_by_nobody(
    api: Api, local: LocalExecutor
) -> None:
    executor = ChosenExecutor(api.executor(), local)

    async def where() -> str:
        return (await executor.run([NVIDIA_SMI, "-L"], 10)).output

    assert await where() == "nvidia-smi of the node -L\n"
    api.pods = [pod()]
    assert await where() == "of the pod\n"
    api.pods = [pod(ready=False)]
    assert await where() == "nvidia-smi of the node -L\n"
    api.pods = [pod(deleted=True), pod("driver-2")]
    assert await where() == "of the pod\n"
    assert api.ran[-1][0] == "driver-2"


async def test_a_program_that_only_the_pod_has_is_there(api: Api, bare: LocalExecutor) -> None:
    api.pods = [pod()]
    assert await ChosenExecutor(api.executor(), bare).has(NVIDIA_SMI)


async def test_modules_are_loaded_on_the_node_even_if_there_is_a_pod(
    api: Api, local: LocalExecutor
) -> None:
    api.pods = [pod()]
    api.programs[MODPROBE] = ends(0, b"of the pod\n")
    executor = ChosenExecutor(api.executor(), local)

    assert await executor.has(MODPROBE)
    done = await executor.run([MODPROBE, "vfio-pci"], 10)
    assert done.output == "modprobe of the node vfio-pci\n"
    assert not api.ran


async def test_the_node_serves_while_the_api_server_does_not(
    api: Api, local: LocalExecutor
) -> None:
    api.refusal = web.json_response({"code": 500, "message": "no"}, status=500)

    done = await ChosenExecutor(api.executor(), local).run([NVIDIA_SMI], 10)

    assert done.output == "nvidia-smi of the node \n"


async def test_what_may_have_run_in_the_pod_is_not_run_again_on_the_node(
    api: Api, local: LocalExecutor
) -> None:
    api.pods = [pod()]
    api.programs[NVIDIA_SMI] = sends((1, b"half"))

    with pytest.raises(OSError, match="whether it did its work is unknown"):
        await ChosenExecutor(api.executor(), local).run([NVIDIA_SMI], 10)


async def test_where_neither_has_the_driver_the_pods_reason_is_told(
    api: Api, bare: LocalExecutor
) -> None:
    executor = ChosenExecutor(api.executor(), bare)

    assert not await executor.has(NVIDIA_SMI)
    with pytest.raises(CommandMissingError, match="enable the add-on nvidia-driver-toolkit"):
        await executor.run([NVIDIA_SMI], 10)
