"""Every reason why there is no session has a text."""

from __future__ import annotations

import re
from pathlib import Path

from laneway.web import session
from laneway.web.rendering import Texts
from laneway.web.session.sign_in import NOTICES

_PROBLEM = re.compile(r'Problem\(\s*(?:"token_expired" if is_past else )?"(\w+)"')


def test_every_problem_has_a_text() -> None:
    (folder,) = session.__path__
    sources = [path.read_text() for path in Path(folder).glob("*.py")]
    found = {id_ for source in sources for id_ in _PROBLEM.findall(source)}
    assert {"token_missing", "not_recognised", "provider_failed"} <= found
    ids = Texts().ids()
    assert not {f"sign_in.{id_}" for id_ in found | NOTICES} - ids
