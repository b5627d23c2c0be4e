"""The process that holds a rootless test bed's namespaces: creates a private folder of namespaces, then sleeps."""

from __future__ import annotations

import os
import sys

from openmrc.testbed import namespaces


def keep() -> None:
    """Prepares, prints "ready" and becomes `sleep`, which needs hardly any memory."""
    try:
        namespaces.replug_folder()
    except OSError as error:
        sys.exit(f"{namespaces.FOLDER} cannot be made private: {error}")
    os.write(1, b"ready\n")
    silence = os.open(os.devnull, os.O_RDWR)
    for descriptor in (1, 2):
        os.dup2(silence, descriptor)
    os.execvp("sleep", ["sleep", "infinity"])  # noqa: S606


if __name__ == "__main__":
    keep()
