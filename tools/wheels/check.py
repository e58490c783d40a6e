"""Build the wheels of Laneway and its other distributions, install them, and start what they bring.

    python tools/wheels/check.py

Each environment begins empty and holds what is pinned for it and nothing of this checkout. So a
file that a wheel lacks, or a dependency that no pyproject.toml names, shows here. Wheels are built
twice, and must be the same.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import requires
from pathlib import Path

import requests
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

CHECKOUT = Path(__file__).resolve().parents[2]
PROVIDER = "terraform-provider-laneway"
PACKAGES = {
    "kubebasics": "packages/kubebasics",
    "kapilite": "packages/kapilite",
    "laneway": ".",
    PROVIDER: f"packages/{PROVIDER}",
}
SECONDS = 120.0
EXAMPLE = re.compile(r"^<!-- (\S+) -->\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
"""A file of an example project in a README: its name in a comment, then the block."""
WITHOUT = (
    "laneway: 'laneway up' needs the API server kapilite, which is not installed: "
    "run pip install 'laneway[up]'\n"
)


class CheckError(Exception):
    """What is wrong with the wheels."""


def say(line: str) -> None:
    print(f"-- {line}", flush=True)


def build(target: Path) -> None:
    """The wheel of each distribution."""
    for folder in PACKAGES.values():
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)]
        subprocess.run(command, cwd=CHECKOUT / folder, check=True, capture_output=True)


def compare(first: Path, second: Path) -> None:
    """Two builds of one checkout."""
    for wheel in sorted(first.iterdir()):
        if wheel.read_bytes() != (second / wheel.name).read_bytes():
            raise CheckError(f"{wheel.name} is not the same when it is built again")
        say(f"{wheel.name}: {wheel.stat().st_size >> 10} KiB")


def closure(names: set[str]) -> set[str]:
    """These packages and all that they need, as they are installed here; without our own."""
    known: set[str] = set()
    waiting = set(names)
    while waiting:
        name = waiting.pop()
        known.add(name)
        for line in requires(name) or ():
            need = Requirement(line)
            if need.marker is None or need.marker.evaluate({"extra": ""}):
                waiting |= {canonicalize_name(need.name)} - known
    return known - PACKAGES.keys()


def pinned(names: set[str]) -> str:
    """The pins of these packages, with their hashes."""
    text = (CHECKOUT / "constraints/dev.txt").read_text()
    blocks = re.findall(r"^[a-z0-9-]+==(?:.*\\\n)+.*\n", text, re.MULTILINE)
    return "".join(block for block in blocks if block.partition("==")[0] in names)


class Environment:
    """A virtual environment in a folder."""

    def __init__(self, folder: Path, wheels: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        self._folder = folder
        self._wheels = wheels
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("KUBE", "PYTHON"))}
        self._environment = environment | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"}

    def pip(self, *arguments: str) -> None:
        pip = [sys.executable, "-m", "pip", "-qq", "--no-input"]
        subprocess.run([*pip, "--python", self._folder, *arguments], check=True)

    def pins(self, requirements: Path) -> None:
        self.pip("install", "--require-hashes", "--no-deps", "--requirement", str(requirements))

    def wheel(self, name: str) -> None:
        """One of our own, which must find here all that it needs."""
        self.pip("install", "--no-index", "--find-links", str(self._wheels), name)
        self.pip("check")

    def run(self, *command: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self._folder / "bin" / command[0], *command[1:]],
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
            cwd=cwd or self._folder,
            env=self._environment,
        )

    def ok(self, *command: str, cwd: Path | None = None) -> str:
        done = self.run(*command, cwd=cwd)
        if done.returncode != 0:
            raise CheckError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
        return done.stdout

    @contextmanager
    def running(self, *command: str, until: str) -> Iterator[None]:
        """A server, once it has printed its last line; Ctrl-C must end it cleanly."""
        process = subprocess.Popen(
            [self._folder / "bin" / command[0], *command[1:]],
            stdout=subprocess.PIPE,
            text=True,
            cwd=self._folder,
            env=self._environment,
        )
        try:
            said = []
            for line in process.stdout or ():
                said.append(line)
                if until in line:
                    break
            else:
                raise CheckError(f"{' '.join(command)} ended: {''.join(said)}")
            yield
            process.send_signal(signal.SIGINT)
            rest, _ = process.communicate(timeout=SECONDS)
            if process.returncode != 0 or "Stopped." not in rest:
                raise CheckError(f"{' '.join(command)}: {process.returncode}, {rest}")
        finally:
            process.kill()
            process.wait()


def version(kubeconfig: Path) -> str:
    """What the server of a kubeconfig says that it is."""
    config = yaml.safe_load(kubeconfig.read_text())
    session = requests.Session()
    session.trust_env = False  # REQUESTS_CA_BUNDLE would come before `verify`
    session.verify = str(kubeconfig.parent / "pki" / "ca.crt")
    session.headers["Authorization"] = f"Bearer {config['users'][0]['user']['token']}"
    server = config["clusters"][0]["cluster"]["server"]
    with session, session.get(f"{server}/version", timeout=SECONDS) as answer:
        return str(answer.json()["gitVersion"])


def laneway(folder: Path, wheels: Path) -> None:
    """Laneway as in its image, and then with what `laneway up` needs."""
    found = Environment(folder / "laneway", wheels)
    found.pins(CHECKOUT / "constraints/runtime.txt")
    found.wheel("laneway")
    for arguments in ((), ("agent",), ("manager",), ("webhook",), ("up",)):
        found.ok("laneway", *arguments, "--help")
    simulated = ("up", "--data-dir", str(folder / "up"), "--no-local", "--simulate", "a2")
    refused = found.run("laneway", *simulated)
    if (refused.returncode, refused.stderr) != (1, WITHOUT):
        raise CheckError(f"laneway up without kapilite: {refused}")
    say("laneway: starts, and says what 'laneway up' lacks")
    found.pins(CHECKOUT / "constraints/up.txt")
    found.wheel("laneway[up]")
    with found.running(
        "laneway", *simulated, "--port", "0", "--ui-port", "0", until="Stop with Ctrl-C."
    ):
        say(f"laneway[up]: serves {version(folder / 'up/kubeconfig')}")


def kapilite(folder: Path, wheels: Path) -> None:
    """The API server alone, and the example of its README as a user's project."""
    found = Environment(folder / "kapilite", wheels)
    pins = folder / "kapilite.txt"
    pins.write_text(pinned(closure({"kapilite", "pytest", "pytest-xdist", "requests"})))
    found.pins(pins)
    found.wheel("kapilite")
    data = ("--data-dir", str(folder / "data"))
    for _ in range(2):
        with found.running("kapilite", "serve", *data, "--port", "0", until="Stop with Ctrl-C."):
            say(f"kapilite serve: serves {version(folder / 'data/kubeconfig')}")
    project = folder / "project"
    for name, text in EXAMPLE.findall((CHECKOUT / "packages/kapilite/README.md").read_text()):
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    told = found.ok("pytest", "-q", "-n", "2", "-W", "error", cwd=project)
    say(f"kapilite's example: {told.strip().splitlines()[-1]}")


def provider(folder: Path, wheels: Path) -> None:
    """The provider for Terraform, which starts from the mirror that it writes."""
    found = Environment(folder / "provider", wheels)
    found.pins(CHECKOUT / "constraints/terraform.txt")
    found.wheel(PROVIDER)
    told = found.ok("laneway-terraform-provider", "mirror", str(folder / "mirror"))
    path = told.splitlines()[0].removeprefix("Wrote ")
    helped = found.ok(path)
    if "which Terraform starts by itself" not in helped:
        raise CheckError(f"{path}: {helped}")
    say(f"{PROVIDER}: starts from its mirror")


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        first, second = folder / "wheels", folder / "again"
        try:
            build(first)
            build(second)
            compare(first, second)
            laneway(folder, first)
            kapilite(folder, first)
            provider(folder, first)
        except (CheckError, subprocess.CalledProcessError) as error:
            print(f"wheels: {error}", getattr(error, "stderr", None) or "", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
