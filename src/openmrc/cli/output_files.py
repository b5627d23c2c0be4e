"""Output files of commands, checked when the command line is read and not after the run."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from argparse import ArgumentTypeError
from contextlib import redirect_stdout
from contextvars import ContextVar
from pathlib import Path
from typing import TextIO

import typer

from openmrc.errors import ConfigError

__all__ = ["check_file", "check_folder", "file_argument", "writable_file", "writable_folder", "write_file"]

_ELSEWHERE = "--out names another folder"
_data_output: ContextVar[TextIO | None] = ContextVar("_data_output", default=None)


def writable_file(context: typer.Context, parameter: typer.CallbackParam, path: Path | None) -> Path | None:
    """Callback of an option for a file to write, None without one; "-" is stdout.

    With "-" everything else that the command prints goes to stderr, so that stdout is that file and nothing more.

    Raises:
        ConfigError: the file cannot be written, or another option of the command writes to stdout already.
    """
    if path is not None:
        check_file(parameter.opts[0], path)
        if str(path) == "-":
            _reserve_stdout(context, parameter.opts[0])
    return path


def _reserve_stdout(context: typer.Context, option: str) -> None:
    if _data_output.get() is not None:
        raise ConfigError(option, "-", "a file, as another option writes to stdout")
    token = _data_output.set(sys.stdout)
    context.call_on_close(lambda: _data_output.reset(token))
    context.with_resource(redirect_stdout(sys.stderr))


def check_file(option: str, path: Path) -> None:
    """Refuses a file that cannot be written, by the name of its option; "-" is stdout.

    Raises:
        ConfigError: the file cannot be written.
    """
    if str(path) == "-":
        return
    try:
        # Opening a pipe or a device may have side effects.
        existed = os.path.lexists(path)
        if not existed or stat.S_ISREG(path.stat().st_mode) or path.is_dir():
            with path.open("ab"):
                pass
        if not existed:
            path.unlink()
    except OSError as error:
        raise _refusal(option, path, error) from None


def writable_folder(parameter: typer.CallbackParam, path: Path | None) -> Path | None:
    """Callback of an option for a folder to write files into, which need not exist yet.

    Raises:
        ConfigError: the folder cannot be made, or no file can be made in it.
    """
    if path is not None:
        check_folder(parameter.opts[0], path)
    return path


def check_folder(option: str, path: Path) -> None:
    """Refuses a folder that cannot be made, or in which no file can be made, by the name of its option.

    Raises:
        ConfigError: the folder cannot be made, or no file can be made in it.
    """
    there = next(each for each in (path, *path.absolute().parents) if os.path.lexists(each))
    if not there.is_dir():
        raise ConfigError(option, str(path), f"a writable folder: {there} is not a folder", hint=_ELSEWHERE)
    try:
        # Permissions are not enough: root may write everywhere, but not on a read-only file system.
        Path(tempfile.mkdtemp(prefix=".openmrc-", dir=there)).rmdir()
    except OSError as error:
        allowed = f"a writable folder: {there}: {error.strerror}"
        raise ConfigError(option, str(path), allowed, hint=_ELSEWHERE) from None


def file_argument(text: str) -> Path:
    """Type of an argument of `argparse` for a file to write.

    Raises:
        ArgumentTypeError: the file cannot be written.
    """
    try:
        check_file("file", Path(text))
    except ConfigError as error:
        msg = f"{text!r}: {error.allowed}"
        raise ArgumentTypeError(msg) from None
    return Path(text)


def write_file(option: str, path: Path, text: str) -> None:
    """Writes `text` to the file, or to stdout where it is "-".

    Raises:
        ConfigError: the file cannot be written.
    """
    if str(path) == "-":
        print(text, end="", file=_data_output.get() or sys.stdout)
        return
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise _refusal(option, path, error) from None


def _refusal(option: str, path: Path, error: OSError) -> ConfigError:
    return ConfigError(option, str(path), f"a writable file: {error.strerror}")
