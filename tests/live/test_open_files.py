"""The limit of open files is named when it is the cause."""

from __future__ import annotations

import errno
import gc
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count, islice
from pathlib import Path

import pytest
from own_ports import UDP_PORT

from openmrc.connection.connection import queues_for
from openmrc.errors import DeviceError
from openmrc.verbs import Device

pytestmark = pytest.mark.live


def open_files() -> set[int]:
    gc.collect()  # garbage of earlier tests must not be closed in between
    listed = list(Path("/proc/self/fd").iterdir())
    return {int(entry.name) for entry in listed if entry.exists()}  # without the folder's own descriptor


@contextmanager
def descriptors_left(number: int) -> Iterator[int]:
    """Allows the process to open this number of further files; returns the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = open_files()
    limit = next(islice((one for one in count() if one not in taken), number, None))
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        yield limit
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.slow
@pytest.mark.parametrize("left", [0, 1, 2, 20, 66, 67, 68, 69])
def test_a_device_without_descriptors_names_the_limit_and_the_way_out(left: int) -> None:
    before = len(open_files())
    with (
        descriptors_left(left) as limit,
        pytest.raises(DeviceError, match=rf"may open {limit} files.*up to 66 sockets.*ulimit -n") as refused,
    ):
        Device(["127.0.0.71"], udp_port=UDP_PORT)
    assert refused.value.errno == errno.EMFILE
    assert len(open_files()) == before
    Device(["127.0.0.71"], udp_port=UDP_PORT).close()  # nothing is left bound


def test_a_completion_queue_without_descriptor_names_the_limit() -> None:
    with Device(["127.0.0.71"], udp_port=UDP_PORT) as device:
        context = device.open_context()
        before = len(open_files())
        with (
            descriptors_left(0) as limit,
            pytest.raises(DeviceError, match=rf"may open {limit} files.*completion queue.*ulimit -n") as refused,
        ):
            context.create_cq(16)
        assert refused.value.errno == errno.EMFILE
        assert len(open_files()) == before
        context.create_cq(16).close()


def test_a_connection_takes_both_completion_queues_or_none() -> None:
    with Device(["127.0.0.71"], udp_port=UDP_PORT) as device:
        before = len(open_files())
        with descriptors_left(1), pytest.raises(DeviceError, match="completion queue"):
            queues_for(device, 16, 16)
        assert len(open_files()) == before
        assert not device._queues
