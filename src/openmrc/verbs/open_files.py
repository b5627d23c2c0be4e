"""Errors of the operating system about open files, with the limit that was reached."""

from __future__ import annotations

import errno
import resource

from openmrc.errors import DeviceError

__all__ = ["explained"]


def explained(error: DeviceError, needs: str, else_do: str) -> DeviceError:
    """The error; if open files ran out, with the limit that was reached and a way to stay below it.

    Args:
        error: Of the native device.
        needs: Consumers of files, with numbers: "a completion queue opens an eventfd".
        else_do: Remedy besides a higher limit: "or close connections".
    """
    if error.errno == errno.EMFILE:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        allowed, way_out = f"this process may open {limit} files", "raise it with `ulimit -n`"
    elif error.errno == errno.ENFILE:
        allowed, way_out = "all processes together have reached the limit of open files", "raise fs.file-max"
    else:
        return error
    return DeviceError(error.errno, f"{error.strerror}: {allowed}, and {needs}; {way_out}, {else_do}")
