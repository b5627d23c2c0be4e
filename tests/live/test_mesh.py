"""A mesh of ranks that fails to connect: nothing that was connected by then stays open."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import ExitStack, suppress
from typing import Any

import pytest
from own_ports import UDP_PORT

from openmrc import Device, QpSettings
from openmrc.connection.connection import QpLink
from openmrc.connection.mesh import Mesh, MeshPeer
from openmrc.errors import OpenmrcError

pytestmark = pytest.mark.live


class GivingUpError(Exception):
    """A rank's reason to stop connecting."""


def mesh_of(device: Device, rank: int, size: int, connected: Any) -> Mesh:
    context = device.open_context()
    return Mesh(
        device,
        context.create_cq(64),
        rank=rank,
        size=size,
        job="job",
        host="127.0.0.1",
        settings=QpSettings(),
        urgent=[False],
        mailbox=lambda _rank: (0, 0),
        connected=connected,
        domain=context.alloc_pd(),
    )


def test_a_handshake_that_is_completed_while_the_mesh_fails_leaves_nothing_open() -> None:
    go = threading.Event()
    taken: list[QpLink] = []

    def give_up() -> None:
        go.set()
        time.sleep(0.3)  # the last line of rank 0 arrives while this loop does not run
        raise GivingUpError

    with ExitStack() as stack:
        devices = [stack.enter_context(Device([f"127.0.62.{9 + rank}"], udp_port=UDP_PORT)) for rank in range(2)]
        absent = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        client = stack.enter_context(mesh_of(devices[0], 0, 2, lambda *_: go.wait(20)))
        server = stack.enter_context(mesh_of(devices[1], 1, 3, lambda _rank, links, _theirs: taken.extend(links)))

        def join() -> None:
            with suppress(OpenmrcError):
                for link in client.connect({1: server.card}, 20, lambda: None)[1]:
                    link.close()

        joining = threading.Thread(target=join)
        joining.start()
        silent = MeshPeer(f"127.0.0.1:{absent.getsockname()[1]}", "token")
        with pytest.raises(GivingUpError):
            server.connect({2: silent}, 20, give_up)
        joining.join(60)
        assert taken
        assert all(link.closed for link in taken)
