"""One run, of a sweep or of another series, executed: figures or an error, never an exception."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

from openmrc.errors import OpenmrcError

__all__ = ["Outcome", "attempt", "lost"]

# Outcome of a finished run: `figures`, `error` (empty on success), `traceback`, `wall_s`.
Outcome = dict[str, Any]

_Spec = TypeVar("_Spec")


def attempt(task: Callable[[_Spec], dict[str, Any]], spec: _Spec) -> Outcome:
    """The outcome of the task; any exception becomes the text of an error."""
    began = time.monotonic()
    try:
        figures: dict[str, Any] = task(spec)
    except OpenmrcError as error:
        return _failed(f"{type(error).__name__}: {error}", "", began)
    except Exception as error:  # noqa: BLE001 - one bad run must not end the others
        return _failed(f"{type(error).__name__}: {error}", traceback.format_exc(), began)
    return {"figures": figures, "error": "", "traceback": "", "wall_s": time.monotonic() - began}


def lost(reason: str, wall_s: float) -> Outcome:
    """The outcome of a run whose process died."""
    return {"figures": {}, "error": reason, "traceback": "", "wall_s": wall_s}


def _failed(text: str, trace: str, began: float) -> Outcome:
    return {"figures": {}, "error": text, "traceback": trace, "wall_s": time.monotonic() - began}
