"""A node without a driver, and containers of the driver toolkit on it, as Kubernetes makes them."""

from __future__ import annotations

import functools
import hashlib
import http.server
import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from laneway.core.driver_toolkit.state import State

ROOT = Path(__file__).parents[2]
RELEASE = platform.release()
SECONDS = 600.0
_INSIDE = """
set -e
root=$1 state=$2
shift 2
mount -t tmpfs none "$root"
cd "$root"
for part in usr etc; do
    mkdir -p $part .upper/$part .work/$part
    layers="lowerdir=/$part,upperdir=$root/.upper/$part,workdir=$root/.work/$part"
    mount -t overlay -o "$layers" overlay $part
done
ln -s usr/bin usr/sbin usr/lib usr/lib64 .
for part in proc sys dev; do mkdir $part; mount --rbind /$part $part; done
for part in "$@"; do mkdir -p ".$part"; mount --bind "$part" ".$part"; done
mkdir -p run tmp host var/log var/lib/laneway/driver old
mount --rbind / host
mount --bind "$state" var/lib/laneway/driver
mount --make-rprivate .
pivot_root . old
cd /
umount -l old
exec "$LANEWAY" -m laneway driver-toolkit run --log-format text
"""


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for what no event announces, seldom: the guest has one slow processor."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "waited without effect"
        time.sleep(0.2)


class Container:
    """One container of the toolkit."""

    def __init__(self, folder: Path, cgroup: Path, state: Path, settings: dict[str, str]) -> None:
        self.root = folder / "root"
        self.root.mkdir(parents=True)
        self._cgroup = cgroup
        cgroup.mkdir()
        self._state = state
        self.log = folder / "log"
        self._before = self._recorded()
        seen = [str(ROOT), os.path.realpath(sys.base_prefix)]
        command = f'echo $$ > "{cgroup}/cgroup.procs"; exec "$@"'
        inside = ["/bin/bash", "-c", _INSIDE, "bash", str(self.root), str(state), *seen]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                ["/bin/sh", "-c", command, "sh", "unshare", "--mount", *inside],
                env={**os.environ, **settings, "LANEWAY": sys.executable},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """A program in the container, as a probe or the agent runs it."""
        enter = ["nsenter", f"--target={self.process.pid}", "--mount", "--root", "--wd"]
        return subprocess.run([*enter, *argv], capture_output=True, text=True, check=False)

    def compiles(self) -> bool:
        """Whether a build has begun. Its files come and go while they are looked for."""
        scratch = self.path("/var/lib/laneway/scratch")
        return any(".o" in name for _, _, files in os.walk(scratch) for name in files)

    def is_ready(self) -> bool:
        return self.run(sys.executable, "-m", "laneway", "driver-toolkit", "ready").returncode == 0

    def path(self, path: str) -> Path:
        """A path of the container, as seen from outside."""
        return Path(f"/proc/{self.process.pid}/root{path}")

    @property
    def state(self) -> State:
        return msgspec.json.decode(self._recorded() or b"{}", type=State)

    def _recorded(self) -> bytes:
        try:
            return (self._state / "state.json").read_bytes()
        except FileNotFoundError:
            return b""

    def _has_begun(self) -> bool:
        """A container that was killed leaves a record that says how it was."""
        return self._recorded() != self._before

    def becomes(self, stage: str) -> None:
        """Wait until the record says that the wanted driver stands there."""
        ends = (stage, "Failed")
        wait_until(
            lambda: (
                self.process.poll() is not None or (self._has_begun() and self.state.stage in ends)
            )
        )
        assert self.process.poll() is None, self.log.read_text()
        assert self.state.stage == stage, self.log.read_text()

    def fails(self) -> str:
        """Wait for its end; what it says then."""
        assert self.process.wait() == 1, self.log.read_text()
        return self.log.read_text().splitlines()[-1]

    def stop(self) -> None:
        """As Kubernetes ends a pod."""
        self.process.terminate()
        assert self.process.wait() == 0, self.log.read_text()
        assert not self._pids()

    def kill(self) -> None:
        """As a node's failure ends it, with all that it has started."""
        (self._cgroup / "cgroup.kill").write_text("1")
        self.process.wait()
        wait_until(lambda: not self._pids())

    def remove(self) -> None:
        if self.process.poll() is None:
            self.kill()
        self._cgroup.rmdir()  # the next node would find it

    def _pids(self) -> str:
        return (self._cgroup / "cgroup.procs").read_text()


class Packages(http.server.SimpleHTTPRequestHandler):
    """Serves the folder of packages, with ranges; `cut` breaks off that many answers."""

    cut = 0
    requests: list[str]

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        asked = self.headers.get("Range", "")
        self.requests.append(f"{path.name} {asked}".strip())
        if not path.is_file():
            self.send_error(404)
            return
        content, tag = path.read_bytes(), f'"{path.name}"'
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
        self.send_response(206 if start else 200)
        self.send_header("ETag", tag)
        self.send_header("Content-Length", str(len(content) - start))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.end_headers()
        end = len(content)
        if type(self).cut:
            type(self).cut -= 1
            end = start + (len(content) - start) // 2
        self.wfile.write(content[start:end])

    def log_message(self, *_: object) -> None:
        pass


class Node:
    """The guest: an HTTP server with packages next to it, a folder for the toolkit's state."""

    def __init__(self, folder: Path, cgroups: Path) -> None:
        self._folder = folder
        self._cgroups = cgroups
        self._containers: list[Container] = []
        self.state = folder / "state"
        self.state.mkdir()
        self._packages = folder / "packages"
        self._packages.mkdir()
        Packages.requests = []
        handler = functools.partial(Packages, directory=str(self._packages))
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def start(self, version: str, kind: str, **settings: str) -> Container:
        """Start a container for a package of this kind."""
        name = f"{version}-{kind}.run"
        path = self._packages / name
        if not path.exists():
            make = [ROOT / "rig/driver-package.sh", version, kind, path]
            subprocess.run(make, check=True)
        wanted = {
            "DRIVER_LOCATION": f"{self.url}/{name}",
            "DRIVER_VERSION": version,
            "DRIVER_SHA256": hashlib.sha256(path.read_bytes()).hexdigest(),
        }
        number = len(self._containers)
        found = Container(
            self._folder / f"container-{number}",
            self._cgroups / f"container-{number}",
            self.state,
            wanted | settings,
        )
        self._containers.append(found)
        return found

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def end(self) -> None:
        for one in self._containers:
            one.remove()
        for name in ("nvidia_vgpu_vfio", "nvidia"):
            if Path(f"/sys/module/{name}").exists():
                subprocess.run(["rmmod", name], check=True)
        self._server.shutdown()
        self._server.server_close()
