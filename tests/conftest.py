"""Settings that all tests share: Hypothesis profiles and the native test programs."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import own_namespace
import pytest
from hypothesis import HealthCheck, settings
from skips import pytest_make_collect_report, pytest_runtest_makereport  # noqa: F401  # hooks

REPOSITORY = Path(__file__).resolve().parent.parent

# HYPOTHESIS_PROFILE: `dev` is quick, `ci` draws more and repeats the same examples, `nightly` draws for long.
settings.register_profile("dev", max_examples=50, deadline=None)
settings.register_profile(
    "ci", max_examples=200, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("nightly", max_examples=5000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))

# A shell that runs this in the background ignores interrupts, and our children would inherit that: tests that interrupt
# them would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Gives each process that runs tests (a worker, or this one without workers) namespaces of its own."""
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        own_namespace.enter()


@pytest.fixture(autouse=True)
def _own_signal_handlers() -> Iterator[None]:
    """Removes handlers left by commands that run in this process, which a child forked later would inherit."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    handlers = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, handlers, strict=True):
        signal.signal(number, handler)


@pytest.fixture(scope="session")
def repository() -> Path:
    """Root of the checkout."""
    return REPOSITORY


@pytest.fixture(scope="session")
def native_tests() -> Path:
    """Folder of openmrc_tests and openmrc_sim, as `make test` builds them."""
    folder = Path(os.environ.get("OPENMRC_TEST_BUILD", REPOSITORY / "build" / "test"))
    if not (folder / "openmrc_tests").exists():
        pytest.skip("the C++ tests are not built; `make test` builds them")
    return folder


@pytest.fixture(scope="session")
def nccl_harness(native_tests: Path) -> Path:
    """The program that calls the network plugin for NCCL as NCCL does."""
    return native_tests / "openmrc_nccl_harness"
