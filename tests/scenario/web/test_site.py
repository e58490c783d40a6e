"""What holds for every answer of the site: headers, rights, addresses that name nothing."""

from __future__ import annotations

from typing import Any

import pytest

from laneway.web.pages import PAGES
from support.signing_in import Browser, csrf_of
from support.troubled_cluster import GPU, VGPUS
from support.web_pages import text_of
from support.web_site import SeparateSite, rule

FIXED = sorted({page.pattern for page in PAGES if "{" not in page.pattern})
GUARDS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/", 200),
        ("/sign-in", 303),
        ("/no-such-page", 404),
        ("/gpus/no-such-gpu", 404),
        ("/static/0/laneway.css", 404),
        ("/stream?page=/no-such-page", 404),
        (f"/gpus?{'&'.join(f'a{n}=1' for n in range(500))}", 400),
    ],
)
async def test_every_answer_tells_browsers_to_load_nothing_from_elsewhere(
    admin_of_troubled: Browser, path: str, status: int
) -> None:
    answer = await admin_of_troubled.get(path)

    assert answer.status == status
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert GUARDS.items() <= dict(answer.headers).items()
    assert answer.headers["Cache-Control"] == "no-store"


async def test_a_user_without_rights_is_told_which_is_missing_by_the_page_and_by_its_stream(
    troubled: SeparateSite, arrive: Any
) -> None:
    browser, refused = await arrive(troubled.account("nothing")), 0
    for path in FIXED:
        page = await browser.get(path)
        assert not [name for name in (GPU, *VGPUS) if name in page.text], path
        if page.status == 403:
            refused += 1
            assert "You may not list" in text_of(page.text)
            async with browser.stream(path) as stream:
                event = await stream.next()
            assert "You may not list" in text_of(event)
            assert not [name for name in (GPU, *VGPUS) if name in event], path
    assert refused > len(FIXED) / 2


async def test_a_form_of_another_site_changes_nothing(admin_of_troubled: Browser) -> None:
    path = f"/gpus/{GPU}/mode"
    csrf = csrf_of((await admin_of_troubled.get(path)).text)
    fields = {"mode": "Passthrough", "csrf": csrf}

    for headers in (
        {"Origin": "https://elsewhere.example"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ):
        assert (await admin_of_troubled.post(path, fields, **headers)).status == 403
    assert (await admin_of_troubled.post(path, {**fields, "csrf": "0" * 64})).status == 403
    assert (await admin_of_troubled.post(path, {"mode": "Passthrough"})).status == 403


async def test_any_object_is_shown_as_the_users_own_token_reads_it(
    troubled: SeparateSite, arrive: Any, admin_of_troubled: Browser
) -> None:
    path = f"/objects/vgpudevices/{VGPUS[0]}"
    page = await admin_of_troubled.get(path)
    assert f"kubectl get vgpudevices.devices.harvesterhci.io {VGPUS[0]} -o yaml" in text_of(
        page.text
    )
    assert "managedFields" not in page.text
    for hidden in ("/objects/secrets/default/token", "/objects/vgpudevices/no-such"):
        assert (await admin_of_troubled.get(hidden)).status == 404
    browser = await arrive(troubled.account("nodes-only", rule("", ["nodes"])))
    answer = await browser.get(path)
    assert answer.status == 403
    assert "cannot get resource" in answer.text
