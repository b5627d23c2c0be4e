"""Profiles: perf's output, the stages of functions, shares of ends and of interrupts, and perf's refusals."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from openmrc import _native
from openmrc.errors import ConfigError
from openmrc.reports.profile_page import profile_html
from openmrc.reports.stream_profile_table import profile_table, summary_lines
from openmrc.runs.profile.account import Account, account_of_samples, account_of_threads
from openmrc.runs.profile.sampler import PerfSampler, Sample, SamplerError, parse_script
from openmrc.runs.profile.stages import STAGES, THREAD_STAGES, Frame, is_idle, is_interrupted, stage_of
from openmrc.runs.profile.stream_profile import Profile, StreamProfile, profile
from openmrc.runs.profile.thread_times import ThreadTime, spent, thread_times
from openmrc.runs.run_plan import RunPlan

KERNEL = "[kernel.kallsyms]"
OWN = "/x/site-packages/openmrc/_native.cpython-311-x86_64-linux-gnu.so"
LIBC = "/usr/lib/x86_64-linux-gnu/libc.so.6"
SCRIPT = """\
openmrc-io 71/72    1001001 cpu-clock:pppH:
\tffffffff8226dbf9 _copy_to_iter ([kernel.kallsyms])
\tffffffff816e238f udp_recvmsg ([kernel.kallsyms])
\t           d4ad7 __libc_recvmmsg (/usr/lib/x86_64-linux-gnu/libc.so.6)

a name: 1/2 90/90    1001001 cpu-clock:pppH:
\t           1234a openmrc::wire::(anonymous namespace)::update_256 (/x/openmrc/_native.cpython-311-x86_64-linux-gnu.so)

swapper     0/0      1001001 cpu-clock:pppH:
\tffffffff8226dbf9 pv_native_safe_halt ([kernel.kallsyms])
"""


def stack(*symbols: str, file: str = KERNEL) -> tuple[Frame, ...]:
    return tuple(Frame(symbol, file) for symbol in symbols)


def test_the_text_of_perf_script_becomes_samples():
    events, samples = zip(*parse_script(SCRIPT.splitlines()), strict=True)
    assert set(events) == {"cpu-clock:pppH"}
    assert [(one.program, one.pid, one.weight) for one in samples] == [
        ("openmrc-io", 71, 1001001),
        ("a name: 1/2", 90, 1001001),
        ("swapper", 0, 1001001),
    ]
    assert samples[0].frames == (*stack("_copy_to_iter", "udp_recvmsg"), Frame("__libc_recvmmsg", LIBC))
    assert samples[1].frames[0].symbol == "openmrc::wire::(anonymous namespace)::update_256"
    assert list(parse_script(["perf: a warning", "", "\tno sample (x)"])) == []


@pytest.mark.parametrize(
    ("frames", "stage"),
    [
        (stack("_copy_to_iter", "__skb_datagram_iter", "udp_recvmsg"), "kernel_copy"),
        (stack("_raw_spin_lock", "udp_sendmsg", "____sys_sendmsg"), "kernel_send"),
        (stack("_raw_spin_unlock_irqrestore", "sock_def_readable", "udp_queue_rcv_one_skb"), "kernel_wakeup"),
        (stack("skb_release_data", "udp_recvmsg", "__sys_recvmsg"), "kernel_receive"),
        (stack("finish_task_switch.isra.0", "__schedule"), "kernel_wakeup"),
        (stack("veth_xmit", "dev_hard_start_xmit", "udp_sendmsg"), "kernel_bridge"),
        (stack("br_handle_frame.cold", file="[bridge]"), "kernel_bridge"),
        (stack("clear_page_erms", "exc_page_fault"), "kernel_rest"),
        ((*stack("exc_page_fault"), Frame("openmrc::wire::icrc", OWN)), "kernel_rest"),
        (stack("openmrc::wire::(anonymous namespace)::update_256", file=OWN), "seal"),
        (stack("openmrc::wire::FlowIcrc::operator()", file=OWN), "seal"),
        (stack("openmrc::wire::(anonymous namespace)::update_first", file=OWN), "seal"),
        (stack("openmrc::MrcResponder::handle_data", file=OWN), "engine"),
        (stack("openmrc::wire::encode_headers", file=OWN), "engine"),
        (stack("openmrc::nic::Port::send_from", file=OWN), "driver"),
        (stack("openmrc::bindings::poll_cq", file=OWN), "python"),
        (stack("__memmove_avx_unaligned_erms", file=LIBC), "place"),
        (stack("__libc_sendmsg", file=LIBC), "driver"),
        (stack("__vdso_clock_gettime", file="[vdso]"), "driver"),
        (stack("_PyEval_EvalFrameDefault", file="/usr/lib/libpython3.11.so.1.0"), "python"),
        (stack("main", file="/usr/bin/python3.12"), "python"),
        (stack("blas_thread_server", file="/x/libscipy_openblas64_.so"), "rest"),
        (stack("[unknown]", file="[unknown]"), "rest"),
        ((), "rest"),
    ],
)
def test_a_sample_belongs_to_its_innermost_function_that_a_stage_claims(frames: Sequence[Frame], stage: str):
    assert stage_of(frames) == stage


def test_idle_processors_and_interrupts_are_told_apart_from_work():
    assert is_idle(stack("pv_native_safe_halt", "default_idle", "do_idle"))
    received = stack("udp_rcv", "net_rx_action", "handle_softirqs", "__irq_exit_rcu", "default_idle", "do_idle")
    assert not is_idle(received)
    assert is_interrupted(received)
    assert not is_interrupted(stack("udp_rcv", "net_rx_action", "handle_softirqs", "__local_bh_enable_ip"))
    assert not is_interrupted(stack("ext4_write"))


def account(hidden_kernel: Sequence[ThreadTime] | None = None) -> Account:
    samples = [
        Sample("python", 7, 30, stack("_copy_from_iter", "udp_sendmsg")),
        Sample("openmrc-io", 8, 10, stack("openmrc::wire::icrc", file=OWN)),
        Sample("python", 7, 20, stack("openmrc::wire::icrc", file=OWN)),
        Sample("swapper", 0, 10, stack("udp_rcv", "net_rx_action", "handle_softirqs", "do_idle")),
        Sample("swapper", 0, 500, stack("default_idle", "do_idle")),
        Sample("cc1plus", 9, 30, stack("parse", file="/usr/bin/cc1plus")),
    ]
    return account_of_samples(samples, {7: "writer", 8: "reader"}, 2.0, hidden_kernel)


def test_busy_time_is_shared_by_stages_ends_and_other_programs():
    found = account()
    lines = {line.key: line for line in found.lines}
    assert list(lines) == [stage.key for stage in STAGES]
    assert found.ends == ("writer", "reader", "interrupts")
    assert lines["kernel_copy"].cpu_s == pytest.approx({"writer": 0.6})
    assert lines["seal"].cpu_s == pytest.approx({"writer": 0.4, "reader": 0.2})
    assert lines["kernel_receive"].cpu_s == pytest.approx({"interrupts": 0.2})
    assert found.other_cpu_s == pytest.approx(0.6)
    assert found.total_cpu_s == pytest.approx(1.4)
    assert sum(map(found.share, found.lines)) == pytest.approx(1.0)
    assert lines["seal"].functions == (("openmrc::wire::icrc", 1.0),)
    assert found.samples == 4


def test_a_hidden_kernel_is_one_stage_with_the_time_of_the_threads():
    found = account([ThreadTime("writer", "python", 1.0, 0.5), ThreadTime("writer", "openmrc-io", 0.0, 0.25)])
    assert found.lines[0].key == "kernel"
    assert found.lines[0].cpu_s == {"writer": 0.75}
    assert all(line.side != "kernel" for line in found.lines[1:])


def test_threads_give_shares_where_there_are_no_samples():
    found = account_of_threads(
        [ThreadTime("writer", "python", 0.3, 0.1), ThreadTime("reader", "openmrc-io", 0.4, 0.2)], ["writer", "reader"]
    )
    assert [line.key for line in found.lines] == [stage.key for stage, _ in THREAD_STAGES]
    assert [line.total_cpu_s for line in found.lines] == pytest.approx([0.2, 0.1, 0.4, 0.3])
    assert (found.samples, found.other_cpu_s) == (None, None)


def test_time_of_own_threads_is_found_by_name():
    """Names may hold parentheses and spaces."""
    stop = threading.Event()

    def spin() -> None:
        Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text("a) (b 1")
        while not stop.is_set():
            sum(range(1000))

    before = thread_times({"own": os.getpid(), "gone": 2**22 + 1})
    thread = threading.Thread(target=spin)
    thread.start()
    try:
        found: list[ThreadTime] = []
        while not any(one.thread == "a) (b 1" for one in found):
            found = spent(before, thread_times({"own": os.getpid()}))
    finally:
        stop.set()
        thread.join()
    assert {one.end for one in found} == {"own"}


def found_profile(reason: str | None, accounts: dict[str, Account]) -> Profile:
    streams = tuple(
        StreamProfile(name, 10**9, 8.0, 1.5, None, one, (), "whole machine", "cpu-clock")
        for name, one in accounts.items()
    )
    return Profile(reason, 997, streams, {"counters": {"writer": None, "reader": None}})


def test_the_table_fits_and_names_functions_where_there_is_room():
    shown = found_profile(None, {"mrc": account(), "tcp": account()})
    for width, functions in ((80, False), (200, True)):
        console = Console(width=width, record=True, file=StringIO())
        console.print(profile_table(shown, width))
        text = console.export_text()
        assert max(map(len, text.splitlines())) <= width
        assert "wake-ups, scheduling" in text
        assert "0.600" in text
        assert "43%" in text
        assert ("wire::icrc" in text) is functions
    assert summary_lines(shown)[0] == "perf: 4 samples of cpu-clock, whole machine"


def test_the_page_stands_alone_and_escapes():
    threads = account_of_threads([ThreadTime("writer", "python", 0.3, 0.1)], ["writer"])
    page = profile_html(found_profile("perf says <no>", {"mrc": threads}), {"seed": 1})
    assert "perf says &lt;no&gt;" in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    assert page.count("<svg") == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sampler": "gprof"}, ["--sampler", "gprof", "auto, perf, counters"]),
        ({"frequency_hz": 0}, ["--frequency", "0", "1 to 10000"]),
        ({"namespaces_mtu": 1500}, ["--planes", "2", "1 with --namespaces"]),
    ],
)
def test_values_that_are_not_allowed_are_refused_before_anything_runs(changes: dict[str, Any], words: list[str]):
    with pytest.raises(ConfigError) as refused:
        profile(RunPlan(planes=2, rate_bps=0), **changes)
    assert all(word in str(refused.value) for word in words)


@pytest.fixture
def fake_perf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Replaces perf by a program with this text."""

    def put(text: str) -> None:
        program = tmp_path / "perf"
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)

    monkeypatch.setenv("PATH", str(tmp_path))
    return put


def test_a_perf_that_is_missing_or_refused_says_why(fake_perf: Callable[[str], None]):
    with pytest.raises(SamplerError, match="not installed"):
        PerfSampler([os.getpid()], 997)
    fake_perf("echo 'Error:' >&2; echo 'Access to performance monitoring is limited' >&2; exit 255")
    with pytest.raises(SamplerError, match=r"refused: Access to performance.*perf_event_paranoid is"):
        PerfSampler([os.getpid()], 997)


def test_functions_of_the_extension_can_be_named():
    """The symbol table is part of the installation: without it perf shows addresses."""
    assert _native.__file__ is not None
    content = Path(_native.__file__).read_bytes()
    assert b".symtab" in content
    assert b"MrcResponder" in content
