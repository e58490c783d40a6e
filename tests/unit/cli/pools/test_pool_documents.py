"""Files with pools that cannot be read: what is told of them, and that none is waited for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from laneway.cli.errors import Failure
from laneway.cli.pools.documents import managed_of

CLUSTER = "apiVersion: provisioning.cattle.io/v1\nkind: Cluster\n"
QUANTITY = "metadata: {name: a}\nspec: {rkeConfig: {machinePools: [{name: p, quantity: x}]}}\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            CLUSTER + QUANTITY,
            "machinePools[0].quantity is text, and must be a whole number",
        ),
        (CLUSTER + "metadata: 5\n", "Cluster: metadata is a whole number, and must be a map"),
        ("kind: List\nitems: [5]\n", "has a document that is no object of Kubernetes"),
    ],
)
def test_wrong_types_are_told_with_file_object_and_field(
    tmp_path: Path, text: str, words: str
) -> None:
    right, wrong = tmp_path / "right.yaml", tmp_path / "wrong.yaml"
    right.write_text(CLUSTER + "metadata: {name: b}\n")
    wrong.write_text(text)
    with pytest.raises(Failure) as failed:
        managed_of((str(right), str(wrong)))
    assert failed.value.message.startswith(str(wrong))
    assert failed.value.message.endswith(words)


def test_only_files_of_utf_8_text_are_read(tmp_path: Path) -> None:
    other, pipe = tmp_path / "u16.yaml", tmp_path / "pipe"
    other.write_bytes((CLUSTER + "metadata: {name: a}\n").encode("utf-16"))
    os.mkfifo(pipe)
    for path, words in (
        (str(other), r"u16\.yaml is not UTF-8 text; save it as UTF-8"),
        (str(pipe), "pipe is not a regular file; name a YAML file"),
        ("-", "standard input is not read; name a file"),
    ):
        with pytest.raises(Failure, match=words):
            managed_of((path,))
