"""Ends whose packets stay within one kernel, and so need no ICRC."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openmrc.linux.boot import hashed_boot_id

if TYPE_CHECKING:
    from openmrc.verbs import Device

    from .settings import QpSettings

__all__ = ["kernel_for"]


def kernel_for(device: Device, settings: QpSettings) -> str | None:
    """Identity of this host's kernel, if peers on the same one may omit the ICRC (X.4.10 of the protocol); else None.

    A port with another advertised address is reached through something that replaces addresses, such as the emulated
    fabric, which may also damage packets.
    """
    relayed = any(port.advertise not in (None, port.address) for port in device.ports)
    if settings.integrity != "auto" or relayed or device.paths is not None:
        return None
    return hashed_boot_id()
