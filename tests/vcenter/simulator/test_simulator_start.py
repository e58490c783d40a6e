"""The simulator that a new user starts."""

from __future__ import annotations

import signal
import subprocess

from support.vcenter import ROOT, SECONDS, Simulator

THUMBPRINT = "43:3D:07:97:D4:10:A9:12:EF:09:39:40:44:B7:7C:C0:66:F1:EF:31"
"""The same on every machine and with every compiler: examples name it."""


def test_it_says_how_to_log_in_and_ends_when_interrupted(vcenter_program: str) -> None:
    with subprocess.Popen(
        [ROOT / "tools" / "vcenter-sim" / "start.sh", "0"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        said = ""
        while "Stop with Ctrl-C." not in said:
            line = process.stdout.readline()
            assert line, said
            said += line
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS) == 0
    facts = dict(line.split() for line in said.splitlines() if line.startswith("  "))
    assert facts["server"].startswith("127.0.0.1:")
    assert (facts["user"], facts["password"]) == ("user", "pass")
    assert facts["thumbprint"] == THUMBPRINT


def test_others_have_certificates_of_their_own(vcenter: Simulator) -> None:
    assert vcenter.thumbprint != THUMBPRINT
