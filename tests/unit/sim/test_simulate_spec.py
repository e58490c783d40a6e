"""`--simulate` says clearly what it takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from laneway.sim.dump import DumpError
from laneway.sim.spec import Spec, SpecError, build, parse_spec


def test_models_with_and_without_a_count() -> None:
    assert parse_spec("a2") == Spec(model="a2")
    assert parse_spec("hgx-h100:3") == Spec(model="hgx-h100", count=3)
    assert parse_spec("l40s:2").label == "l40s"


def test_the_path_of_a_dump(a2_dump_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = parse_spec(str(a2_dump_path))
    assert (spec.path, spec.count, spec.label) == (str(a2_dump_path), 1, "a2-vgpu-node")
    monkeypatch.chdir(a2_dump_path.parent)
    assert parse_spec(a2_dump_path.name).path == a2_dump_path.name


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("b2", "unknown model 'b2': use one of a2, a2-vfio, l40s, a100, hgx-h100, plain"),
        ("", "unknown model"),
        ("a2:", "unknown model"),
        ("a2:x", "unknown model"),
        ("a2:0", "use 1 to 1000"),
        ("a2:1001", "use 1 to 1000"),
        ("./none.umockdev", "no dump at ./none.umockdev"),
        ("/", "no dump at /"),
    ],
)
def test_anything_else_is_refused_in_one_line(text: str, complaint: str) -> None:
    with pytest.raises(SpecError, match=complaint) as caught:
        parse_spec(text)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_dump_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"\x7fELF\0\0\n")
    with pytest.raises(DumpError, match="x line 1: expected 'P: "):
        build(parse_spec(str(path)), "node")
