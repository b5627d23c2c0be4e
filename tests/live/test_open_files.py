"""The limit of open files is named when it is the cause."""

from __future__ import annotations

import errno
import resource
from itertools import count, islice
from pathlib import Path

import pytest
from own_ports import UDP_PORT

from openmrc.errors import DeviceError
from openmrc.verbs import Device

pytestmark = pytest.mark.live


def test_a_device_without_descriptors_names_the_limit_and_the_way_out():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = {int(entry.name) for entry in Path("/proc/self/fd").iterdir()}
    limit = next(islice((number for number in count() if number not in taken), 20, None))  # leaves 20
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        with pytest.raises(DeviceError, match=rf"may open {limit} files.*up to 65 sockets.*ulimit -n") as refused:
            Device(["127.0.0.71"], udp_port=UDP_PORT)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert refused.value.errno == errno.EMFILE
    Device(["127.0.0.71"], udp_port=UDP_PORT).close()  # nothing is left bound
