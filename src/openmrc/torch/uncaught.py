"""Report of an uncaught error: the program's own lines and the message, also in torchrun's summary.

A wrong value in the environment ends every rank. By default, each rank would print the whole traceback through torch
and this package, and torchrun would end with a summary without a reason.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import torch

__all__ = ["report_briefly"]

_ERROR_FILE = "TORCHELASTIC_ERROR_FILE"
_DEBUG = "TORCH_DISTRIBUTED_DEBUG"
_HIDDEN = tuple(f"{folder}{os.sep}" for folder in (Path(torch.__file__).parent, Path(__file__).parents[1]))


def report_briefly(error: BaseException) -> None:
    """Makes Python report this error with the frames of the program alone, if it ends the process.

    `TORCH_DISTRIBUTED_DEBUG=DETAIL` keeps the whole traceback. A hook installed by the program is called, too.
    """
    before = sys.excepthook

    def report(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
        if value is error:
            _tell_torchrun(error)
            if before is sys.__excepthook__ and os.environ.get(_DEBUG) != "DETAIL":
                sys.stderr.write(_brief(error, trace))  # in one write: ranks share the terminal
                sys.stderr.flush()
                return
        before(kind, value, trace)

    sys.excepthook = report


def _brief(error: BaseException, trace: TracebackType | None) -> str:
    frames = [frame for frame in traceback.extract_tb(trace) if not frame.filename.startswith(_HIDDEN)]
    head = ["Traceback of the program:\n", *traceback.format_list(frames)] if frames else []
    hint = f"({_DEBUG}=DETAIL shows the whole traceback)\n"
    return "".join([*head, hint, *traceback.format_exception_only(error)])


def _tell_torchrun(error: BaseException) -> None:
    """Writes the message for torchrun's summary, unless a file with more details exists."""
    named = os.environ.get(_ERROR_FILE)
    if not named or Path(named).exists():
        return
    text = "".join(traceback.format_exception_only(error)).strip()
    with suppress(OSError):
        Path(named).write_text(
            json.dumps({"message": {"message": text, "extraInfo": {"timestamp": str(int(time.time()))}}})
        )
