"""Record what a version of Laneway leaves behind, for later versions to be tested with.

    git worktree add /tmp/that-version COMMIT
    python tools/earlier/record.py /tmp/that-version tests/data/earlier/NAME

Starts `laneway up` of that version with the arguments in `desired.yaml` of the folder,
requests what stands there, waits for each desired state to be as it says, stops, and writes
next to it:

    objects.yaml.xz  all objects as the API server gave them, and all CRDs
    data.tar.xz      the data directory, without its keys and tokens, which a start makes again

The newest one that is recorded, and in git's history, is also the version from which tests upgrade.
"""

from __future__ import annotations

import json
import lzma
import os
import signal
import ssl
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import yaml

SECONDS = 60.0
READY = "Stop with Ctrl-C."
GROUPS = {
    "/apis/devices.harvesterhci.io/v1beta1": None,
    "/apis/node.harvesterhci.io/v1beta1": None,
    "/apis/kubevirt.io/v1": None,
    "/api/v1": {"nodes"},
    "/apis/apiextensions.k8s.io/v1": {"customresourcedefinitions"},
}
"""Where objects are looked for, and of which kinds; None for all there are."""
SECRET = {"pki", "token", "kubeconfig"}
"""What is left out of a data directory; a start makes it again."""


class Api:
    def __init__(self, data_dir: Path) -> None:
        config = yaml.safe_load((data_dir / "kubeconfig").read_text())
        self._url = config["clusters"][0]["cluster"]["server"]
        self._token = config["users"][0]["user"]["token"]
        self._tls = ssl.create_default_context(cafile=str(data_dir / "pki" / "ca.crt"))

    def call(self, path: str, method: str = "GET", body: Any = None) -> Any:
        kind = "merge-patch+json" if method == "PATCH" else "json"
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": f"application/{kind}"}
        data = None if body is None else json.dumps(body).encode()
        url = self._url + path
        request = urllib.request.Request(url, data, headers, method=method)  # noqa: S310  https
        with urllib.request.urlopen(  # noqa: S310  as its own kubeconfig says: https
            request, timeout=SECONDS, context=self._tls
        ) as response:
            return json.load(response)

    def all(self) -> dict[str, list[Any]]:
        """The objects of every kind, by the path of the kind."""
        found = {}
        for group, kinds in GROUPS.items():
            try:
                resources = self.call(group)["resources"]
            except urllib.error.HTTPError as error:
                if error.code != 404:
                    raise
                continue
            for name in sorted(resource["name"] for resource in resources):
                if "/" not in name and (kinds is None or name in kinds):
                    listed = self.call(f"{group}/{name}")
                    about = {"apiVersion": listed["apiVersion"]}
                    about["kind"] = listed["kind"].removesuffix("List")
                    found[f"{group}/{name}"] = [about | item for item in listed["items"]]
        return {path: items for path, items in found.items() if items}


def holds(value: Any, wanted: Any) -> bool:
    """Whether all that is wanted is in the value; of lists, whether some element has it."""
    if isinstance(wanted, dict):
        return isinstance(value, dict) and all(holds(value.get(k), v) for k, v in wanted.items())
    if isinstance(wanted, list):
        return all(any(holds(one, w) for one in value or ()) for w in wanted)
    return bool(value == wanted)


def carry_out(api: Api, desired: dict[str, Any]) -> None:
    path = desired["path"]
    if "patch" in desired:
        api.call(path, "PATCH", desired["patch"])
    if "create" in desired:
        api.call(path, "POST", desired["create"])
        path += "/" + desired["create"]["metadata"]["name"]
    deadline = time.monotonic() + SECONDS
    while not holds(got := api.call(path), desired["until"]):
        if time.monotonic() > deadline:
            raise SystemExit(
                f"{path} does not become {desired['until']}: {json.dumps(got, indent=1)}"
            )
        time.sleep(0.1)


def settled(api: Api) -> dict[str, list[Any]]:
    """All objects, once two looks at them see the same."""
    seen = api.all()
    while True:
        time.sleep(3)
        now = api.all()
        if now == seen:
            return now
        seen = now


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Without the owner of the files."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def main(source: Path, out: Path) -> None:
    plan = yaml.safe_load((out / "desired.yaml").read_text())
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        command = [sys.executable, "-m", "laneway", "up", "--data-dir", str(data), "--port", "0"]
        process = subprocess.Popen(
            [*command, "--no-local", *plan["arguments"]],
            env=dict(os.environ, PYTHONPATH=str(source / "src")),
            stdout=subprocess.PIPE,
            text=True,
        )
        for line in process.stdout or ():
            if READY in line:
                break
        try:
            api = Api(data)
            for desired in plan["desired"]:
                carry_out(api, desired)
            objects = settled(api)
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=SECONDS)
        text = yaml.safe_dump_all([o for items in objects.values() for o in items], width=1000)
        (out / "objects.yaml.xz").write_bytes(lzma.compress(text.encode(), preset=9))
        with tarfile.open(out / "data.tar.xz", "w:xz", preset=9) as tar:
            for path in sorted(data.iterdir()):
                if path.name not in SECRET:
                    tar.add(path, path.name, filter=_without_owner)
    print({path: len(items) for path, items in objects.items()})


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
