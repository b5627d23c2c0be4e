"""Resolution of a fabric file into a fabric: detects contradictions, then fills in the missing settings."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from openmrc.config.yaml_document import Document
from openmrc.errors import ConfigError
from openmrc.fabric.construction import Construction, addresses_of, interfaces_of, materials_of
from openmrc.fabric.file_sections import HOSTS_MAX, QUEUE_BYTES_MAX, T1S_MAX, EcnSection, FabricFile, TierSection
from openmrc.fabric.model import (
    ETHERNET_BYTES,
    IP_HEADER_BYTES,
    JUMBO_FRAME_BYTES,
    PAYLOAD_BYTES,
    PORT_TIERS,
    UDP_HEADER_BYTES,
    Ecn,
    Fabric,
    Pfc,
    PlaneSettings,
    Port,
    PortKind,
    Shape,
    SharedBuffer,
    Tiers,
    Trim,
    round_trip_ps,
)
from openmrc.fabric.sizing import check_ports, derive, models_of
from openmrc.fabric.unresolved_file import UnresolvedFile

__all__ = ["decide"]

NIC_QUEUE_BYTES_MIN = 2**20


def decide(file: FabricFile, document: Document) -> tuple[Fabric | None, list[ConfigError]]:
    """The fabric, or None with all contradictions."""
    draft = UnresolvedFile(file, document, [])
    rates, _ = _rates_and_delays(file)
    models = models_of(draft)
    sized = None if models is None else derive(draft, models, rates)
    _check_settings(draft)
    addresses = addresses_of(draft)
    if models is None or sized is None:
        return None, draft.problems
    draft = draft._replace(file=sized)
    shape = _shape(draft, rates)
    for each in dict.fromkeys([rates, *(_rates_and_delays(own)[0] for own in _own_settings(sized))]):
        check_ports(draft, shape, models, each)
    construction = Construction(addresses, interfaces_of(draft, shape), materials_of(draft, models, shape, rates))
    for index, fault in enumerate(file.faults):
        try:
            fault.target.check(shape, str(fault))
        except ConfigError as error:
            draft.add(("faults", index), str(fault), error.allowed, error.hint)
    if draft.problems:
        return None, draft.problems
    return _with_defaults(sized, shape, construction), []


def _rates_and_delays(file: FabricFile) -> tuple[Tiers, Tiers]:
    rates, delays = _tiers(file.rate), _tiers(file.delay)
    if file.site_link is not None:
        rates = replace(rates, t1=file.site_link.rate or rates.t0)
        delays = replace(delays, t1=file.site_link.delay)
    return rates, delays


def _own_settings(file: FabricFile) -> list[FabricFile]:
    """The file from each plane's view, with the plane's own settings; empty if no plane has any."""
    if not any(plane.model_fields_set for plane in file.planes):
        return []
    return [
        file.model_copy(update={key: getattr(plane, key) for key in plane.model_fields_set}) for plane in file.planes
    ]


def _tiers(section: TierSection) -> Tiers:
    t0 = section.nic if section.t0 is None else section.t0
    return Tiers(section.nic, t0, t0 if section.t1 is None else section.t1)


def _shape(draft: UnresolvedFile, rates: Tiers) -> Shape:
    file = draft.file
    hosts = file.hosts * file.nics_per_host
    if hosts > HOSTS_MAX:
        draft.add("nics_per_host", file.nics_per_host, f"at most {HOSTS_MAX} NICs in all; this makes {hosts}")
    hosts_per_t0 = _hosts_per_t0(draft) * file.nics_per_host
    t0s = -(-hosts // hosts_per_t0)
    t0s_per_pod, three = _pods(draft, t0s)
    t1s = file.t1s or 1
    if file.oversubscription is not None:
        t1s = _uplinks(draft, hosts_per_t0, rates.nic, rates.t0)
    t1_uplinks = 0
    if file.site_link is not None and file.sites is not None:
        t1_uplinks = file.site_link.t2s
    elif three:
        t1_uplinks = file.t1_uplinks or _non_blocking(draft, t0s_per_pod, rates)
    return Shape(
        planes=len(file.planes),
        hosts=hosts,
        hosts_per_t0=hosts_per_t0,
        t1s=t1s,
        t0s_per_pod=t0s_per_pod,
        t1_uplinks=t1_uplinks,
        nics_per_host=file.nics_per_host,
    )


def _hosts_per_t0(draft: UnresolvedFile) -> int:
    file = draft.file
    if file.hosts_per_t0 is not None and file.t0s is not None:
        t0s = -(-file.hosts // file.hosts_per_t0)
        if t0s != file.t0s:
            words = f"{t0s}, as {file.hosts} hosts at {file.hosts_per_t0} per T0 need"
            draft.add("t0s", file.t0s, words, "leave out t0s or hosts_per_t0")
    if file.t0s is not None and file.t0s > file.hosts:
        draft.add("t0s", file.t0s, f"at most one per host: {file.hosts}")
    if file.hosts_per_t0 is not None:
        return file.hosts_per_t0
    if file.t0s is None and (file.tiers == 3 or file.sites):
        draft.add("hosts_per_t0", None, "required with three tiers or sites, or t0s")
    return -(-file.hosts // (file.t0s or min(2, file.hosts)))


def _pods(draft: UnresolvedFile, t0s: int) -> tuple[int, bool]:
    """T0s per pod (0: two tiers), and True for three tiers."""
    file = draft.file
    if file.sites is not None:
        return _site_t0s(draft, t0s), True
    if file.site_link is not None:
        draft.add("site_link", "given", "only together with sites", "set the number of sites, such as sites: 2")
    if file.tiers == 3:
        if file.t0s_per_pod is None:
            draft.add("t0s_per_pod", None, "required with tiers: 3")
        elif t0s % file.t0s_per_pod:
            draft.add("t0s_per_pod", file.t0s_per_pod, f"a divisor of the {t0s} T0s")
        return file.t0s_per_pod or t0s, True
    for key in ("t0s_per_pod", "t1_uplinks"):
        if getattr(file, key) is not None:
            draft.add(key, getattr(file, key), "only with tiers: 3", "set tiers: 3")
    return 0, False


def _site_t0s(draft: UnresolvedFile, t0s: int) -> int:
    file, sites = draft.file, draft.file.sites or 1
    if file.site_link is None:
        draft.add("sites", sites, "together with site_link: {delay: 1ms}")
    if file.tiers == 2:
        draft.add("tiers", 2, "3 with sites, or leave it out", "T2s join the sites")
    for key in ("t0s_per_pod", "t1_uplinks"):
        if getattr(file, key) is not None:
            draft.add(
                key, getattr(file, key), "no value together with sites: a site is a pod, and site_link has its links"
            )
    if t0s % sites or file.hosts % sites:
        draft.add("sites", sites, f"a number that divides the {file.hosts} hosts and the {t0s} T0s")
        return t0s
    return t0s // sites


def _uplinks(draft: UnresolvedFile, hosts_per_t0: int, nic_bps: int, t0_bps: int) -> int:
    """Uplinks of a T0 with the oversubscription of the file."""
    file = draft.file
    ratio = Fraction(str(file.oversubscription))
    uplinks = hosts_per_t0 * nic_bps / (ratio * t0_bps)
    if file.t1s is not None and file.t1s != uplinks:
        draft.add("t1s", file.t1s, f"{float(uplinks):g}, by oversubscription", "leave out t1s or oversubscription")
    elif uplinks.denominator != 1 or not 1 <= uplinks <= T1S_MAX:
        words = f"a ratio that gives a T0 a whole number of uplinks, 1 to {T1S_MAX}; this gives {float(uplinks):g}"
        draft.add("oversubscription", file.oversubscription, words)
    return max(1, int(uplinks))


def _non_blocking(draft: UnresolvedFile, t0s_per_pod: int, rates: Tiers) -> int:
    uplinks = Fraction(t0s_per_pod * rates.t0, rates.t1)
    if uplinks.denominator != 1:
        words = f"a number: {t0s_per_pod} T0s of a pod and the rates would need {float(uplinks):g}"
        draft.add("t1_uplinks", None, words)
    return max(1, int(uplinks))


def _check_settings(draft: UnresolvedFile) -> None:
    """Detects contradictions that do not depend on the shape."""
    if draft.file.routing and draft.file.ev_mapping and draft.file.routing != draft.file.ev_mapping:
        words = f"the same as routing, {draft.file.routing}"
        draft.add("ev_mapping", draft.file.ev_mapping, words, "leave out ev_mapping")
    _check_ecn(draft, (), draft.file.ecn)
    for index, plane in enumerate(draft.file.planes):
        _check_ecn(draft, ("planes", index), plane.ecn)
    _check_priority(draft)
    pfc = draft.file.pfc
    if pfc is not None and pfc.xon is not None and pfc.xoff is None:
        draft.add(("pfc", "xon"), pfc.xon, "together with xoff")
    if pfc is not None and pfc.xoff is not None and (pfc.xon or 0) > pfc.xoff:
        draft.add(("pfc", "xon"), pfc.xon, f"at most xoff, {pfc.xoff}")
    if draft.file.alpha is not None and draft.file.buffer_bytes is None:
        draft.add("alpha", draft.file.alpha / 1000, "only together with buffer_bytes")


def _check_ecn(draft: UnresolvedFile, place: tuple[str | int, ...], ecn: EcnSection | None) -> None:
    if ecn is None:
        return
    if ecn.threshold_bytes is not None and (ecn.min_bytes is not None or ecn.max_bytes is not None):
        words = "either a threshold or min_bytes and max_bytes"
        draft.add((*place, "ecn", "threshold_bytes"), ecn.threshold_bytes, words)
    elif (ecn.min_bytes is None) != (ecn.max_bytes is None):
        missing = "max_bytes" if ecn.max_bytes is None else "min_bytes"
        draft.add((*place, "ecn"), missing, "min_bytes and max_bytes together")
    elif ecn.min_bytes is not None and ecn.max_bytes is not None and ecn.min_bytes > ecn.max_bytes:
        draft.add((*place, "ecn", "min_bytes"), ecn.min_bytes, f"at most max_bytes, {ecn.max_bytes}")


def _check_priority(draft: UnresolvedFile) -> None:
    for index, own in enumerate(_own_settings(draft.file) or [draft.file]):
        if own.trim is None or own.priority:
            continue
        written = "priority" in draft.file.planes[index].model_fields_set
        place: tuple[str | int, ...] = ("planes", index, "priority") if written else ("priority",)
        draft.add(place, "off", "on in fabrics that trim: trimmed packets have to overtake data", "trim: off")
        return


class _Sizes(NamedTuple):
    """Bytes in flight on a path in one round trip, per tier of links; long links between sites count for themselves
    only.
    """

    near_rtt_ps: int
    far_rtt_ps: int
    rates: Tiers

    def bdp(self, kind: PortKind) -> int:
        tier = PORT_TIERS[kind]
        rtt_ps = self.far_rtt_ps if tier == "t1" else self.near_rtt_ps
        return int(getattr(self.rates, tier)) * rtt_ps // (8 * 10**12)


def _framing_bytes(file: FabricFile) -> int:
    if file.framing_bytes is not None:
        return file.framing_bytes
    return 0 if file.framing is None else ETHERNET_BYTES


def _sizes(file: FabricFile, shape: Shape) -> _Sizes:
    rates, delays = _rates_and_delays(file)
    header_bytes = UDP_HEADER_BYTES + IP_HEADER_BYTES[file.framing or "ipv4"] + _framing_bytes(file)

    def rtt_ps(tiers: int) -> int:
        return round_trip_ps(rates, delays, header_bytes, tiers=tiers, payload_bytes=PAYLOAD_BYTES)

    return _Sizes(rtt_ps(2 if file.sites else shape.tiers), rtt_ps(shape.tiers), rates)


def _settings(file: FabricFile, shape: Shape, pfc: Pfc | None) -> PlaneSettings:
    """Thresholds by the bandwidth-delay product of a port, as UEC recommends for a plane (protocol A.14)."""
    rates, delays = _rates_and_delays(file)
    ports = {kind: _port(file, kind, _sizes(file, shape), delays) for kind in PORT_TIERS}
    if pfc is not None and file.queue_bytes is None:
        ports = _lossless(ports, shape, pfc)
    t0_up, last = ports["t0_up"], ports["nic_down"]
    ecn = trim = None
    if file.ecn is not None:
        flags = {name: getattr(file.ecn, name) for name in ("nic", "last_hop", "t0", "t1", "t2")}
        ecn = Ecn(t0_up.ecn_min_bytes, t0_up.ecn_max_bytes, file.ecn.max_probability, **flags)
    if file.trim is not None:
        trim = Trim(t0_up.trim_threshold_bytes, last.trim_threshold_bytes, file.trim.size_bytes)
    return PlaneSettings(rates, delays, ports, ecn, trim, file.priority)


def _with_defaults(file: FabricFile, shape: Shape, construction: Construction) -> Fabric:
    pfc = _pfc(file, _sizes(file, shape).bdp("t0_up"))
    shared = None if file.buffer_bytes is None else SharedBuffer(file.buffer_bytes, file.alpha or 1000)
    return Fabric(
        **vars(shape),
        name=file.name,
        **vars(_settings(file, shape, pfc)),
        unlike=tuple(_settings(own, shape, pfc) for own in _own_settings(file)),
        routing=file.routing or file.ev_mapping or "modulo",
        framing=file.framing or "ipv4",
        framing_bytes=_framing_bytes(file),
        seed=file.seed,
        udp_port=file.udp_port,
        address_base=file.address_base,
        sites=file.sites or 1,
        pfc=pfc,
        shared_buffer=shared,
        faults=file.faults,
        **construction._asdict(),
    )


def _port(file: FabricFile, kind: PortKind, sizes: _Sizes, delays: Tiers) -> Port:
    tier, bdp = PORT_TIERS[kind], sizes.bdp(kind)
    low, high = bdp // 5, bdp * 4 // 5
    if file.ecn is not None and file.ecn.threshold_bytes is not None:
        low = high = file.ecn.threshold_bytes
    elif file.ecn is not None and file.ecn.min_bytes is not None and file.ecn.max_bytes is not None:
        low, high = file.ecn.min_bytes, file.ecn.max_bytes
    threshold = bdp
    if file.trim is not None and file.trim.threshold_bytes is not None:
        threshold = file.trim.threshold_bytes
    if kind == "nic_down":
        last = file.trim.last_hop_threshold_bytes if file.trim is not None else None
        threshold = threshold * 3 // 2 if last is None else last
    return Port(
        rate_bps=getattr(sizes.rates, tier),
        delay_ps=getattr(delays, tier),
        queue_bytes=_queue_bytes(file, kind, bdp),
        ecn_min_bytes=min(low, QUEUE_BYTES_MAX),
        ecn_max_bytes=min(high, QUEUE_BYTES_MAX),
        trim_threshold_bytes=min(threshold, QUEUE_BYTES_MAX),
    )


def _queue_bytes(file: FabricFile, kind: PortKind, bdp: int) -> int:
    switch = {"nic_down": "t0", "nic_up": "t0", "t0_up": "t0", "t2_down": "t2"}.get(kind, "t1")
    written = getattr(file.queue_bytes, switch) if file.queue_bytes is not None else None
    queue = min(written or max(5 * bdp, 4 * JUMBO_FRAME_BYTES), QUEUE_BYTES_MAX)
    if kind != "nic_up":
        return int(queue)
    return min(file.nic_queue_bytes or max(4 * queue, NIC_QUEUE_BYTES_MIN), QUEUE_BYTES_MAX)


def _pfc(file: FabricFile, bdp: int) -> Pfc | None:
    if file.pfc is None:
        return None
    xoff = file.pfc.xoff if file.pfc.xoff is not None else max(min(bdp, QUEUE_BYTES_MAX), 2 * JUMBO_FRAME_BYTES)
    return Pfc(xoff, file.pfc.xon if file.pfc.xon is not None else xoff // 2)


def _lossless(ports: dict[PortKind, Port], shape: Shape, pfc: Pfc) -> dict[PortKind, Port]:
    """Queues with room for the data that all neighbours send until a pause reaches them, so that nothing is dropped."""
    inputs = max(shape.hosts_per_t0 + shape.t1s, (shape.t0s_per_pod or shape.t0s) + shape.t1_uplinks, shape.pods)

    def enough(port: Port) -> int:
        headroom = 2 * port.delay_ps * port.rate_bps // (8 * 10**12) + 2 * JUMBO_FRAME_BYTES
        return min(max(port.queue_bytes, inputs * (pfc.xoff_bytes + headroom)), QUEUE_BYTES_MAX)

    return {kind: port if kind == "nic_up" else replace(port, queue_bytes=enough(port)) for kind, port in ports.items()}
