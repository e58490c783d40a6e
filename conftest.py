"""What the tests of all packages share: how much is tried, by how many, and whom TLS trusts."""

from __future__ import annotations

import gc
import os

from hypothesis import HealthCheck, settings

TENTHS = int(os.environ.get("LANEWAY_TENTHS", "1"))

# No test fails because the machine was busy, and `make test` tries the same examples each time: new
# ones are for whoever runs `make test-laws`, and never for CI, where a change is judged by itself.
settings.register_profile(
    "laneway",
    max_examples=5 * TENTHS,
    derandomize=TENTHS == 1 or os.environ.get("CI") == "true",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("laneway")

# Of the system's authorities OpenSSL looks up in a folder what it needs, but of this file it reads
# all, each time that a client is made: longer than many a test takes. Ours trust their own.
os.environ["SSL_CERT_FILE"] = os.devnull

# Ten thousand collected tests are a million objects that stay. A collector that looks through them
# all, again and again, takes 0.7 s every few tests.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_xdist_auto_num_workers() -> int:
    """More than there are processors: half of the time tests wait for processes and timers."""
    return (os.cpu_count() or 1) * 2
