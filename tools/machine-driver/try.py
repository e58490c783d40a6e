#!/usr/bin/env python3
"""Have the machine driver do what Rancher has it do, on the cluster of `laneway up --rancher`.

    try.py create NAME [--laneway-OPTION=VALUE]...
    try.py rm | start | stop | restart | status NAME

The cluster is that of KUBECONFIG. A client of the tests stands for rancher-machine. It and the
driver are built on each call, which Go's cache makes quick; machines are kept in .laneway/machines.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
CLIENT = HERE.parents[1] / "tests/machine_driver/client"
STORE = Path(".laneway/machines")


def main(command: str, name: str, *options: str) -> str:
    """What is to be printed. Exits where the driver refuses."""
    kubeconfig = os.environ.get("KUBECONFIG")
    if not kubeconfig:
        raise SystemExit("KUBECONFIG is not set. It names the kubeconfig of the Harvester cluster.")
    given = {
        "laneway-kubeconfig-content": Path(kubeconfig).read_text(),
        "laneway-cluster-name": name.split("-", 1)[0],
        "laneway-image-name": "default/ubuntu",
        "laneway-disk-size": 20,
        "laneway-network-name": "default/vlan1",
        **dict(map(_option, options)),
    }
    STORE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        driver, client = f"{folder}/docker-machine-driver-laneway", f"{folder}/client"
        _run(HERE / "build.sh", driver)
        _run(CLIENT / "build.sh", client)
        found = json.loads(_run(client, driver, STORE, command, name, given=json.dumps(given)))
    if found["error"]:
        raise SystemExit(found["error"])
    return str(found["value"] or f"{name}: {command} is done")


def _run(*program: str | Path, given: str = "") -> str:
    """What a program prints. Exits where it fails, which it has explained by then."""
    done = subprocess.run(program, input=given, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.returncode)
    return done.stdout


def _option(text: str) -> tuple[str, str | int]:
    name, _, value = text.removeprefix("--").partition("=")
    return name, int(value) if value.isdecimal() else value


if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    print(main(*sys.argv[1:]))
