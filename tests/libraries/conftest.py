"""Kubernetes' own libraries; LANEWAY_CHECKER names the program that asks them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

Answer = dict[str, Any]


class Checker:
    """One process that answers one question after the other."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._questions, self._answers = process.stdin, process.stdout

    def ask(self, question: str, **parts: Any) -> Answer:
        """What the libraries say; the checker's README has the questions and the answers."""
        self._questions.write(msgspec.json.encode({"ask": question, **parts}) + b"\n")
        self._questions.flush()
        answer: Answer = msgspec.json.decode(self._answers.readline())
        assert "broken" not in answer, (question, parts, answer)
        return answer


@pytest.fixture(scope="session")
def checker() -> Iterator[Checker]:
    program = os.environ["LANEWAY_CHECKER"]
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield Checker(process)
    assert process.returncode == 0
