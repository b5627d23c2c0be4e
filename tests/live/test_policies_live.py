"""Policies compiled by Numba carry real packets: an EV selector and a controller under a live connection."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from own_ports import UDP_PORT

import openmrc
from openmrc import policies
from openmrc.connection import Connection, QpSettings
from openmrc.errors import ConfigError
from openmrc.verbs import Access, Device

numba = pytest.importorskip("numba")
pytestmark = pytest.mark.live

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "custom_policy.py"


def register_fixed_window(name: str, packets: int) -> None:
    """Registers a controller that keeps `packets` in flight."""

    @numba.cfunc(policies.CC_INIT_SIGNATURE)
    def init(state: Any, mtu: Any, rate: Any, base_rtt: Any, limit: Any, trimming: Any) -> None:
        state[0] = packets * mtu

    @numba.cfunc(policies.CC_ON_ACK_SIGNATURE)
    def on_ack(state: Any, now: Any, new: Any, in_flight: Any, rtt: Any, marked: Any, pen: Any, restore: Any) -> None:
        pass

    @numba.cfunc(policies.CC_ON_TRIM_SIGNATURE)
    def on_trim(state: Any, now: Any, size: Any, in_flight: Any, last_hop: Any) -> None:
        pass

    @numba.cfunc(policies.CC_ON_LOSS_SIGNATURE)
    def on_loss(state: Any, now: Any, size: Any, in_flight: Any) -> None:
        pass

    @numba.cfunc(policies.CC_WINDOW_SIGNATURE)
    def window_bytes(state: Any) -> Any:
        return state[0]

    policies.register_controller(
        name, init=init, on_ack=on_ack, on_trim=on_trim, on_loss=on_loss, window_bytes=window_bytes
    )


def test_a_connection_uses_the_policies_that_it_names() -> None:
    policies.load(EXAMPLE)
    register_fixed_window("live_window", packets=32)
    settings = QpSettings(transport="mrc", ev_selector="long_reps", controller="live_window")
    target, data = bytearray(3_000_000), bytearray(range(250)) * 12_000
    with (
        Device(["127.0.0.41", "127.0.0.42"], udp_port=UDP_PORT) as a,
        Device(["127.0.0.51", "127.0.0.52"], udp_port=UDP_PORT) as b,
    ):
        found: list[Connection] = []
        region = b.open_context().alloc_pd().register(target, Access.REMOTE_WRITE)
        with openmrc.listen(b, "127.0.0.1:0", region=region, settings=settings) as at:
            thread = threading.Thread(target=lambda: found.append(at.accept(timeout_s=20)))
            thread.start()
            client = openmrc.connect(a, at.address, settings=settings, timeout_s=20)
            thread.join()
        with client, found[0]:
            client.write(data, 0).wait(20)
            assert target == data
            assert client.qp.cc_profile is not None
            assert client.qp.cc_profile.controller_name == "live_window"


def test_a_policy_that_nobody_registered_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"controller is 'swift'; allowed: none, nscc"):
        QpSettings(controller="swift")
