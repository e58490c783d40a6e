"""The installer's command line, for releases with different options, and what its log says."""

from __future__ import annotations

from laneway.core.driver_toolkit.installer import (
    arguments,
    options_of,
    programs_only,
    telling_lines,
)

OLDER = """
  --no-kernel-module
      Install everything but the kernel module.
  --no-cc-version-check
  --no-x-check, --silent
"""
NEWER = """
  --skip-module-load
  --no-kernel-modules
  --dkms, --no-dkms
  --allow-installation-with-running-driver, --no-allow-installation-with-running-driver
"""


def options(argv: list[str]) -> list[str]:
    assert argv[:2] == ["/bin/sh", "/w/p.run"]
    return argv[2:]


def everything(help_text: str) -> list[str]:
    known = options_of(help_text)
    return options(
        arguments("/w/p.run", known, folder="/w", log="/w/log", headers="/h", modules="/m")
    )


def test_a_package_gets_the_options_that_it_has() -> None:
    always = ["--silent", "--tmpdir=/w", "--log-file-name=/w/log"]
    paths = ["--kernel-source-path=/h", "--kernel-install-path=/m"]

    assert everything("") == [*always, *paths]
    assert everything(OLDER) == [*always, "--no-x-check", "--no-cc-version-check", *paths]
    assert everything(NEWER) == [*always, "--no-dkms", "--skip-module-load", *paths]


def test_modules_in_the_kernel_are_left_alone_under_either_name_of_the_option() -> None:
    def found(help_text: str) -> list[str]:
        known = options_of(help_text)
        return options(programs_only("/w/p.run", known, folder="/w", log="/w/log"))[3:]

    assert "--no-kernel-module" in found(OLDER)
    assert found(NEWER) == [
        "--no-dkms",
        "--no-kernel-modules",
        "--allow-installation-with-running-driver",
    ]


def test_the_errors_of_a_build_are_told_and_not_the_noise_around_them() -> None:
    log = "\n".join(
        [
            "-> Kernel source path: /h",
            "make[1]: Entering directory '/h'",
            "nv.c:12:3: error: implicit declaration of function 'f'",
            "make[2]: *** [nv.o] Error 1",
            "make[1]: Leaving directory '/h'",
            *["   CC [M] x.o"] * 40,
        ]
    )

    assert telling_lines(log).splitlines() == [
        "nv.c:12:3: error: implicit declaration of function 'f'",
        "make[2]: *** [nv.o] Error 1",
    ]


def test_without_errors_the_end_of_a_log_is_told() -> None:
    assert telling_lines("\n".join(f"line {n}" for n in range(50)), 2) == "line 48\nline 49"
