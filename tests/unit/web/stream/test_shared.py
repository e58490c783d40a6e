"""Tabs of one user that show the same page share its drawing until something changes."""

from __future__ import annotations

from laneway.web.stream.shared import Drawn, Shared


def test_a_drawing_is_made_once_for_each_version_page_and_user() -> None:
    shared, made = Shared(), 0

    def draw() -> Drawn:
        nonlocal made
        made += 1
        return Drawn({"live_table": f"<div>{made}</div>"}, None)

    looks = [("/gpus", "a", "1"), ("/gpus", "a", "1"), ("/gpus", "b", "1"), ("/pci", "a", "1")]
    blocks = [shared.get((url, user), version, draw).blocks for url, user, version in looks]
    assert blocks[0] is blocks[1]
    assert made == 3

    assert shared.get(("/gpus", "a"), "2", draw).blocks != blocks[0]
    assert made == 4
