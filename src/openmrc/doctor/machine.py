"""Processors, clock and open files: what a device's thread and its sockets need of the machine."""

from __future__ import annotations

from openmrc.doctor.finding import Finding, Verdict
from openmrc.doctor.host import Host

__all__ = ["check_clock", "check_files", "check_processors"]

_GROUP = "machine"
_QUICK_CLOCKS = {"tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page", "timebase", "riscv_clocksource"}
_EVS_PER_PORT = 64
_EVS_MAX = 1024
_FILES_BESIDE = 256  # the program's own, and one TCP connection per handshake


def check_processors(host: Host) -> Finding:
    """Whether the device's thread and the application have a processor each."""
    cores = len(host.processors)
    quota = _quota(host)
    usable = cores if quota is None else min(cores, quota)
    numbers = {"processors": cores, "processors_allowed": usable}
    if usable < 2:
        limit = "" if quota is None or quota >= cores else " (its control group allows no more)"
        sentence = f"{usable:.3g} processor{limit}: the device's thread and the application take turns."
        return Finding(_GROUP, "processors", Verdict.IMPROVABLE, sentence, numbers=numbers)
    sentence = f"{usable:.3g} processors: one for each device's thread, the others for the application."
    return Finding(_GROUP, "processors", Verdict.OK, sentence, numbers=numbers)


def _quota(host: Host) -> float | None:
    """Processors' worth of time that the control group grants (cgroup v2 cpu.max); None: no limit."""
    words = (host.text("sys/fs/cgroup/cpu.max") or "max").split()
    if len(words) != 2 or words[0] == "max":
        return None
    return int(words[0]) / int(words[1])


def check_clock(host: Host) -> Finding:
    """Whether the kernel's clock can be read without a system call, as is done for every burst of packets."""
    folder = "sys/devices/system/clocksource/clocksource0"
    current = host.text(f"{folder}/current_clocksource")
    available = (host.text(f"{folder}/available_clocksource") or "").split()
    numbers = {"clock_source": current}
    if current is None or current in _QUICK_CLOCKS:
        return Finding(_GROUP, "clock", Verdict.OK, f"Clock source {current or 'unknown'}.", numbers=numbers)
    better = next((name for name in available if name in _QUICK_CLOCKS), None)
    sentence = f"Clock source {current}: reading it costs a system call or a bus cycle, several for every burst."
    command = f"echo {better} | sudo tee /{folder}/current_clocksource" if better else None
    return Finding(_GROUP, "clock", Verdict.IMPROVABLE, sentence, command, numbers)


def check_files(ports: int, limit: int) -> Finding:
    """Whether the process may open the device's sockets: one per EV (64 a port), one per port to receive on."""
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
