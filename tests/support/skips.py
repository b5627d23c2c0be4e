"""Hooks of pytest: with OPENMRC_TEST_SKIPS=fail a skip for lack of an installed package is a failure."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

# Prefixes of the reasons that remain with every tool and package installed.
BEYOND_INSTALLATION = ("this kernel ", "this machine ")


def _fail_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turns a skip that an installed tool or package, or a privilege, would have prevented into a failure."""
    if os.environ.get("OPENMRC_TEST_SKIPS") != "fail" or not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if not reason.removeprefix("Skipped: ").startswith(BEYOND_INSTALLATION):
        report.outcome = "failed"
        report.longrepr = f"skipped where nothing may be: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _fail_if_skipped(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _fail_if_skipped(report)
    return report
