"""Report of an error that nobody catches: lines of the program and the message, which torchrun's summary shows, too.

A wrong value in the environment ends every rank. Python would print the whole way through torch and this package at
each of them, and torchrun would end with a summary that has no reason in it.
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
    """Lets Python report this very error by the frames of the program alone, if it ends the process.

    `TORCH_DISTRIBUTED_DEBUG=DETAIL` keeps the whole traceback. A hook that the program has installed is called, too.
    """
    before = sys.excepthook

    def report(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
        if value is error:
            _tell_torchrun(error)
            if before is sys.__excepthook__ and os.environ.get(_DEBUG) != "DETAIL":
                sys.stderr.write(_brief(error, trace))  # at once: ranks share the terminal
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
    """The message as torchrun's summary shows it; whoever wrote the file before knows more."""
    named = os.environ.get(_ERROR_FILE)
    if not named or Path(named).exists():
        return
    text = "".join(traceback.format_exception_only(error)).strip()
    with suppress(OSError):
        Path(named).write_text(
            json.dumps({"message": {"message": text, "extraInfo": {"timestamp": str(int(time.time()))}}})
        )
