"""`laneway` as a process, and its API server as any client sees it."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

import yaml

SECONDS = 60.0
DEVICES = "/apis/devices.harvesterhci.io/v1beta1"
VGPU = "sim-a2-1-000008004"
PROFILE = "NVIDIA A2-4Q"
SPEC = ("--no-local", "--simulate", "a2", "--ui-port", "0", "--port", "0")
READY = "Stop with Ctrl-C."
"""The last line that `laneway up` prints when it is ready."""


def environment(**more: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("KUBE", "XDG", "NODE"))}
    return kept | {"HOME": "/proc/none"} | more


class Laneway:
    """A `laneway` process whose output a test can wait for."""

    def __init__(
        self, *arguments: str, program: Sequence[str] = ("-m", "laneway"), **env: str
    ) -> None:
        self.lines: list[str] = []
        self._news = threading.Condition()
        self.process = subprocess.Popen(
            [sys.executable, *program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(**env),
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        streams = (self.process.stdout, self.process.stderr)
        self._readers = [threading.Thread(target=self._read, args=(s,)) for s in streams]
        for reader in self._readers:
            reader.start()

    def _read(self, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                with self._news:
                    self.lines.append(line.rstrip("\n"))
                    self._news.notify_all()
        with self._news:
            self._news.notify_all()

    def until(self, text: str) -> str:
        """The first line with this text, once it is printed."""

        def seen() -> list[str]:
            return [line for line in self.lines if text in line]

        def ended() -> bool:
            return self.process.poll() is not None and not any(r.is_alive() for r in self._readers)

        with self._news:
            while not seen():
                assert not ended(), self.lines
                assert self._news.wait(SECONDS), self.lines
            return seen()[0]

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, and wait for the end."""
        self.process.send_signal(number)
        return self.ended()

    def ended(self) -> int:
        """Wait for the end of a process that has had its signal.

        A second one may come when the process has closed its event loop, and kills it then.
        """
        status = self.process.wait(SECONDS)
        for reader in self._readers:
            reader.join(SECONDS)
        return status

    @property
    def said(self) -> str:
        return "\n".join(self.lines)


class Api:
    """The API server of a data directory, as any client sees it."""

    def __init__(self, data_dir: Path) -> None:
        config = yaml.safe_load((data_dir / "kubeconfig").read_text())
        self.url: str = config["clusters"][0]["cluster"]["server"]
        self._token = config["users"][0]["user"]["token"]
        self._tls = ssl.create_default_context(cafile=str(data_dir / "pki" / "ca.crt"))

    def open(self, path: str, method: str = "GET", body: Any = None) -> Any:
        kind = "merge-patch+json" if method == "PATCH" else "json"
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": f"application/{kind}"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        return urllib.request.urlopen(request, timeout=SECONDS, context=self._tls)

    def call(self, path: str, method: str = "GET", body: Any = None) -> Any:
        with self.open(path, method, body) as response:
            return json.load(response)

    def until(self, plural: str, name: str, holds: Callable[[Any], bool]) -> Any:
        """Watch one object until it is as expected."""
        path = f"{DEVICES}/{plural}?watch=1&fieldSelector=metadata.name={name}"
        with self.open(path) as events:
            for line in events:
                event = json.loads(line)
                if event["type"] != "DELETED" and holds(event["object"]):
                    return event["object"]
        raise AssertionError(f"the watch of {name} ended")

    def desired(self, **spec: Any) -> Any:
        """Patch the vGPU; how it ends."""
        body = {"spec": spec}
        generation = self.call(f"{DEVICES}/vgpudevices/{VGPU}", "PATCH", body)["metadata"][
            "generation"
        ]
        return self.until(
            "vgpudevices",
            VGPU,
            lambda vgpu: (
                vgpu["status"].get("observedGeneration") == generation
                and bool(vgpu["status"].get("uuid")) == spec["enabled"]
            ),
        )

    def versions(self) -> dict[tuple[str, str], tuple[str, str]]:
        """The uid and resourceVersion of everything that is kept.

        Of the cluster's nodes only the uid: what their kubelets say follows what is there now.
        """
        plurals = ("pcidevices", "sriovgpudevices", "vgpudevices", "usbdevices", "nodes")
        paths = [f"{DEVICES}/{plural}" for plural in (*plurals, "sriovnetworkdevices")]
        paths += ["/api/v1/nodes", "/api/v1/namespaces"]
        paths.append("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
        return {
            (path, item["metadata"]["name"]): (
                item["metadata"]["uid"],
                "" if path == "/api/v1/nodes" else item["metadata"]["resourceVersion"],
            )
            for path in paths
            for item in self.call(path)["items"]
        }


def failure(*arguments: str, status: int = 1, **env: str) -> str:
    """The one line of a command that fails."""
    done = subprocess.run(
        [sys.executable, "-m", "laneway", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
        stdin=subprocess.DEVNULL,
        env=environment(**env),
    )
    assert (done.returncode, done.stdout) == (status, ""), done
    assert done.stderr.startswith("laneway: "), done.stderr
    [line] = done.stderr.splitlines()
    return line


def fetch(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=SECONDS) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
