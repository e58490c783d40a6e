"""Kubernetes' own libraries; LANEWAY_CHECKER names the program that asks them."""

from __future__ import annotations

import atexit
import os
import subprocess
from functools import cache
from typing import Any

import msgspec

Answer = dict[str, Any]


class Checker:
    """One process that answers one question after the other."""

    def __init__(self, program: str) -> None:
        self._process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, question: str, **parts: Any) -> Answer:
        """What the libraries say; the checker's README has the questions and the answers."""
        questions, answers = self._process.stdin, self._process.stdout
        assert questions is not None
        assert answers is not None
        questions.write(msgspec.json.encode({"ask": question, **parts}) + b"\n")
        questions.flush()
        answer: Answer = msgspec.json.decode(answers.readline())
        assert "broken" not in answer, (question, parts, answer)
        return answer

    def end(self) -> None:
        self._process.communicate()
        assert self._process.returncode == 0


@cache
def checker() -> Checker | None:
    """The one of this run; None outside of the tier that builds it."""
    if not (program := os.environ.get("LANEWAY_CHECKER")):
        return None
    started = Checker(program)
    atexit.register(started.end)
    return started
