"""Which UDP ports the devices of these tests have, so that tests of several checkouts run on one machine at once."""

from __future__ import annotations

import os

UDP_PORT = 20_000 + os.getpid() % 5_000 * 2  # another process has another one; the next one is ours, too
