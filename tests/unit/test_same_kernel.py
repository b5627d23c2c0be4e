"""Agreement of ends to omit the ICRC."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from openmrc.connection import same_kernel
from openmrc.connection.settings import QpSettings
from openmrc.linux.boot import boot_id
from openmrc.verbs import Device, Port

SETTINGS = QpSettings()


def device(*ports: Port, **members: Any) -> Device:
    made = {"ports": ports or (Port("10.0.0.1"),), "paths": None}
    return cast("Device", SimpleNamespace(**(made | members)))


def test_ends_on_one_kernel_have_the_same_identity_and_keep_the_boot_identifier_to_themselves() -> None:
    mine = same_kernel.kernel_for(device(), SETTINGS)
    assert mine is not None
    assert mine == same_kernel.kernel_for(device(Port("10.0.0.2"), Port("10.0.1.2")), SETTINGS)
    assert boot_id() not in mine
    assert boot_id().replace("-", "") != mine


@pytest.mark.parametrize(
    "relayed",
    [
        device(Port("10.0.0.1"), Port("10.0.1.1", advertise="192.0.2.1")),
        device(paths=object()),
    ],
    ids=["another advertised address", "path file"],
)
def test_ends_behind_anything_that_may_change_packets_keep_the_icrc(relayed: Device) -> None:
    assert same_kernel.kernel_for(relayed, SETTINGS) is None


def test_integrity_icrc_keeps_the_icrc_everywhere() -> None:
    assert same_kernel.kernel_for(device(), replace(SETTINGS, integrity="icrc")) is None
