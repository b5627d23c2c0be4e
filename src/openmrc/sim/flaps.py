"""Links that fail at random: rate and duration are settings, times and places are drawn from the seed of the run."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field

from openmrc.config.section import Section
from openmrc.errors import ConfigError
from openmrc.fabric import Fabric, Fault, FaultTarget
from openmrc.units import parse_time

__all__ = ["FlapSection", "RandomFlaps"]

_PS_PER_MINUTE = 60 * 10**12
FLAPS_MAX = 100_000


def _above_zero(value: Any) -> int:
    time_ps = parse_time(value)
    if time_ps == 0:
        raise ConfigError("down_for", value, "a time above 0")
    return time_ps


Time = Annotated[int, BeforeValidator(parse_time)]


class FlapSection(Section):
    """A random process in the user's notation."""

    links: Literal["nic-t0", "t0-t1", "t1-t2"]
    flaps_per_minute: Annotated[float, Field(strict=True, ge=1e-6, le=1e12)]
    down_for: Annotated[int, BeforeValidator(_above_zero)]
    kind: Literal["down", "blackhole"] = "down"
    start: Annotated[int, BeforeValidator(parse_time), Field(alias="from")] = 0
    until: Time | None = None


@dataclass(frozen=True)
class RandomFlaps:
    """Flaps of one tier of links, as a Poisson process over all of them, on all planes. Times in picoseconds."""

    links: Literal["nic-t0", "t0-t1", "t1-t2"]
    flaps_per_minute: float
    down_for_ps: int
    kind: Literal["down", "blackhole"] = "down"
    start_ps: int = 0
    until_ps: int | None = None

    def draw(self, fabric: Fabric, seed: int, index: int, end_ps: int) -> list[Fault]:
        """The faults of one run until `end_ps`; `index` distinguishes several processes of a scenario.

        Raises:
            ConfigError: more than 100,000 flaps, or links that the fabric does not have.
        """
        if self.links == "t1-t2" and not fabric.t2s:
            raise ConfigError("random.links", self.links, "nic-t0 or t0-t1: this fabric has no T2s")
        until_ps = end_ps if self.until_ps is None else min(self.until_ps, end_ps)
        expected = self.flaps_per_minute * max(until_ps - self.start_ps, 0) / _PS_PER_MINUTE
        if expected > FLAPS_MAX:
            words = f"at most {FLAPS_MAX:,} flaps in a run; this makes {expected:,.0f}"
            raise ConfigError("random.flaps_per_minute", self.flaps_per_minute, words, hint="set until or duration")
        rng = np.random.default_rng([seed, zlib.crc32(f"random_flaps/{index}".encode())])
        times = np.sort(rng.integers(self.start_ps, max(until_ps, self.start_ps + 1), size=rng.poisson(expected)))
        return [
            Fault(self._link(fabric, rng), self.kind, start_ps=int(time), duration_ps=self.down_for_ps)
            for time in times
        ]

    def _link(self, fabric: Fabric, rng: np.random.Generator) -> FaultTarget:
        plane = int(rng.integers(fabric.planes))
        if self.links == "nic-t0":
            host, nic = divmod(int(rng.integers(fabric.hosts)), fabric.nics_per_host)
            return FaultTarget(plane=plane, host=host, nic=nic if fabric.nics_per_host > 1 else None)
        if self.links == "t0-t1":
            t0, uplink = int(rng.integers(fabric.t0s)), int(rng.integers(fabric.t1s))
            pod = t0 // fabric.t0s_per_pod if fabric.t0s_per_pod else 0
            return FaultTarget(plane=plane, t0=t0, t1=pod * fabric.t1s + uplink)
        t1, uplink = int(rng.integers(fabric.t1s_in_all)), int(rng.integers(fabric.t1_uplinks))
        return FaultTarget(plane=plane, t1=t1, t2=t1 % fabric.t1s * fabric.t1_uplinks + uplink)
