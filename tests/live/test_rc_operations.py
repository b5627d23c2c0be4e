"""Operations of RC over real sockets: SEND into posted memory, waits for receives, READ and atomics."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from own_ports import UDP_PORT
from waiting import until

from openmrc.errors import BusyError, InvalidArgumentError
from openmrc.events import Event, SrqLimit
from openmrc.verbs import (
    Access,
    CompletionQueue,
    Device,
    MemoryRegion,
    Peer,
    ProtectionDomain,
    QpInitAttributes,
    QueuePair,
    RecvWr,
    SendWr,
    Sge,
    ToInit,
    ToRtr,
    ToRts,
    Transport,
    WcOpcode,
    WcStatus,
    WorkCompletion,
    WrOpcode,
)

pytestmark = pytest.mark.live

ADDRESSES = (("127.0.0.13", "127.0.0.14"), ("127.0.0.23", "127.0.0.24"))
MTU = 1024
EVERYTHING = Access.LOCAL_WRITE | Access.REMOTE_WRITE | Access.REMOTE_READ | Access.REMOTE_ATOMIC


@dataclass
class End:
    """One end of a connection of two QPs."""

    device: Device
    pd: ProtectionDomain
    cq: CompletionQueue
    qp: QueuePair

    def memory(self, size_bytes: int, fill: bytes = b"\0") -> tuple[bytearray, MemoryRegion]:
        buffer = bytearray((fill * (size_bytes // len(fill) + 1))[:size_bytes])
        return buffer, self.pd.register(buffer, EVERYTHING)

    def done(self) -> WorkCompletion:
        (one,) = self.cq.wait(20, count_max=1)
        return one


def end_of(device: Device, transport: Transport) -> End:
    context = device.open_context()
    pd, cq = context.alloc_pd(), context.create_cq(64)
    return End(device, pd, cq, pd.create_qp(cq, attributes=QpInitAttributes(transport=transport)))


def join(ends: tuple[End, End], init: ToInit | None = None) -> None:
    for end, other, addresses in ((ends[0], ends[1], ADDRESSES[1]), (ends[1], ends[0], ADDRESSES[0])):
        end.qp.modify(init or ToInit())
        peer, number = Peer(addresses, UDP_PORT), other.qp.qp_num
        end.qp.modify(ToRtr(peer=peer, destination_qp=number, rq_psn=number & 0xFFFF, payload_mtu=MTU))
        end.qp.modify(ToRts(sq_psn=end.qp.qp_num & 0xFFFF, timeout_exponent=14))


@pytest.fixture
def ends(request: pytest.FixtureRequest) -> Iterator[tuple[End, End]]:
    with Device(list(ADDRESSES[0]), udp_port=UDP_PORT) as a, Device(list(ADDRESSES[1]), udp_port=UDP_PORT) as b:
        made = (end_of(a, Transport.RC), end_of(b, Transport.RC))
        join(made)
        yield made


# proves X.8.2, X.8.3
@pytest.mark.parametrize("size_bytes", [1, 1024, 10_001])
def test_a_send_fills_the_parts_of_a_receive(ends, size_bytes):
    sender, receiver = ends
    outbox, source = sender.memory(size_bytes, bytes(range(251)))
    tail, more = sender.memory(700, b"tail")
    inbox, target = receiver.memory(size_bytes + 1000)
    half = size_bytes // 2
    receiver.qp.post_recv(RecvWr(7, (Sge(target, 0, half), Sge(target, half))))
    sender.qp.post_send(SendWr(wr_id=3, opcode=WrOpcode.SEND_IMM, region=source, more=(Sge(more),), immediate=99))
    done, received = sender.done(), receiver.done()
    assert (done.wr_id, done.status, done.opcode) == (3, WcStatus.SUCCESS, WcOpcode.SEND)
    assert (received.wr_id, received.bytes, received.immediate) == (7, size_bytes + 700, 99)
    assert received.opcode is WcOpcode.RECV_IMM
    assert inbox[: size_bytes + 700] == outbox + tail
    assert not any(inbox[size_bytes + 700 :])


# proves X.8.4
def test_a_send_waits_for_its_receive(ends):
    sender, receiver = ends
    _, source = sender.memory(3000, b"abc")
    inbox, target = receiver.memory(3000)
    sender.qp.post_send(SendWr(opcode=WrOpcode.SEND, region=source))
    while not sender.qp.statistics().rnr_naks_received:
        assert not sender.cq.wait(0.01)
    receiver.qp.post_recv(RecvWr(1, (Sge(target),)))
    assert receiver.done().bytes == 3000
    assert sender.done().status is WcStatus.SUCCESS
    assert inbox == b"abc" * 1000


# proves X.8.5
def test_a_send_longer_than_its_receive_ends_both_qps(ends):
    sender, receiver = ends
    _, source = sender.memory(3000)
    _, target = receiver.memory(2999)
    receiver.qp.post_recv(RecvWr(1, (Sge(target),)))
    sender.qp.post_send(SendWr(opcode=WrOpcode.SEND, region=source))
    assert sender.done().status is WcStatus.REM_INV_REQ_ERR
    assert receiver.done().status is WcStatus.LOC_LEN_ERR


# proves X.8.6
@pytest.mark.parametrize("size_bytes", [8, 1024, 300_001])
def test_a_read_fetches_the_peers_memory(ends, size_bytes):
    reader, other = ends
    theirs, source = other.memory(size_bytes, bytes(range(251)))
    ours, target = reader.memory(size_bytes)
    reader.qp.post_send(SendWr(opcode=WrOpcode.READ, region=target, remote_address=source.address, rkey=source.rkey))
    done = reader.done()
    assert (done.status, done.opcode, done.bytes) == (WcStatus.SUCCESS, WcOpcode.READ, size_bytes)
    assert ours == theirs


# proves X.8.8
def test_atomics_answer_the_former_value(ends):
    user, other = ends
    counter, source = other.memory(8)
    former, target = user.memory(8)
    at = {"region": target, "remote_address": source.address, "rkey": source.rkey}
    seen = []
    for wr in (
        SendWr(opcode=WrOpcode.FETCH_ADD, swap_add=5, **at),
        SendWr(opcode=WrOpcode.COMPARE_SWAP, compare=5, swap_add=9, **at),
        SendWr(opcode=WrOpcode.COMPARE_SWAP, compare=5, swap_add=1, **at),
    ):
        user.qp.post_send(wr)
        assert user.done().status is WcStatus.SUCCESS
        seen.append(int.from_bytes(former, sys.byteorder))
    assert seen == [0, 5, 9]
    assert int.from_bytes(counter, sys.byteorder) == 9


# proves X.8.5
def test_a_read_without_the_right_ends_both_qps(ends):
    reader, other = ends
    _, target = reader.memory(8)
    source = other.pd.register(bytearray(8), Access.REMOTE_WRITE)
    reader.qp.post_send(SendWr(opcode=WrOpcode.READ, region=target, remote_address=source.address, rkey=source.rkey))
    assert reader.done().status is WcStatus.REM_ACCESS_ERR


# proves X.8.10
def test_two_qps_take_receives_from_one_queue(ends):
    _, receiver = ends
    context = ends[0].device.open_context()
    cq, pd = context.create_cq(64), context.alloc_pd()
    with receiver.pd.create_srq(4) as srq, receiver.device.subscribe() as events:
        inbox, target = receiver.memory(300)
        for number in range(3):
            srq.post_recv(RecvWr(number, (Sge(target, 100 * number, 100),)))
        srq.set_limit(2)
        rc = QpInitAttributes(transport=Transport.RC)
        pairs = []
        for _ in range(2):
            sender = End(ends[0].device, pd, cq, pd.create_qp(cq, attributes=rc))
            taker = End(
                receiver.device, receiver.pd, receiver.cq, receiver.pd.create_qp(receiver.cq, attributes=rc, srq=srq)
            )
            join((sender, taker))
            pairs.append((sender, taker))
        _, source = pairs[0][0].memory(100, b"x")
        for number in range(3):
            sender, taker = pairs[number % 2]
            sender.qp.post_send(SendWr(opcode=WrOpcode.SEND, region=source))
            received = taker.done()
            assert (received.wr_id, received.qp_num) == (number, taker.qp.qp_num)
            assert sender.done().status is WcStatus.SUCCESS
        assert inbox == b"x" * 300
        assert srq.statistics().posted == srq.statistics().limit == 0
        with pytest.raises(InvalidArgumentError):
            pairs[0][1].qp.post_recv(1)
        with pytest.raises(BusyError):
            srq.close()
        seen: list[Event] = []
        until(lambda: seen.extend(events.poll()) or any(isinstance(event, SrqLimit) for event in seen))
        limits = [event for event in seen if isinstance(event, SrqLimit)]
        assert [(event.srq, event.posted) for event in limits] == [(srq.id, 1)]
        for _, taker in pairs:
            taker.qp.close()


# proves X.8.11
def test_rc_leaves_a_dead_plane(ends):
    sender, receiver = (end_of(end.device, Transport.RC) for end in ends)
    join((sender, receiver), ToInit(rc_plane_move=True))
    inbox, target = receiver.memory(100_000)
    _, source = sender.memory(100_000, b"ab")
    sender.device.set_port_state(0, up=False)
    receiver.device.set_port_state(0, up=False)
    receiver.qp.post_recv(RecvWr(1, (Sge(target),)))
    sender.qp.post_send(SendWr(opcode=WrOpcode.SEND, region=source))
    assert sender.done().status is WcStatus.SUCCESS
    assert receiver.done().bytes == 100_000
    assert inbox == b"ab" * 50_000
    assert sender.qp.statistics().plane_moves >= 1


def test_requests_that_make_no_sense_are_refused(ends):
    sender, _ = ends
    _, source = sender.memory(64)
    with pytest.raises(InvalidArgumentError, match="SEND_IMM"):
        sender.qp.post_send(SendWr(opcode=WrOpcode.SEND_IMM, region=source))
    with pytest.raises(InvalidArgumentError, match="immediate=1"):
        sender.qp.post_send(SendWr(opcode=WrOpcode.SEND, region=source, immediate=1))
    with pytest.raises(InvalidArgumentError, match="not inside"):
        sender.qp.post_send(SendWr(opcode=WrOpcode.SEND, region=source, more=(Sge(source, 60, 5),)))
    with sender.pd.register(bytearray(8)) as unwritable, pytest.raises(InvalidArgumentError):
        sender.qp.post_recv(RecvWr(1, (Sge(unwritable),)))
    with sender.pd.create_qp(sender.cq) as mrc:
        mrc.modify(ToInit())
        mrc.modify(ToRtr(peer=Peer(ADDRESSES[1], UDP_PORT), destination_qp=77, rq_psn=1))
        mrc.modify(ToRts(sq_psn=1))
        with pytest.raises(InvalidArgumentError):
            mrc.post_send(SendWr(opcode=WrOpcode.SEND, region=source))
