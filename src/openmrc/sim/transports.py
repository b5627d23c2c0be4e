"""Transports of a scenario: their settings in the user's notation, and converted for the native simulation.

Times and rates lose their unit in the file (`probe_interval: 10ms`) and have it in the native name
(`probe_interval_ps`). A setting of 0 that means "formula" is computed natively from rates and the base RTT.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, model_validator

from openmrc import _native
from openmrc.config.section import Section, count
from openmrc.errors import ConfigError, did_you_mean
from openmrc.fabric.file_sections import on_off
from openmrc.sim.native_record import NativeRecord
from openmrc.sim.native_settings import DctcpSettings, DeniedPath, MrcSettings, RoceSettings
from openmrc.verbs.parameters import CcConfig

__all__ = ["KINDS", "Transport", "TransportSection"]

EVS_MAX = 1024  # of one QP, on all planes, backups included

_MRC, _CC, _ROCE, _DCTCP = (NativeRecord(of) for of in (MrcSettings, CcConfig, RoceSettings, DctcpSettings))


def _policy(field: str, known: Callable[[], list[str]]) -> BeforeValidator:
    """A name in the engine's registry, which grows when a scenario's policies are loaded."""

    def check(value: Any) -> str:
        if value not in known():
            hint = did_you_mean(str(value), known()) or "the key policies lists files that register custom ones"
            raise ConfigError(field, value, ", ".join(known()), hint=hint)
        return str(value)

    return BeforeValidator(check)


class NsccSection(Section):
    """Parameters of NSCC; 0: the published formula (protocol A.14)."""

    def native(self, **surroundings: Any) -> CcConfig:
        """The parameters by native name, with those of the surroundings."""
        return CcConfig(**self.model_dump(by_alias=True), **surroundings)

    max_cwnd_bytes: Annotated[int, _CC.quantity("max_cwnd_bytes")] = _CC.value("max_cwnd_bytes")
    target_qdelay: Annotated[int, _CC.quantity("target_qdelay_ns")] = _CC.value("target_qdelay_ns")
    qa_threshold: Annotated[int, _CC.quantity("qa_threshold_ns")] = _CC.value("qa_threshold_ns")
    adjust_period: Annotated[int, _CC.quantity("adjust_period_ns")] = _CC.value("adjust_period_ns")
    adjust_bytes: Annotated[int, _CC.quantity("adjust_bytes")] = _CC.value("adjust_bytes")
    fi_permille: int = _CC.value("fi_permille")
    eta_permille: int = _CC.value("eta_permille")
    fi_scale_permille: int = _CC.value("fi_scale_permille")
    gamma_permille: int = _CC.value("gamma_permille")
    max_md_jump_permille: int = _CC.value("max_md_jump_permille")
    qa_gate_shift: int = _CC.value("qa_gate_shift")
    disable_qa: bool = _CC.value("disable_qa")
    ignore_rcv_penalty: bool = _CC.value("ignore_rcv_penalty")
    ignore_last_hop_trims: bool = _CC.value("ignore_last_hop_trims")
    no_delay_tolerance: Annotated[int, _CC.quantity("no_delay_tolerance_ns")] = _CC.value("no_delay_tolerance_ns")
    proportional_cap_permille: int = _CC.value("proportional_cap_permille")
    max_cwnd_packets_min: int = _CC.value("max_cwnd_packets_min")
    incast_degree: int = _CC.value("incast_degree")


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

    renamed: ClassVar[Mapping[str, str]] = {"evs_per_port": "active_per_port"}

    kind: Literal["mrc"] = "mrc"
    ev_selector: Annotated[str, _policy("ev_selector", _native.ev_selector_names)] = "mrc"
    controller: Annotated[str, _policy("controller", _native.controller_names)] = "nscc"
    signal: Literal["auto", "marks", "delay", "discover"] = "auto"
    active_per_port: Annotated[int, _MRC.range("active_per_port")] | None = None
    universe_per_port: Annotated[int, _MRC.range("universe_per_port")] | None = None
    min_active: int = _MRC.value("min_active")
    probe_successes: int = _MRC.value("probe_successes")
    probe_interval: Annotated[int, _MRC.quantity("probe_interval_ps")] = _MRC.value("probe_interval_ps")
    skip_lapse: Annotated[int, _MRC.quantity("skip_lapse_ps")] = _MRC.value("skip_lapse_ps")
    reverse_probe_interval: Annotated[int, _MRC.quantity("reverse_probe_interval_ps")] = _MRC.value(
        "reverse_probe_interval_ps"
    )
    half_marked_rule: bool = _MRC.value("half_marked_rule")
    marked_probe_revives_to_good: bool = _MRC.value("marked_probe_revives_to_good")
    mpr_units: Annotated[int, _MRC.range("mpr_units")] | None = None
    wimm_max: int = _MRC.value("wimm_max")
    sack_bytes: Annotated[int, _MRC.quantity("sack_bytes")] | None = None
    trim_nack: bool = _MRC.value("trim_nack")
    dynamic_mpr: bool = _MRC.value("dynamic_mpr")
    nack_out_of_window: bool = _MRC.value("nack_out_of_window")
    timeout_exponent: Annotated[int, _MRC.range("timeout_exponent")] | None = None
    linear_retries: int = _MRC.value("linear_retries")
    exponential_retries: int = _MRC.value("exponential_retries")
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
        if known is not None and self.active_per_port is not None and known < self.active_per_port:
            raise ConfigError("universe_per_port", known, f"at least the {self.active_per_port} of active_per_port")
        return self


class DcqcnSection(Section):
    """DCQCN with the defaults of its paper; 0: a share of the port's rate."""

    cnp_interval: Annotated[int, _ROCE.quantity("cnp_interval_ps")] = _ROCE.value("cnp_interval_ps")
    alpha_timer: Annotated[int, _ROCE.quantity("alpha_timer_ps")] = _ROCE.value("alpha_timer_ps")
    increase_timer: Annotated[int, _ROCE.quantity("increase_timer_ps")] = _ROCE.value("increase_timer_ps")
    increase_bytes: Annotated[int, _ROCE.quantity("increase_bytes")] = _ROCE.value("increase_bytes")
    clamp_target: bool = _ROCE.value("clamp_target")
    gain_shift: int = _ROCE.value("gain_shift")
    recovery_stages: int = _ROCE.value("recovery_stages")
    rate_ai: Annotated[int, _ROCE.quantity("rate_ai_bps")] = _ROCE.value("rate_ai_bps")
    rate_hai: Annotated[int, _ROCE.quantity("rate_hai_bps")] = _ROCE.value("rate_hai_bps")
    rate_min: Annotated[int, _ROCE.quantity("rate_min_bps")] = _ROCE.value("rate_min_bps")


class RoceSection(TransportSection):
    """RoCEv2 RC: go-back-N, one path per QP, DCQCN unless that is off."""

    header_bytes: ClassVar[int] = 16  # BTH, ICRC; the first packet of a message has a RETH too
    ack_bytes: ClassVar[int] = 20

    kind: Literal["roce"] = "roce"
    dcqcn: Annotated[DcqcnSection | None, BeforeValidator(on_off)] = DcqcnSection()
    ack_packets: int = _ROCE.value("ack_packets")
    timeout: Annotated[int, _ROCE.quantity("timeout_ps")] = _ROCE.value("timeout_ps")
    timeout_max: Annotated[int, _ROCE.quantity("timeout_max_ps")] = _ROCE.value("timeout_max_ps")
    retries: int = _ROCE.value("retries")
    window_bytes: Annotated[int, _ROCE.quantity("window_bytes")] = _ROCE.value("window_bytes")
    failover: bool = _ROCE.value("failover")

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
    gain_shift: int = _DCTCP.value("gain_shift")
    initial_window: int = _DCTCP.value("initial_window")
    min_window: int = _DCTCP.value("min_window")
    window_bytes: Annotated[int, _DCTCP.quantity("window_bytes")] = _DCTCP.value("window_bytes")
    reordering_packets: int = _DCTCP.value("reordering_packets")
    ack_packets: int = _DCTCP.value("ack_packets")
    ack_delay: Annotated[int, _DCTCP.quantity("ack_delay_ps")] = _DCTCP.value("ack_delay_ps")
    rto_min: Annotated[int, _DCTCP.quantity("rto_min_ps")] = _DCTCP.value("rto_min_ps")
    rto_max: Annotated[int, _DCTCP.quantity("rto_max_ps")] = _DCTCP.value("rto_max_ps")
    retries: int = _DCTCP.value("retries")
    tail_loss_probe: bool = _DCTCP.value("tail_loss_probe")
    failover: bool = _DCTCP.value("failover")

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
