"""The command that the web interface shows means the changes that it was made of."""

from __future__ import annotations

import shlex

from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from laneway.cli import cli
from laneway.cli.planning.asked import Asked, changes
from laneway.core.fleet.changes import (
    AddGpus,
    AddNodes,
    AddVms,
    Change,
    ChangeRequests,
    LeaveNode,
    SetInstances,
    SetMode,
)
from laneway.core.fleet.model import Fleet
from laneway.views.planning.command import command

_NAMES = st.from_regex(r"[a-z0-9]{1,4}(-[a-z0-9]{1,4})?", fullmatch=True)
_SERVERS = st.sampled_from(["l40s", "a100*2", "a2*1"])
_COUNTS = st.integers(1, 64)
_REQUESTS = st.dictionaries(_NAMES.map("nvidia.com/{}".format), _COUNTS, min_size=1, max_size=3)
_LABELS = st.dictionaries(_NAMES.map("example.com/{}".format), _NAMES, max_size=2)
_ONE_VM = st.builds("{}/{}".format, _NAMES, _NAMES)
_CHANGES: tuple[st.SearchStrategy[Change], ...] = (
    st.builds(AddNodes, nodes=st.builds("{}x {}".format, _COUNTS, _SERVERS)),
    st.builds(AddGpus, node=_NAMES, board=_NAMES, count=st.integers(1, 16)),
    st.builds(SetMode, gpus=st.tuples(_ONE_VM), mode=_NAMES),
    st.builds(
        SetInstances,
        gpus=st.tuples(_NAMES),
        instances=st.dictionaries(
            st.sampled_from(["1g.5gb", "3g.20gb", "1g.5gb+me"]), _COUNTS, min_size=1
        ),
    ),
    st.builds(LeaveNode, node=_NAMES),
    st.builds(ChangeRequests, requests=_REQUESTS, vms=st.tuples(_ONE_VM)),
    st.builds(AddVms, requests=_REQUESTS, count=_COUNTS, selector=_LABELS),
)
_OPTIONS = {
    "--add-nodes": "nodes",
    "--add-gpus": "gpus",
    "--mode": "mode",
    "--instances": "instances",
    "--leave": "leave",
    "--change": "requests",
    "--vms": "vms",
}


@given(st.tuples(*(st.lists(one, max_size=2, unique_by=str) for one in _CHANGES)))
def test_the_command_of_changes_asks_for_these_changes(groups: tuple[list[Change], ...]) -> None:
    asked = [change for group in groups for change in group]
    program, *words = shlex.split(command(asked))
    assert [program, *words[:2]] == ["laneway", "plan", "what-if"]
    pairs = zip(words[2::2], words[3::2], strict=True)
    typed: dict[str, list[str]] = {}
    for option, text in pairs:
        typed.setdefault(_OPTIONS[option], []).append(text)
    assert changes(Asked(**typed), Fleet()) == asked


def test_a_shown_command_runs() -> None:
    asked = [AddVms(requests={"nvidia.com/NVIDIA_L40S-24Q": 2}, count=2)]
    words = shlex.split(command(asked, "2x l40s"))
    found = CliRunner().invoke(cli, words[1:], standalone_mode=False)
    assert found.output.startswith("Yes: there is room for 2 VMs.")
