"""Requirements of `openmrc testbed`: namespaces, a kernel that shifts uSIDs, clang and libbpf for the data plane."""

from __future__ import annotations

import ctypes
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from openmrc.doctor.finding import Finding, Value, Verdict
from openmrc.doctor.host import Host
from openmrc.doctor.namespace_probe import NamespaceFacts

__all__ = ["check_data_plane", "check_kernel", "check_namespaces", "has_library"]

_GROUP = "test bed"
_CAP_NET_ADMIN, _CAP_SYS_ADMIN, _CAP_BPF = 12, 21, 39
_LIBRARY = "libbpf.so.1"
_PROGRAM_OF_WHEEL = Path(__file__).parents[1] / "testbed" / "bpf" / "switch.bpf.o"
_REFUSALS = (
    ("kernel/unprivileged_userns_clone", 0, "sudo sysctl -w kernel.unprivileged_userns_clone=1"),
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        1,
        "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    ),
    ("user/max_user_namespaces", 0, "sudo sysctl -w user.max_user_namespaces=10000"),
)


def check_namespaces(host: Host, facts: NamespaceFacts) -> Finding:
    """Permission of this user to create network namespaces, directly or inside a user namespace."""
    numbers = {"namespaces": facts.made, "user_namespace": facts.by_user}
    if facts.made:
        how = ", inside a user namespace: a bed without data plane" if facts.by_user else ""
        return Finding(_GROUP, "namespaces", Verdict.OK, f"Can be made{how}.", numbers=numbers)
    command = next((command for name, value, command in _REFUSALS if host.sysctl(name) == value), None)
    sentence = f"Cannot be made ({facts.reason}): no test bed for this user."
    return Finding(_GROUP, "namespaces", Verdict.OPTIONAL, sentence, command, numbers)


def check_kernel(facts: NamespaceFacts) -> Finding | None:
    """Support of the kernel for the switches of a test bed; None if there are no namespaces to try it in."""
    if not facts.made:
        return None
    numbers = {"veth": facts.links, "seg6local": facts.seg6local, "next_csid": facts.next_csid}
    if facts.next_csid:
        sentence = "The kernel shifts uSIDs (seg6local End, next-csid): it can be a switch."
        return Finding(_GROUP, "kernel", Verdict.OK, sentence, numbers=numbers)
    if not facts.links:
        sentence = f"No veth pairs ({facts.reason}): the kernel lacks CONFIG_VETH."
        return Finding(_GROUP, "kernel", Verdict.OPTIONAL, sentence, "sudo modprobe veth", numbers)
    lacks = "next-csid, which came with Linux 6.1" if facts.seg6local else f"SRv6 actions ({facts.reason})"
    sentence = f"The kernel lacks {lacks}: CONFIG_IPV6_SEG6_LWTUNNEL and Linux 6.1 make it a switch."
    return Finding(_GROUP, "kernel", Verdict.OPTIONAL, sentence, numbers=numbers)


def has_library(name: str = _LIBRARY) -> bool:
    """True if a shared library can be loaded."""
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def check_data_plane(
    host: Host,
    which: Callable[[str], str | None] = shutil.which,
    has: Callable[[str], bool] = has_library,
    program_of_wheel: Path = _PROGRAM_OF_WHEEL,
) -> Iterator[Finding]:
    """Programs and privileges for marking and trimming; without them a test bed has plain queues."""
    for program, package, effect in (
        ("ip", "iproute2", "no test bed"),
        ("clang", "clang", "plain queues, which neither mark nor trim"),
    ):
        path = which(program)
        numbers: dict[str, Value] = {"path": path}
        if program == "clang" and program_of_wheel.exists():
            numbers["compiled"] = True
            sentence = "Not needed: this installation has the switches' eBPF program compiled."
            yield Finding(_GROUP, program, Verdict.OK, sentence, numbers=numbers)
        elif path is None:
            sentence = f"`{program}` is missing: {effect}."
            yield Finding(_GROUP, program, Verdict.OPTIONAL, sentence, f"sudo apt install {package}", numbers)
        else:
            yield Finding(_GROUP, program, Verdict.OK, f"{path}.", numbers=numbers)
    rights = _may_load(host)
    there = has(_LIBRARY)
    numbers = {"libbpf": there, "may_load_programs": rights}
    if not there:
        sentence = f"{_LIBRARY} is missing: plain queues, which neither mark nor trim."
        yield Finding(_GROUP, "eBPF", Verdict.OPTIONAL, sentence, "sudo apt install libbpf1", numbers)
    elif not rights:
        sentence = "This user may not load eBPF programs: plain queues, which neither mark nor trim."
        yield Finding(_GROUP, "eBPF", Verdict.OPTIONAL, sentence, "sudo openmrc testbed up FABRIC.yaml", numbers)
    else:
        yield Finding(
            _GROUP, "eBPF", Verdict.OK, f"{_LIBRARY} is installed, and programs may be loaded.", numbers=numbers
        )


def _may_load(host: Host) -> bool:
    status = host.text("proc/self/status") or ""
    effective = next((line.split()[1] for line in status.splitlines() if line.startswith("CapEff:")), "0")
    held = int(effective, 16)
    return bool(held >> _CAP_NET_ADMIN & (held >> _CAP_SYS_ADMIN | held >> _CAP_BPF) & 1)
