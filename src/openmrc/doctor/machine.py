"""Processors, clock and open files: the needs of a device's thread and sockets."""

from __future__ import annotations

from openmrc.doctor.finding import Finding, Verdict
from openmrc.doctor.host import Host

__all__ = ["check_clock", "check_files", "check_processors"]

_GROUP = "machine"
_CGROUP_1, _CGROUP_2 = "sys/fs/cgroup/cpu", "sys/fs/cgroup"
_QUICK_CLOCKS = {"tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page", "timebase", "riscv_clocksource"}
_EVS_PER_PORT = 64
_EVS_MAX = 1024
_FILES_BESIDE = 256  # for the program itself, and one TCP connection per handshake


def check_processors(host: Host) -> Finding:
    """Checks that the device's thread and the application have a processor each."""
    cores = len(host.processors)
    known, quota = _quota(host)
    usable = cores if quota is None else min(cores, quota)
    numbers = {"processors": cores, "processors_allowed": usable}
    if usable < 2:
        limit = "" if quota is None or quota >= cores else " (its control group allows no more)"
        sentence = f"{usable:.3g} processor{limit}: the device's thread and the application take turns."
        return Finding(_GROUP, "processors", Verdict.IMPROVABLE, sentence, numbers=numbers)
    if not known:
        sentence = f"{cores} processors; whether a control group limits their time cannot be read."
        return Finding(_GROUP, "processors", Verdict.UNKNOWN, sentence, numbers=numbers)
    sentence = f"{usable:.3g} processors: one for each device's thread, the others for the application."
    return Finding(_GROUP, "processors", Verdict.OK, sentence, numbers=numbers)


def _quota(host: Host) -> tuple[bool, float | None]:
    """True if the control groups are readable, and the processors' worth of time that they grant; None: no limit."""
    limits: list[float] = []
    known = False
    for folder in _control_groups(host):
        known = known or host.text(f"{folder}/cgroup.controllers") is not None
        words = (host.text(f"{folder}/cpu.max") or "").split()
        known = known or bool(words)
        if len(words) == 2 and words[0] != "max":
            limits.append(int(words[0]) / int(words[1]))
    quota, period = host.number(f"{_CGROUP_1}/cpu.cfs_quota_us"), host.number(f"{_CGROUP_1}/cpu.cfs_period_us")
    if quota is not None and period:
        known = True
        limits += [quota / period] if quota > 0 else []
    return known, min(limits, default=None)


def _control_groups(host: Host) -> list[str]:
    """Folders of the process's control group (version 2) and of its ancestors, whose limits apply, too."""
    lines = (host.text("proc/self/cgroup") or "").splitlines()
    own = next((line[3:].strip("/") for line in lines if line.startswith("0::")), "")
    parts = [part for part in own.split("/") if part not in ("", "..")]
    return ["/".join([_CGROUP_2, *parts[:count]]) for count in range(len(parts) + 1)]


def check_clock(host: Host) -> Finding:
    """Checks that the kernel's clock can be read without a system call, as for every burst of packets."""
    folder = "sys/devices/system/clocksource/clocksource0"
    current = host.text(f"{folder}/current_clocksource")
    available = (host.text(f"{folder}/available_clocksource") or "").split()
    numbers = {"clock_source": current}
    if current is None:
        sentence = "The clock source cannot be read; a slow one costs a system call or a bus cycle at each reading."
        return Finding(_GROUP, "clock", Verdict.UNKNOWN, sentence, numbers=numbers)
    if current in _QUICK_CLOCKS:
        return Finding(_GROUP, "clock", Verdict.OK, f"Clock source {current}.", numbers=numbers)
    better = next((name for name in available if name in _QUICK_CLOCKS), None)
    sentence = f"Clock source {current}: reading it costs a system call or a bus cycle, several for every burst."
    command = f"echo {better} | sudo tee /{folder}/current_clocksource" if better else None
    return Finding(_GROUP, "clock", Verdict.IMPROVABLE, sentence, command, numbers)


def check_files(ports: int, limit: int) -> Finding:
    """Checks that the process may open the device's sockets: one per EV (64 per port), one per port to receive on."""
    evs = min(_EVS_PER_PORT, _EVS_MAX // ports)
    sockets = ports * (evs + 1)
    numbers = {"open_files_limit": limit, "sockets_per_device": sockets}
    said = f"{limit:,} open files allowed, a device of {ports} port{'s' * (ports > 1)} opens {sockets:,} sockets"
    if limit <= sockets:
        return Finding(_GROUP, "open files", Verdict.BROKEN, f"{said}.", f"ulimit -n {2 * sockets + 1024}", numbers)
    if limit < 2 * sockets + _FILES_BESIDE:
        sentence = f"{said}: not enough for a second device."
        return Finding(_GROUP, "open files", Verdict.IMPROVABLE, sentence, f"ulimit -n {4 * sockets + 1024}", numbers)
    return Finding(_GROUP, "open files", Verdict.OK, f"{said}.", numbers=numbers)
