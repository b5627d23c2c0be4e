"""openmrc, MPTCP and TCP over ordinary networks: no ECN, planes of unequal rate, queue and delay, faults.

    python benchmarks/ordinary.py [--only CASE ...] [--repeat 5] [--seconds 4] [--json FILE]
                                  [--transports openmrc mptcp tcp] [--networks 40] [--seed 1]

openmrc runs with nothing configured. Needs root. Every transport of a repeat runs on the same bed, one after the other.
Limits are the sum of the planes' rates times the payload share of full frames of the plane's MTU, with the headers of
the transport (72 bytes from IP on for openmrc, 52 for TCP) and Ethernet's 14. Shares count from one second after the
start. Other programs on the machine cost goodput: the load average is printed with every case.
Without idle processors the machine limits a row, and not the control: their idle share is a row of every case.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from _ordinary_collectives import all_reduce, between_sites
from _ordinary_networks import describe, draw
from _ordinary_runs import Load, Trial, run
from rich.console import Console

from openmrc.cli.output_files import file_argument
from openmrc.errors import OpenmrcError
from openmrc.reports.benchmark_tables import rows_table
from openmrc.runs.bench.rows import Report, Row, row
from openmrc.runs.processes.veth_pairs import namespaces_allowed
from openmrc.testbed.plain import PlainBed, PlainNetwork, PlainPlane

MBIT, KIB, MIB = 1_000_000, 1024, 1 << 20
TRANSPORTS = ("openmrc", "mptcp", "tcp")
Trials = dict[str, list[Trial]]
Rows = Callable[[str, "Case", Trials], Iterator[Row]]


@dataclass(frozen=True)
class Case:
    """A network, its traffic, and the rows of its runs.

    Args:
        network: The network.
        load: The traffic; `seconds` of 0 takes the command line's.
        rows: Makes the rows.
        target: Of openmrc's share of the limit.
        alone: Also run openmrc over the fastest plane alone.
        transports: Applicable transports.
        offloads: Interfaces of hosts and switches accept bursts for later segmentation, as on one machine.
    """

    network: PlainNetwork
    load: Load
    rows: Rows
    target: str = ">= 0.97"
    retransmitted: str = "<= 0.001"
    alone: bool = False
    transports: Sequence[str] = TRANSPORTS
    offloads: bool = False


def of_rates(*mbit: int, fifo_kib: int = 256, mtu: int = 1500, hosts: int = 2) -> PlainNetwork:
    return PlainNetwork.of_rates(
        tuple(rate * MBIT for rate in mbit), hosts=hosts, fifo_bytes=fifo_kib * KIB, mtu_bytes=mtu
    )


def over(values: Sequence[float | None], whole: Sequence[float | None]) -> list[float | None]:
    return [value / one if one and value is not None else None for value, one in zip(values, whole, strict=True)]


def common(title: str, trials: Trials) -> Iterator[Row]:
    """Rows of every transfer: processor time, errors, contents."""
    for name, runs in trials.items():
        yield row(f"{title}: {name}", "goodput", [one.goodput_bps() / 1e9 for one in runs], "Gb/s")
        yield row(f"{title}: {name}", "CPU of both hosts", [one.cpu_s_per_gb() for one in runs], "s/GB")
        yield row(f"{title}: {name}", "CPU, whole machine", [one.machine_s_per_gb() for one in runs], "s/GB")
    yield from idle(title, trials)
    yield from failures(title, trials)


def idle(title: str, trials: Trials) -> Iterator[Row]:
    """Idle share of the processors: with hardly any left, they limit the row, and not the control."""
    for name, runs in trials.items():
        yield row(f"{title}: {name}", "idle share of the processors", [one.idle_share() for one in runs], "")


def failures(title: str, trials: Trials) -> Iterator[Row]:
    """Errors of openmrc, and messages in memory with wrong contents."""
    if ours := trials.get("openmrc"):
        found = [float(len(one.errors) + one.wrong) for one in ours]
        yield row(f"{title}: openmrc", "errors and wrong messages", found, "", "== 0")


def steady(title: str, case: Case, trials: Trials) -> Iterator[Row]:
    """Rows of a network without changes."""
    for name, runs in trials.items():
        ours = name == "openmrc"
        one_case = f"{title}: {name}"
        yield row(one_case, "share of limit", [one.share() for one in runs], "", case.target if ours else "")
        yield row(one_case, "share, first second", [one.share(0, 1) for one in runs], "")
        yield row(
            one_case,
            "retransmitted",
            [one.retransmitted_share() for one in runs],
            "",
            case.retransmitted if ours else "",
        )
        yield row(one_case, "longest gap", [one.longest_gap_ms() for one in runs], "ms")
        if case.load.probe:
            yield row(one_case, "extra delay of a ping, median", [one.extra_delay_ms(0.5) for one in runs], "ms")
            target = "<= 5" if ours else ""
            yield row(one_case, "extra delay of a ping, 99 %", [one.extra_delay_ms(0.99) for one in runs], "ms", target)
            yield row(one_case, "extra delay of a ping, most", [one.extra_delay_ms(1.0) for one in runs], "ms")
    yield from compared(title, trials)
    yield from common(title, trials)


def compared(title: str, trials: Trials) -> Iterator[Row]:
    """Goodput of openmrc over that of the others in the same repeat."""
    if (ours := trials.get("openmrc")) is None:
        return
    goodput = [one.goodput_bps() for one in ours]
    for name, words, target in (("mptcp", "MPTCP", ">= 0.97"), ("alone", "the best plane alone", ">= 1.0")):
        if runs := trials.get(name):
            found = over(goodput, [one.goodput_bps() for one in runs])
            yield row(f"{title}: openmrc", f"goodput over {words}", found, "x", target)


def processor(title: str, case: Case, trials: Trials) -> Iterator[Row]:
    """Processor time of the whole machine, which includes softirq, beside MPTCP's."""
    machine = {name: [one.machine_s_per_gb() for one in runs] for name, runs in trials.items()}
    if "openmrc" in machine and "mptcp" in machine:
        found = over(machine["openmrc"], machine["mptcp"])
        yield row(f"{title}: openmrc", "CPU of the whole machine over MPTCP's", found, "x", "<= 1.5")
    yield from steady(title, case, trials)


def beside(title: str, case: Case, trials: Trials) -> Iterator[Row]:
    """A TCP stream on plane 0: its share of its plane, and openmrc's share of the others."""
    first, *others = [plane.rate_bps for plane in case.network.planes]
    for name, runs in trials.items():
        ours = name == "openmrc"
        kept, rest = [], []
        for one in runs:
            kept.append(tcp_bps(one) / (first * case.network.planes[0].payload_share(52)))
            payload = one.limit_bps / (first + sum(others))
            rest.append((one.goodput_bps()) / (payload * sum(others)))
        yield row(f"{title}: {name}", "TCP's share of its plane", kept, "", ">= 0.3" if ours else "")
        yield row(f"{title}: {name}", "goodput over the other planes", rest, "", ">= 0.9" if ours else "")
    yield from common(title, trials)


def tcp_bps(trial: Trial) -> float:
    """Goodput of the concurrent TCP streams of a trial, in b/s."""
    assert trial.beside is not None
    times_s, totals = trial.beside
    return replace(trial, times_s=times_s, totals=totals).goodput_bps()


def contested(title: str, case: Case, trials: Trials) -> Iterator[Row]:
    """A TCP stream on every plane: its share of the planes, and that of the transport beside it."""
    for name, runs in trials.items():
        ours = name == "openmrc"
        payload = sum(plane.rate_bps * plane.payload_share(52) for plane in case.network.planes)
        tcp = [tcp_bps(one) / payload for one in runs]
        yield row(
            f"{title}: {name}", "share of the planes", [one.share() for one in runs], "", ">= 0.2" if ours else ""
        )
        yield row(f"{title}: {name}", "TCP's share of the planes", tcp, "", ">= 0.2" if ours else "")
    yield from common(title, trials)


def completed(title: str, case: Case, trials: Trials) -> Iterator[Row]:
    """Transfers of a given amount: the last completion over the minimum time of the busiest receiver's planes."""
    receivers = [to for _, to in case.load.pairs]
    busiest = max(receivers.count(to) for to in receivers) * case.load.flow_bytes
    for name, runs in trials.items():
        ours = name == "openmrc"
        taken = [(one.end_s - one.start_s) / (busiest * 8 / one.limit_bps) for one in runs]
        yield row(f"{title}: {name}", "last completion over ideal", taken, "x", "<= 1.10" if ours else "")
        retransmitted = [one.retransmitted_packets / max(1, one.sent_packets) for one in runs]
        yield row(f"{title}: {name}", "retransmitted", retransmitted, "", "<= 0.01" if ours else "")
        yield row(f"{title}: {name}", "CPU of all hosts", [one.cpu_s_per_gb() for one in runs], "s/GB")
    yield from idle(title, trials)
    yield from failures(title, trials)


FAULT_AT_S, FAULT_S, AFTER_S = 2.0, 4.0, 3.0


def faulty(title: str, case: Case, trials: Trials) -> Iterator[Row]:
    """A plane that is silent or slow for a while: figures during that time, and afterwards."""
    left = _left(case)
    end_s = FAULT_AT_S + FAULT_S
    silent = left == 1 - 1 / len(case.network.planes)
    for name, runs in trials.items():
        ours = name == "openmrc"
        one_case = f"{title}: {name}"
        yield row(one_case, "share before", [one.share(1.0, FAULT_AT_S) for one in runs], "")
        during = [one.share(FAULT_AT_S + 0.5, end_s) / left for one in runs]
        yield row(one_case, "share of the remaining rate, after 0.5 s", during, "", ">= 0.95" if ours else "")
        whole = [one.share(FAULT_AT_S, end_s) / left for one in runs]
        yield row(one_case, "share of the remaining rate, whole fault", whole, "")
        gaps = [one.longest_gap_ms(FAULT_AT_S, end_s + AFTER_S) for one in runs]
        yield row(one_case, "longest gap", gaps, "ms", "<= 50" if ours and silent else "")
        after = [one.share(end_s + 1.0, end_s + AFTER_S) for one in runs]
        yield row(one_case, "share from 1 s after the return", after, "", ">= 0.97" if ours else "")
        yield row(one_case, "retransmitted", [one.retransmitted_share() for one in runs], "")
    yield from common(title, trials)


def rerouted(title: str, _case: Case, trials: Trials) -> Iterator[Row]:
    """Planes that become longer for a while: shares meanwhile, and afterwards."""
    end_s = FAULT_AT_S + FAULT_S
    for name, runs in trials.items():
        ours = name == "openmrc"
        one_case = f"{title}: {name}"
        yield row(one_case, "share before", [one.share(1.0, FAULT_AT_S) for one in runs], "")
        longer = [one.share(FAULT_AT_S + 1.5, end_s) for one in runs]
        yield row(one_case, "share from 1.5 s after the change", longer, "", ">= 0.95" if ours else "")
        after = [one.share(end_s + 1.0, end_s + AFTER_S) for one in runs]
        yield row(one_case, "share from 1 s after the return", after, "", ">= 0.95" if ours else "")
        gaps = [one.longest_gap_ms(FAULT_AT_S, end_s + AFTER_S) for one in runs]
        yield row(one_case, "longest gap", gaps, "ms")
        yield row(one_case, "retransmitted", [one.retransmitted_share() for one in runs], "")
    yield from common(title, trials)


def _left(case: Case) -> float:
    """Remaining share of all rates during the fault: plane 1 is silent, or has a quarter."""
    rates = [plane.rate_bps for plane in case.network.planes]
    kept = 0.25 if case.load.events and case.load.events[0][1] is slow_down else 0.0
    return 1 - (1 - kept) * rates[1] / sum(rates)


def slow_down(bed: PlainBed) -> None:
    bed.set_rate(1, bed.network.planes[1].rate_bps // 4)


def speed_up(bed: PlainBed) -> None:
    bed.set_rate(1, bed.network.planes[1].rate_bps)


def silence(bed: PlainBed) -> None:
    bed.silence(1)


def repair(bed: PlainBed) -> None:
    bed.repair(1)


def delay_all(bed: PlainBed, delay_us: int) -> None:
    for plane in range(len(bed.network.planes)):
        bed.set_delay(plane, delay_us)


def lose(share: float, planes: Sequence[int]) -> Callable[[PlainBed], None]:
    def act(bed: PlainBed) -> None:
        for plane in planes:
            bed.lose(plane, share)

    return act


def _cases() -> dict[str, Case]:
    plain = Load(seconds=0)
    pinged = replace(plain, probe=True)
    fault_seconds = FAULT_AT_S + FAULT_S + AFTER_S
    quarter = Load(seconds=fault_seconds, events=((FAULT_AT_S, slow_down), (FAULT_AT_S + FAULT_S, speed_up)))
    silent = Load(seconds=fault_seconds, events=((FAULT_AT_S, silence), (FAULT_AT_S + FAULT_S, repair)))
    delayed = PlainNetwork(
        tuple(PlainPlane(200 * MBIT, 512 * KIB, 9000, delay) for delay in (100, 2_500, 10_000, 15_000))
    )
    many = replace(plain, depth=64)
    moderate = PlainNetwork((PlainPlane(100 * MBIT, 512 * KIB, 9000, 4_000),) * 4)
    longer = Load(
        seconds=fault_seconds,
        depth=64,
        events=(
            (FAULT_AT_S, partial(delay_all, delay_us=15_000)),
            (FAULT_AT_S + FAULT_S, partial(delay_all, delay_us=4_000)),
        ),
    )
    # Two sites: a bandwidth-delay product of 7.5 MB, and the same again for packets held up by repairs.
    sites = PlainNetwork((PlainPlane(250 * MBIT, 512 * KIB, 9000, 30_000),) * 4)
    posted = replace(plain, depth=128)
    on_all = Load(seconds=15, beside="cubic", beside_planes=4)  # a share takes some seconds to be found
    incast = Load(seconds=0, flow_bytes=8 * MIB, pairs=tuple((host, 0) for host in range(1, 9)))
    everyone = tuple((source, to) for source in range(8) for to in range(8) if source != to)
    all_to_all = Load(seconds=0, flow_bytes=2 * MIB, depth=4, pairs=everyone)
    equal = {
        f"equal{rate}-{fifo}k": Case(of_rates(*(rate,) * 4, fifo_kib=fifo, mtu=mtu), pinged, steady)
        for rate, mtu, fifos in ((500, 9000, (64, 256, 1024)), (100, 1500, (64, 256, 1024)))
        for fifo in fifos
    }
    equal |= {
        f"cpu-{rate}{'-offloads' if offloads else ''}": Case(
            of_rates(*(rate,) * 4, mtu=mtu), plain, processor, offloads=offloads
        )
        for rate, mtu in ((500, 9000), (250, 1500))
        for offloads in (False, True)
    }
    return equal | {
        "unequal-500-500-250-100": Case(of_rates(500, 500, 250, 100, mtu=9000), plain, steady, ">= 0.95", "", True),
        "unequal-1000-100": Case(of_rates(1000, 100, mtu=9000), plain, steady, ">= 0.95", "", True),
        "unequal-900-40": Case(of_rates(900, 40, 40, 40, mtu=9000), plain, steady, ">= 0.95", "", True),
        "tiny-fifo": Case(of_rates(*(300,) * 4, fifo_kib=40), plain, steady, ">= 0.95"),
        "quarter": Case(of_rates(*(500,) * 4, mtu=9000), quarter, faulty, transports=("openmrc", "mptcp")),
        "silent": Case(of_rates(*(500,) * 4, mtu=9000), silent, faulty, transports=("openmrc", "mptcp")),
        "loss-one": Case(
            of_rates(*(200,) * 4), replace(plain, events=((0.0, lose(0.01, (1,))),)), steady, retransmitted=""
        ),
        "loss-all": Case(
            of_rates(*(200,) * 4), replace(plain, events=((0.0, lose(0.01, range(4))),)), steady, ">= 0.90", ""
        ),
        "delays-256k": Case(delayed, many, steady, ">= 0.90", ""),
        "delays-16m": Case(delayed, replace(plain, message_bytes=16 * MIB, depth=4), steady, ">= 0.90", ""),
        "longer": Case(moderate, longer, rerouted),
        "long-0": Case(sites, posted, steady, ">= 0.95", ""),
        "long-0.1": Case(sites, replace(posted, events=((0.0, lose(0.001, range(4))),)), steady, ">= 0.85", ""),
        "beside-cubic": Case(of_rates(*(200,) * 4), replace(plain, beside="cubic"), beside),
        "beside-bbr": Case(of_rates(*(200,) * 4), replace(plain, beside="bbr"), beside),
        "contested-cubic": Case(of_rates(*(100,) * 4), on_all, contested),
        "contested-bbr": Case(of_rates(*(100,) * 4), replace(on_all, beside="bbr"), contested),
        "incast": Case(of_rates(*(100,) * 4, fifo_kib=64, hosts=9), incast, completed),
        # Slower than the incast: eight receivers at four times 25 Mb/s leave two cores 4 to 8 % idle.
        "all-to-all": Case(of_rates(*(10,) * 4, fifo_kib=64, hosts=8), all_to_all, completed),
    }


CASES = _cases()
COLLECTIVES = {"all-reduce": all_reduce, "long-sites": between_sites}


def measure(name: str, case: Case, options: argparse.Namespace, console: Console) -> Iterator[Row]:
    """All repeats of a case, each on a network of its own, and their rows."""
    load = case.load if case.load.seconds or case.load.flow_bytes else replace(case.load, seconds=options.seconds)
    trials: Trials = {}
    wanted = [one for one in case.transports if one in options.transports]
    for number in range(options.repeat):
        with PlainBed(case.network, offloads=case.offloads) as bed:
            for transport in wanted:
                trial = run(bed, transport, load)
                for plane in range(len(case.network.planes)):
                    bed.repair(plane)
                trials.setdefault(transport, []).append(trial)
                say(console, f"{name} {number + 1}/{options.repeat} {transport}", trial)
            if case.alone and "openmrc" in wanted:
                rates = [plane.rate_bps for plane in case.network.planes]
                trial = run(bed, "openmrc", replace(load, planes=(rates.index(max(rates)),)))
                trials.setdefault("alone", []).append(trial)
                say(console, f"{name} {number + 1}/{options.repeat} alone", trial)
    yield from case.rows(name, case, trials)


def invariants(options: argparse.Namespace, console: Console) -> Iterator[Row]:
    """Random networks: openmrc against its own best plane and against MPTCP, once on each."""
    alone: list[float | None] = []
    mptcp: list[float | None] = []
    shares: list[float | None] = []
    for number, network in enumerate(draw(options.networks, options.seed)):
        rates = [plane.rate_bps for plane in network.planes]
        slowest_s = max(plane.delay_us for plane in network.planes) * 2e-6 + 0.01
        depth = max(16, int(2 * slowest_s * sum(rates) / 8 / (256 * KIB)))
        load = Load(seconds=options.seconds, depth=depth)
        console.print(f"  network {number}: {describe(network)}", style="dim", markup=False, soft_wrap=True)
        with PlainBed(network) as bed:
            ours = run(bed, "openmrc", load)
            best = run(bed, "openmrc", replace(load, planes=(rates.index(max(rates)),)))
            other = run(bed, "mptcp", load)
        for words, trial in (("openmrc", ours), ("best plane alone", best), ("mptcp", other)):
            say(console, f"network {number} {words}", trial)
        shares.append(ours.share())
        alone += over([ours.goodput_bps()], [best.goodput_bps()])
        mptcp += over([ours.goodput_bps()], [sustained_bps(other)])
    case = f"{options.networks} networks drawn with seed {options.seed}: openmrc"
    yield row(case, "share of limit", shares, "")
    yield row(case, "share of limit, worst", [_least(shares)], "")
    yield row(case, "goodput over the best plane alone, worst", [_least(alone)], "x", ">= 1.0")
    yield row(case, "goodput over MPTCP, worst", [_least(mptcp)], "x", ">= 0.97")


def sustained_bps(trial: Trial) -> float:
    """Goodput, at most the limit: more are bytes of the first second that waited for older ones to be repaired."""
    return min(trial.goodput_bps(), trial.limit_bps)


def _least(values: list[float | None]) -> float | None:
    return min((value for value in values if value is not None), default=None)


def say(console: Console, words: str, trial: Trial) -> None:
    """Prints one line about a run at its end."""
    planes = " ".join(f"{share:.2f}" for share in trial.plane_shares())
    delay, idle_share = trial.extra_delay_ms(0.99), trial.idle_share()
    extra = "" if delay is None else f" ping +{delay:.1f} ms,"
    processors = "" if idle_share is None else f", processors {idle_share:.0%} idle"
    console.print(
        f"  {words}: {trial.goodput_bps() / 1e9:.3f} Gb/s, {trial.share():.3f} of the limit "
        f"(first second {trial.share(0, 1):.3f}), retransmitted {trial.retransmitted_share():.2%}, "
        f"gap {trial.longest_gap_ms():.0f} ms,"
        f"{extra} planes {planes}{processors}, load {os.getloadavg()[0]:.1f}"
        + (f", {trial.wrong} wrong, {trial.errors}" if trial.wrong or trial.errors else ""),
        style="dim",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="openmrc, MPTCP and TCP over ordinary networks.")
    parser.add_argument(
        "--only", nargs="+", metavar="CASE", help=f"of {', '.join((*CASES, *COLLECTIVES))}; a prefix takes several"
    )
    parser.add_argument("--repeat", "--repeats", type=int, default=5, help="runs per number; the median counts")
    parser.add_argument("--seconds", type=float, default=4.0, help="of each transfer that has no fault to wait for")
    parser.add_argument("--transports", nargs="+", choices=TRANSPORTS, default=TRANSPORTS)
    parser.add_argument("--json", type=file_argument, help="write the rows to this file")
    parser.add_argument("--networks", type=int, default=0, metavar="N", help="also N networks drawn with --seed")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.repeat < 1 or options.seconds < 2:
        parser.error("--repeat: at least 1; --seconds: at least 2")
    console = Console(width=None if sys.stdout.isatty() else 150)
    if not namespaces_allowed():
        console.print("[yellow]no network namespaces here (they need root)[/]")
        return 0
    names = [*CASES, *COLLECTIVES]
    wanted = [name for name in names if not options.only or any(name.startswith(word) for word in options.only)]
    if options.only == ["networks"]:
        wanted = []
    elif not wanted:
        parser.error(f"--only: {' '.join(options.only)}; allowed: {', '.join(names)}")
    report, failed = Report(), False
    sources: dict[str, Callable[[], Iterator[Row]]] = {
        name: partial(measure, name, CASES[name], options, console) for name in wanted if name in CASES
    }
    for name, collective in COLLECTIVES.items():
        if name in wanted:
            sources[name] = partial(collective, options.repeat, console)
    if options.networks:
        sources["networks"] = partial(invariants, options, console)
    for name, source in sources.items():
        try:
            report.add(source())
        except OpenmrcError as error:
            failed = True
            console.print(f"  {name} failed: {error}", style="red", markup=False)
        if options.json:
            report.write(options.json)
    console.print(rows_table(report.rows, title=f"ordinary, commit {report.commit}"))
    return int(failed)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
