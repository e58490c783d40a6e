"""The `laneway` command as a person runs it: on simulated hosts, on dumps, and called wrongly."""

from __future__ import annotations

import json
import lzma
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.in_process import command

on_hardware = pytest.mark.skipif(
    not Path("/sys/bus/pci/devices").is_dir() or not any(Path("/sys/bus/pci/devices").iterdir()),
    reason="this machine shows no PCI devices to capture",
)

DUMP = Path(__file__).parent.parent / "data" / "a2-vgpu-node.umockdev.xz"


def laneway(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    done = command(*arguments, **env)
    assert "Traceback" not in done.stderr
    return done


def process(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """The same as a process, whose exit status and streams are those of the system."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("KUBE")}
    return subprocess.run(
        [sys.executable, "-m", "laneway", *arguments],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env=kept | {"HOME": "/proc/none", "COLUMNS": "60"} | env,
        timeout=60,
    )


def failure(*arguments: str, **env: str) -> str:
    """The one line of a command that fails."""
    done = laneway(*arguments, **env)
    assert (done.returncode, done.stdout) == (1, "")
    [line] = done.stderr.splitlines()
    assert line.startswith("laneway: ")
    return line


@pytest.fixture(scope="module")
def dump() -> str:
    return lzma.open(DUMP, "rt").read()


def test_real_dump_shows_its_card_with_three_vgpus_and_thirteen_free_functions() -> None:
    done = laneway("devices", "--simulate", str(DUMP))
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    card = next(n for n, line in enumerate(lines) if "0000:08:00.0" in line)
    assert "NVIDIA Corporation GA107GL [A2 / A16]" in lines[card]
    assert lines[card + 1].strip() == "VFs 16: 3 with a vGPU, 13 free"
    carried = [line.split()[0] for line in lines if "vGPU NVIDIA A2-4" in line]
    assert carried == ["0000:08:00.4", "0000:08:00.6", "0000:08:02.0"]


def test_piped_table_is_never_wrapped_or_coloured() -> None:
    done = process("devices", "--simulate", "a2", FORCE_COLOR="1")
    assert "\x1b" not in done.stdout
    [disk] = [line for line in done.stdout.splitlines() if "0000:01:00.0" in line]
    assert "holds swap space" in disk
    assert len(disk) > 60


def test_json_names_devices_as_everybody_does() -> None:
    done = laneway("devices", "--simulate", "a2", "-o", "json")
    found = json.loads(done.stdout)
    assert found["vgpus"][0]["parent"] == "0000:08:00.0"
    assert "0000:01:00.0" in found["critical"]
    [card] = [f for f in found["functions"] if f["address"] == "0000:08:00.0"]
    assert len(card["vfs"]) == 16


def test_all_adds_what_is_left_out() -> None:
    few = laneway("devices", "--simulate", str(DUMP)).stdout
    everything = laneway("devices", "--simulate", str(DUMP), "--all").stdout
    assert "0000:00:02.2" not in few
    assert "0000:00:02.2" in everything
    assert "0000:08:00.5" in everything


@pytest.mark.parametrize("address", ["0000:08:00.4", "08:00.4", "00000000:08:00.4"])
def test_address_is_understood_in_every_usual_form(address: str) -> None:
    done = laneway("explain", address, "--simulate", str(DUMP))
    assert done.returncode == 0
    assert done.stdout.startswith("0000:08:00.4 ")
    assert "configured        NVIDIA A2-4C" in done.stdout
    assert "Its vGPU can, as nvidia.com/NVIDIA_A2-4C." in done.stdout


def test_address_may_be_in_capitals() -> None:
    done = laneway("explain", "0000:1C:00.0", "--simulate", "hgx-h100")
    assert done.stdout.startswith("0000:1c:00.0 NVIDIA")


def test_usb_port_is_explained() -> None:
    done = laneway("explain", "1-3", "--simulate", "plain")
    assert done.stdout.startswith("1-3 ")
    assert "Can it be given to a VM?\n  Yes." in done.stdout


def test_crds_are_yaml_for_kubectl() -> None:
    done = laneway("crds")
    assert done.stdout.startswith("---\napiVersion: apiextensions.k8s.io/v1\n")
    assert done.stdout.count("\nkind: CustomResourceDefinition\n") == 15


def test_version() -> None:
    assert laneway("--version").stdout.startswith("laneway 0.")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("devices", "--simulate", "b7"), "a2, a2-vfio, l40s, a100, hgx-h100, plain"),
        (("devices", "--simulate", "a2:2"), "leave the count out"),
        (("devices", "--simulate", "/proc/none/dump"), "/proc/none/dump"),
        (("explain", "ff:1f.7", "--simulate", "a2"), "laneway devices --all"),
        (("explain", "9-9.9", "--simulate", "a2"), "no USB device 9-9.9"),
        (("explain", "gadget/x"), "The kinds are pcidevice"),
        (("explain", "pcidevice/../../secrets"), "unknown kind"),
        (("explain", "pcidevice/a%2fb"), "is no name of an object"),
        (("explain", "pcidevice/x"), "set KUBECONFIG"),
        (("explain", "pcidevice/x", "--kubeconfig", "/proc/none"), "/proc/none"),
        (("capture", "/proc/none/dump"), "choose a place"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(arguments: tuple[str, ...], said: str) -> None:
    assert said in failure(*arguments)


@pytest.mark.parametrize("arguments", [("devices", "--simulate", "b7"), ("nonsense",)])
def test_a_process_ends_as_its_command_does(arguments: tuple[str, ...]) -> None:
    told, said = laneway(*arguments), process(*arguments)
    assert (said.returncode, said.stdout, said.stderr) == (told.returncode, "", told.stderr)


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("explain",),
        ("devices", "-o", "xml"),
        ("explain", "vgpudevice/x", "--simulate", "a2"),
    ],
)
def test_wrong_call_is_distinguished_by_its_status(arguments: tuple[str, ...]) -> None:
    done = laneway(*arguments)
    assert done.returncode == 2
    assert "Usage:" in done.stderr


def test_broken_kubeconfig_is_named(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("a: [")
    assert str(config) in failure("explain", "pcidevice/x", KUBECONFIG=str(config))


def test_unreachable_server_is_one_line(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        json.dumps(
            {
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c"}}],
                "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
            }
        )
    )
    assert "127.0.0.1" in failure("explain", "pcidevice/x", "--kubeconfig", str(config))


def test_truncated_dump_is_refused(tmp_path: Path, dump: str) -> None:
    cut = tmp_path / "cut"
    cut.write_text(dump[: len(dump) // 2 + 7].rstrip("\n"))
    assert "cut" in failure("devices", "--simulate", str(cut))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\xff\x00",
        b"P: /devices/../../etc\nA: passwd=x\n",
        b"P: /etc/passwd\n",
        b"\x1f\x8b\x08\x00broken",
        b"\xfd7zXZ\x00broken",
    ],
)
def test_hostile_dump_is_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    bad = tmp_path / "bad"
    bad.write_bytes(content)
    assert "--simulate" in failure("devices", "--simulate", str(bad))


def test_absurd_device_is_an_error_on_that_device_and_hides_no_other(tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    bad.write_text(
        "P: /devices/pci0000:00/0000:00:01.0\nE: SUBSYSTEM=pci\nE: DRIVER=\\033[2J\n"
        "A: vendor=\\033[2J not a number\\n\nA: device=0x0001\\n\nA: class=0x030200\\n\n\n"
        "P: /devices/pci0000:00/0000:00:02.0\nE: SUBSYSTEM=pci\n"
        "A: vendor=0x10de\\n\nA: device=0x27b8\\n\nA: class=0x030200\\n\n"
        "A: resource=garbage\\n\nA: numa_node=99999999999999999999\\n\n\n"
    )
    done = laneway("devices", "--simulate", str(bad))
    assert done.returncode == 0
    assert "0000:00:02.0  NVIDIA Corporation AD104GL [L4]" in done.stdout
    assert "laneway: 0000:00:01.0: " in done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    assert "cannot be read" in failure("explain", "00:01.0", "--simulate", str(bad))


@pytest.mark.parametrize("name", ["crds", "--version"])
def test_reader_that_stops_reading_hears_nothing_more(name: str) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as nobody:
        done = subprocess.run(
            [sys.executable, "-m", "laneway", name],
            stdout=nobody,
            stderr=subprocess.PIPE,
            check=False,
            timeout=60,
        )
    assert (done.returncode, done.stderr) == (1, b"")


@on_hardware
def test_capture_writes_a_dump_that_can_be_simulated(tmp_path: Path) -> None:
    target = tmp_path / "this.umockdev"
    done = laneway("capture", str(target))
    assert done.returncode == 0
    assert f" devices to {target}; " in done.stderr
    assert "MAC addresses" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["this.umockdev"]
    here = json.loads(laneway("devices", "-o", "json").stdout)
    there = json.loads(laneway("devices", "-o", "json", "--simulate", str(target)).stdout)
    assert [f["address"] for f in there["functions"]] == [f["address"] for f in here["functions"]]


@on_hardware
def test_capture_replaces_a_file_only_on_request(tmp_path: Path) -> None:
    target = tmp_path / "this.umockdev"
    target.write_text("precious")
    assert "--force" in failure("capture", str(target))
    assert target.read_text() == "precious"
    assert laneway("capture", str(target), "--force").returncode == 0
    assert target.read_text().startswith("P: ")


def test_capture_replaces_nothing_but_files(tmp_path: Path) -> None:
    # Never a device of this machine: were the check broken, the test would replace it.
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert "no regular file" in failure("capture", str(pipe), "--force")
    assert "no regular file" in failure("capture", str(tmp_path), "--force")
    assert pipe.is_fifo()


@on_hardware
def test_capture_to_standard_output_is_the_dump_alone() -> None:
    done = laneway("capture", "-")
    assert done.stdout.startswith("P: ")
    assert re.match(r"Captured \d+ devices; ", done.stderr)
