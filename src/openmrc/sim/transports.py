"""Transports of a scenario: their settings in the user's notation, and converted for the native simulation.

Times and rates lose their unit in the file (`probe_interval: 10ms`) and have it in the native name
(`probe_interval_ps`). A setting of 0 that means "formula" is computed natively from rates and the base RTT.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from openmrc import _native
from openmrc.config.section import Section, count, quantity
from openmrc.errors import ConfigError, did_you_mean
from openmrc.fabric.file_sections import Flag, on_off, size
from openmrc.sim.native_settings import DctcpSettings, DeniedPath, MrcSettings, RoceSettings
from openmrc.units import parse_bytes, parse_rate, parse_time, parse_time_ns
from openmrc.verbs.parameters import CcConfig

__all__ = ["KINDS", "Transport", "TransportSection"]

TIME_PS_MAX = 3600 * 10**12
RATE_BPS_MAX = 100 * 10**12
BYTES_MAX = 2**40
SACK_BYTES_MAX = 2**20
EVS_MAX = 1024  # of one QP, on all planes, backups included


_time = quantity(parse_time, "time", 0, TIME_PS_MAX, "0 to 1h")


_rate = quantity(parse_rate, "rate", 0, RATE_BPS_MAX, "0 to 100Tbit")


_bytes = quantity(parse_bytes, "size", 0, BYTES_MAX, "0 to 1TiB")


def _policy(field: str, known: Callable[[], list[str]]) -> BeforeValidator:
    """A name in the engine's registry, which grows when a scenario's policies are loaded."""

    def check(value: Any) -> str:
        if value not in known():
            hint = did_you_mean(str(value), known()) or "the key policies lists files that register custom ones"
            raise ConfigError(field, value, ", ".join(known()), hint=hint)
        return str(value)

    return BeforeValidator(check)


def _time_ns(value: Any) -> int:
    return parse_time_ns(f"{_time(value)}ps")


def _above_zero(value: Any) -> int:
    time_ps = _time(value)
    if time_ps == 0:
        raise ConfigError("time", value, "a time above 0")
    return time_ps


Time = Annotated[int, BeforeValidator(_time)]
Timer = Annotated[int, BeforeValidator(_above_zero)]
TimeNs = Annotated[int, BeforeValidator(_time_ns)]
Rate = Annotated[int, BeforeValidator(_rate)]
Size = Annotated[int, BeforeValidator(_bytes)]
Permille = Annotated[int, count(0, 100_000)]


def _ps(native: str, default: int) -> Any:
    return Field(default=f"{default}ps" if default else 0, serialization_alias=native, validate_default=True)


def _bps(native: str, default: int = 0) -> Any:
    return Field(default=f"{default}bit" if default else 0, serialization_alias=native, validate_default=True)


US, MS = 10**6, 10**9


class NsccSection(Section):
    """Parameters of NSCC; 0: the published formula (protocol A.14)."""

    def native(self, **surroundings: Any) -> CcConfig:
        """The parameters by native name, with those of the surroundings."""
        return CcConfig(**self.model_dump(by_alias=True), **surroundings)

    max_cwnd_bytes: Size = 0
    target_qdelay: TimeNs = Field(default=0, serialization_alias="target_qdelay_ns")
    qa_threshold: TimeNs = Field(default=0, serialization_alias="qa_threshold_ns")
    adjust_period: TimeNs = Field(default=0, serialization_alias="adjust_period_ns")
    adjust_bytes: Size = 0
    fi_permille: Permille = 5000
    eta_permille: Permille = 150
    fi_scale_permille: Permille = 250
    gamma_permille: Permille = 800
    max_md_jump_permille: Annotated[int, count(0, 1000)] = 500
    qa_gate_shift: Annotated[int, count(0, 32)] = 3
    disable_qa: Flag = False
    ignore_rcv_penalty: Flag = False
    ignore_last_hop_trims: Flag = False
    no_delay_tolerance: TimeNs = Field(default=0, serialization_alias="no_delay_tolerance_ns")
    proportional_cap_permille: Permille = 250
    max_cwnd_packets_min: Annotated[int, count(1, 65536)] = 8
    incast_degree: Annotated[int, count(0, 1 << 20)] = 0


def _sack_bytes(value: Any) -> int:
    size = parse_bytes(value)
    if not 0 < size <= SACK_BYTES_MAX:
        raise ConfigError("sack_bytes", value, "1 byte to 1MiB")
    return size


def _denied(value: Any) -> tuple[int, ...]:
    """A path as [plane, uplink of the T0] or [plane, uplink of the T0, uplink of the T1]."""
    fits = isinstance(value, list | tuple) and len(value) in (2, 3)
    if not fits or not all(type(number) is int and 0 <= number < 65536 for number in value):
        raise ConfigError("denied", value, "[plane, uplink of the T0] or [plane, uplink of the T0, uplink of the T1]")
    return (*value, 0) if len(value) == 2 else tuple(value)


class TransportSection(Section):
    """Common settings of every transport.

    `header_bytes` is the minimum that its headers add to a data packet between UDP and payload, `ack_bytes` the size of
    the smallest packet that completes a message, both for ideals.
    """

    header_bytes: ClassVar[int]
    ack_bytes: ClassVar[int]

    kind: str
    lanes: Annotated[int, count(1, 64)] | None = None

    @property
    def slows_by_marks(self) -> bool:
        """True if only marks slow it down, so that it is deployed with marks at the ports to hosts as well."""
        return False

    def _native(self, **others: object) -> dict[str, Any]:
        """Settings by native name, without `others`; None keeps the native default."""
        return self.model_dump(by_alias=True, exclude={"kind", "lanes", *others}, exclude_none=True)


class MrcSection(TransportSection):
    """MRC: the engine, with its EV set, reliability and congestion control."""

    header_bytes: ClassVar[int] = 40  # BTH, METH, TSETH, RETH, ICRC; the last packet of a message has an ImmDt too
    ack_bytes: ClassVar[int] = 20  # BTH, AETH, ICRC: a transport ACK completes a message, a SACK is longer

    kind: Literal["mrc"] = "mrc"
    ev_selector: Annotated[str, _policy("ev_selector", _native.ev_selector_names)] = "mrc"
    controller: Annotated[str, _policy("controller", _native.controller_names)] = "nscc"
    signal: Literal["auto", "marks", "delay", "discover"] = "auto"
    evs_per_port: Annotated[int, count(1, 4096)] | None = None
    universe_per_port: Annotated[int, count(1, 8192)] | None = None
    min_active: Annotated[int, count(1, 65535)] = 1
    probe_successes: Annotated[int, count(1, 255)] = 3
    probe_interval: Time = _ps("probe_interval_ps", 10 * MS)
    skip_lapse: Time = _ps("skip_lapse_ps", 0)
    reverse_probe_interval: Time = _ps("reverse_probe_interval_ps", 0)
    half_marked_rule: Flag = False
    marked_probe_revives_to_good: Flag = False
    mpr_units: Annotated[int, count(1, 255)] = 32
    # Every message of a simulation ends in a WIMM, which reveals its receipt; the NICs' default of 32 would be a limit.
    wimm_max: Annotated[int, count(1, 65535)] = 1024
    sack_bytes: Annotated[int, BeforeValidator(_sack_bytes)] = 4096
    trim_nack: Flag = True
    dynamic_mpr: Flag = False
    nack_out_of_window: Flag = True
    timeout_exponent: Annotated[int, count(0, 24)] | None = None
    linear_retries: Annotated[int, count(0, 7)] = 7
    exponential_retries: Annotated[int, count(0, 25)] = 25
    denied: tuple[Annotated[tuple[int, int, int], BeforeValidator(_denied)], ...] = ()
    cc: NsccSection = NsccSection()

    def native(self, **found: Any) -> MrcSettings:
        """The settings as the native simulation takes them.

        Args:
            found: Fields that depend on the fabric.
        """
        denied = tuple(DeniedPath(plane=plane, t0_uplink=t0, t1_uplink=t1) for plane, t0, t1 in self.denied)
        return MrcSettings(**self._native(**found, denied=()), **found, denied=denied)

    @model_validator(mode="after")
    def check_universe(self) -> Self:
        """Refuses a total number of EVs below the number in use."""
        known = self.universe_per_port
        if known is not None and self.evs_per_port is not None and known < self.evs_per_port:
            raise ConfigError("universe_per_port", known, f"at least the {self.evs_per_port} of evs_per_port")
        return self


class DcqcnSection(Section):
    """DCQCN with the defaults of its paper; 0: a share of the port's rate."""

    cnp_interval: Time = _ps("cnp_interval_ps", 50 * US)
    alpha_timer: Timer = _ps("alpha_timer_ps", 55 * US)
    increase_timer: Timer = _ps("increase_timer_ps", 55 * US)
    increase_bytes: Annotated[int, size(1)] = 10_000_000
    clamp_target: Flag = False
    gain_shift: Annotated[int, count(1, 16)] = 8
    recovery_stages: Annotated[int, count(0, 100)] = 5
    rate_ai: Rate = _bps("rate_ai_bps")
    rate_hai: Rate = _bps("rate_hai_bps")
    rate_min: Rate = _bps("rate_min_bps")


class RoceSection(TransportSection):
    """RoCEv2 RC: go-back-N, one path per QP, DCQCN unless that is off."""

    header_bytes: ClassVar[int] = 16  # BTH, ICRC; the first packet of a message has a RETH too
    ack_bytes: ClassVar[int] = 20

    kind: Literal["roce"] = "roce"
    dcqcn: Annotated[DcqcnSection | None, BeforeValidator(on_off)] = DcqcnSection()
    ack_packets: Annotated[int, count(1, 1024)] = 4
    timeout: Timer = _ps("timeout_ps", 4_194_304_000)
    timeout_max: Timer = _ps("timeout_max_ps", 67_108_864_000)
    retries: Annotated[int, count(0, 255)] = 7
    window_bytes: Size = 0
    failover: Flag = True

    @model_validator(mode="after")
    def check_timers(self) -> Self:
        """Refuses a longest timer below the first one."""
        if "timeout_max" in self.model_fields_set and self.timeout_max < self.timeout:
            raise ConfigError("timeout_max", self.timeout_max, "timeout_max at or above timeout")
        return self

    @property
    def slows_by_marks(self) -> bool:
        """True with DCQCN."""
        return self.dcqcn is not None

    def native(self) -> RoceSettings:
        """The settings as the native simulation takes them, those of DCQCN among them."""
        values = self._native()
        rates = values.pop("dcqcn", None)
        return RoceSettings(**values, dcqcn=rates is not None, **(rates or {}))


class DctcpSection(TransportSection):
    """DCTCP over ECMP, one path per connection."""

    header_bytes: ClassVar[int] = 24  # TCP with timestamps, less the UDP header that every packet counts
    ack_bytes: ClassVar[int] = 24

    kind: Literal["dctcp"] = "dctcp"
    gain_shift: Annotated[int, count(1, 10)] = 4
    initial_window: Annotated[int, count(1, 65536)] = 10
    min_window: Annotated[int, count(1, 65536)] = 2
    window_bytes: Size = 0
    reordering_packets: Annotated[int, count(1, 65536)] = 3
    ack_packets: Annotated[int, count(1, 64)] = 2
    ack_delay: Timer = _ps("ack_delay_ps", MS)
    rto_min: Timer = _ps("rto_min_ps", 10 * MS)
    rto_max: Timer = _ps("rto_max_ps", 120 * 10**12)
    retries: Annotated[int, count(0, 255)] = 15
    tail_loss_probe: Flag = True
    failover: Flag = False

    @property
    def slows_by_marks(self) -> bool:
        """False: DCTCP reacts to a loss like any TCP, but too late."""
        return True

    def native(self) -> DctcpSettings:
        """The settings as the native simulation takes them."""
        return DctcpSettings(**self._native())

    @model_validator(mode="after")
    def check_timers(self) -> Self:
        """Refuses a timer whose maximum is below its minimum."""
        if self.rto_max < self.rto_min:
            raise ConfigError("rto_max", self.rto_max, "rto_max at or above rto_min")
        return self


KINDS: Mapping[str, type[TransportSection]] = {"mrc": MrcSection, "roce": RoceSection, "dctcp": DctcpSection}


@dataclass(frozen=True)
class Transport:
    """One transport of a scenario: `name` in results, and settings by kind.

    Args:
        name: Name in results; also the kind, unless the settings specify `kind`.
        settings: As in the scenario file, checked.
    """

    name: str
    settings: TransportSection = field(default_factory=MrcSection)

    @property
    def kind(self) -> str:
        """`mrc`, `roce` or `dctcp`."""
        return self.settings.kind

    @property
    def lanes(self) -> int | None:
        """QPs per peer, if this transport overrides them."""
        return self.settings.lanes

    def effective(self) -> dict[str, Any]:
        """Every setting with its value, by native name."""
        return {"kind": self.kind, **self.settings.model_dump(by_alias=True, exclude={"kind"})}
