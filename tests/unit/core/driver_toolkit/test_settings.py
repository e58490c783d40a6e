"""What the toolkit refuses before it downloads or writes anything."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from laneway.core.driver_toolkit.settings import Settings, problems, shown

GOOD = Settings(
    location="https://files.example/NVIDIA-Linux-x86_64-570.133.20-vgpu-kvm.run",
    version="570.133.20",
    sha256="0a" * 32,
)


@pytest.mark.parametrize(
    "settings",
    [
        GOOD,
        replace(GOOD, location="http://10.0.0.1:8080/a.run?token=b", proxy="http://u:p@proxy:3128"),
        replace(GOOD, location="/driver/a b.run", ca_file=""),
        replace(GOOD, version="535.54", ca_file="/ca/ca.crt"),
    ],
)
def test_sound_settings_are_taken(settings: Settings) -> None:
    assert problems(settings) == ()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (replace(GOOD, location=""), "location is empty"),
        (replace(GOOD, location="ftp://a/b.run"), "must begin with https://, http:// or /"),
        (replace(GOOD, location="file:///etc/shadow"), "must begin with"),
        (replace(GOOD, location="https://"), "is no URL"),
        (replace(GOOD, location="https://a:99999999/b"), "is no URL"),
        (replace(GOOD, location="https://a/b c"), "is no URL"),
        (replace(GOOD, location="https://a/\nb"), "cannot be printed"),
        (replace(GOOD, location="https://u:p@a/b"), "a user or a password"),
        (replace(GOOD, location="/driver/../etc/x"), "without '..'"),
        (replace(GOOD, location="/driver/"), "path of a file"),
        (replace(GOOD, version="latest"), "must be like 570.133.20"),
        (replace(GOOD, version="570.133.20; reboot"), "must be like"),
        (replace(GOOD, sha256=""), "SHA-256 is missing; compute it: sha256sum FILE"),
        (replace(GOOD, sha256="0A" * 32), "lower case"),
        (replace(GOOD, proxy="socks5://proxy"), "begins with http://"),
        (replace(GOOD, location="/driver/a.run", proxy="http://proxy"), "of no use"),
        (replace(GOOD, ca_file="ca.crt"), "absolute path"),
    ],
)
def test_each_setting_that_cannot_be_followed_is_named(settings: Settings, words: str) -> None:
    (found,) = problems(settings)

    assert words in found


def test_all_problems_are_named_at_once() -> None:
    assert len(problems(Settings(location="", version="", sha256=""))) == 3


def test_neither_a_signature_nor_a_password_is_shown() -> None:
    assert shown("https://u:p@a.example:8443/b.run?X-Sig=c#d") == "https://a.example:8443/b.run"
    assert "p@" not in " ".join(problems(replace(GOOD, location="ftp://u:p@a/b")))
    assert shown("/driver/a.run") == "/driver/a.run"
