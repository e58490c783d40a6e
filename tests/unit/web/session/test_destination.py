"""After signing in a user is on this site, whatever the address said."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from yarl import URL

from laneway.web.session.destination import destination


@pytest.mark.parametrize(
    "address",
    [
        "/",
        "/gpus/node1-000008000",
        "/vgpus?parent=node1-000008000&page=2",
        "/vms/default/a%20b?filter=a%2Fb",
        "/sign-in/done",
    ],
)
def test_a_page_of_this_site_stays(address: str) -> None:
    assert destination(address) == address


@pytest.mark.parametrize(
    "address",
    [
        "",
        "gpus",
        "https://evil.example/",
        "//evil.example",
        "///evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "/%5cevil.example",
        "/%2Fevil.example",
        "/%252Fevil.example",
        "/a//b",
        "/\t/evil.example",
        "/%09/evil.example",
        "/a\r\nSet-Cookie: a=b",
        "/%0d%0aSet-Cookie:%20a=b",
        " /gpus",
        "/gpus#a",
        "javascript:alert(1)",
        "/é",
        "/" + "a" * 3000,
        "/sign-in",
        "/sign-in?next=/sign-in",
        "/sign-out",
        "/session",
    ],
)
def test_everything_else_becomes_the_first_page(address: str) -> None:
    assert destination(address) == "/"


@given(st.text(alphabet="/\\%25f5c:@?.a\t", max_size=20))
@example("/@evil.example")
def test_no_text_leads_to_another_site(address: str) -> None:
    here = URL("https://laneway.example/sign-in")
    found = here.join(URL(destination(address)))
    assert found.origin() == here.origin()
