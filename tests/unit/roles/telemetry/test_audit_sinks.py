"""The audit record in a second place: standard output, a file, a receiver of OTLP logs."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from laneway.core.plan import CreateMdev, Plan
from laneway.core.requested import Origin
from laneway.host.hardware import Hardware
from laneway.host.plans.execute import execute
from laneway.host.scan import scan
from laneway.roles.telemetry import TelemetryError, telemetry
from laneway.sim.spec import build, parse_spec
from support.otlp_receiver import in_thread, receiving
from support.plans import BRIEF, hardware_of

UUID = "5ea6f8a6-3b1c-5a39-9e5e-0d0f0c0b0a09"
ORIGIN = Origin("VGPUDevice", "node1-000008004", "uid", "anna", 1)


@pytest.fixture
def a2(tmp_path: Path) -> Hardware:
    return hardware_of(build(parse_spec("a2"), "node1"), tmp_path / "state")


async def change(hardware: Hardware, audit: str, registry: CollectorRegistry) -> list[str]:
    """Create a vGPU, have its lines sent, and give those of the node's own file."""
    vgpu = scan(hardware.host).vgpus[0]
    kind = next(kind for kind in vgpu.creatable if kind.name == "NVIDIA A2-4Q")
    create = CreateMdev(vgpu.address, kind.id, kind.name, UUID)
    async with in_thread(telemetry("laneway-agent", registry, audit=audit, node="node1")) as told:
        hardware = hardware._replace(recorded=told.recorded)
        plan = Plan((create,))
        await execute(hardware, plan, actor="a", reason="r", origin=ORIGIN, limits=BRIEF)
    return written(hardware)


def written(hardware: Hardware) -> list[str]:
    """The lines of the node's own file."""
    return Path(hardware.state.audit).read_text().splitlines()


def unsent(registry: CollectorRegistry) -> float | None:
    return registry.get_sample_value("laneway_audit_records_unsent_total")


async def test_standard_output_has_the_lines_of_the_nodes_file(
    a2: Hardware, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = await change(a2, "stdout", CollectorRegistry())
    assert [json.loads(line)["outcome"] for line in lines] == ["planned", "done", "finished"]
    assert capsys.readouterr().out.splitlines() == lines


async def test_a_second_file_has_them_too_and_another_follows_when_it_is_rotated(
    a2: Hardware, tmp_path: Path
) -> None:
    second = tmp_path / "second.jsonl"
    lines = await change(a2, str(second), CollectorRegistry())
    assert second.read_text().splitlines() == lines
    assert second.stat().st_mode & 0o077 == 0


async def test_a_receiver_of_logs_gets_each_line_with_what_it_is_found_by(a2: Hardware) -> None:
    async with receiving() as receiver:
        lines = await change(a2, receiver.url, CollectorRegistry())
    assert [one.body for one in receiver.records] == lines
    done = receiver.records[1]
    assert (done.service, done.name) == ("laneway-agent", "laneway.audit")
    assert done.attributes["laneway.object"] == "VGPUDevice node1-000008004"
    assert done.attributes["laneway.device"] == "0000:08:00.4"
    assert done.attributes["laneway.actor"] == "a for anna"
    assert done.attributes["laneway.outcome"] == "done"


async def test_lines_that_do_not_arrive_are_counted_told_and_in_the_nodes_file(
    a2: Hardware, caplog: pytest.LogCaptureFixture
) -> None:
    registry = CollectorRegistry()
    async with receiving() as receiver:
        receiver.status = 400
        lines = await change(a2, receiver.url, registry)
    assert len(lines) == 3
    assert unsent(registry) == 3
    (text,) = [one for one in caplog.messages if "are not accepted" in one]
    assert f"the audit record to {receiver.url}" in text
    assert "audit.jsonl in the agent's state folder has all lines" in text


async def test_a_file_that_is_lost_meanwhile_is_told(
    a2: Hardware, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    registry = CollectorRegistry()
    folder = tmp_path / "logs"
    folder.mkdir()
    sending = telemetry("laneway-agent", registry, audit=str(folder / "second.jsonl"))
    async with in_thread(sending) as told:
        (folder / "second.jsonl").unlink()
        folder.rmdir()
        vgpu = scan(a2.host).vgpus[0]
        create = CreateMdev(vgpu.address, vgpu.creatable[0].id, vgpu.creatable[0].name, UUID)
        await execute(
            a2._replace(recorded=told.recorded),
            Plan((create,)),
            actor="a",
            reason="r",
            limits=BRIEF,
        )
    assert unsent(registry) == 3
    assert any("second.jsonl: No such file or directory" in one for one in caplog.messages)


async def test_a_file_that_cannot_be_written_is_refused_at_the_start(tmp_path: Path) -> None:
    with (
        pytest.raises(TelemetryError, match=r"--audit: .*/no/folder cannot be written: No such"),
        telemetry("laneway-agent", CollectorRegistry(), audit=str(tmp_path / "no/folder")),
    ):
        pass


@pytest.mark.parametrize("wanted", [{"endpoint": "http://c:4318"}, {"audit": "https://c"}])
async def test_without_the_extra_the_start_is_refused_with_the_command_that_helps(
    monkeypatch: pytest.MonkeyPatch, wanted: dict[str, str]
) -> None:
    monkeypatch.delitem(sys.modules, "laneway.roles.telemetry.otlp", raising=False)
    for name in [one for one in sys.modules if one.split(".")[0] == "opentelemetry"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with (
        pytest.raises(TelemetryError, match=r"pip install 'laneway\[otel\]'"),
        telemetry("laneway-agent", CollectorRegistry(), **wanted),
    ):
        pass


@pytest.mark.parametrize("audit", ["collector:4318", "ftp://c", "http://", "audit.jsonl"])
async def test_what_is_no_place_is_refused(audit: str) -> None:
    with (
        pytest.raises(TelemetryError, match="is not the URL of a receiver"),
        telemetry("laneway-agent", CollectorRegistry(), audit=audit),
    ):
        pass


async def test_nothing_of_opentelemetry_is_imported_unless_it_is_asked_for() -> None:
    program = (
        "import sys, laneway.cli.processes.agent, laneway.cli.processes.manager\n"
        "import laneway.cli.processes.webhook\n"
        "from prometheus_client import CollectorRegistry\n"
        "from laneway.roles.telemetry import telemetry\n"
        "with telemetry('laneway-agent', CollectorRegistry(), audit='stdout'): pass\n"
        "sys.exit('opentelemetry' in sys.modules)"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program)
    assert await process.wait() == 0
