"""Waiting for a condition that another thread or process establishes."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(condition: Callable[[], object], poll_s: float = 0.005) -> None:
    """Returns once the condition holds. A wait in vain ends with the time limit of the test."""
    while not condition():
        time.sleep(poll_s)
