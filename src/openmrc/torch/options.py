"""Options for the creation of a process group."""

from __future__ import annotations

from dataclasses import dataclass

from openmrc.collectives.world import TRAFFIC_CLASSES
from openmrc.errors import ConfigError

__all__ = ["Options"]


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a process group: `pg_options` of `init_process_group` and `new_group`.

    Args:
        traffic_class: "bulk", or "critical" for a group whose operations are small and must not wait behind bulk
        traffic
            of other groups.

    Raises:
        ConfigError: there is no such class.
    """

    traffic_class: str = "bulk"

    def __post_init__(self) -> None:
        if self.traffic_class not in TRAFFIC_CLASSES:
            raise ConfigError("traffic_class", self.traffic_class, ", ".join(TRAFFIC_CLASSES))
