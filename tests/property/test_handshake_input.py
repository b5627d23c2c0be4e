"""Every line from a peer is either a message or a HandshakeError."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import time

from hypothesis import given
from hypothesis import strategies as st

from openmrc.connection.channel import Channel, new_runner
from openmrc.connection.handshake_messages import (
    LINE_BYTES_MAX,
    Accept,
    Hello,
    Message,
    Offer,
    Ready,
    parse,
)
from openmrc.errors import HandshakeError

MODELS: list[type[Message]] = [Hello, Offer, Accept, Ready]
NAMES = st.sampled_from(sorted({name for model in MODELS for name in model.model_fields} | {"error"}))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.sampled_from(["mrc", "::1"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES | st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)
LINES = st.binary(max_size=200) | st.dictionaries(NAMES, VALUES, max_size=20).map(lambda one: json.dumps(one).encode())


@given(st.sampled_from(MODELS), LINES)
def test_a_line_is_a_message_or_refused(model: type[Message], line: bytes) -> None:
    with contextlib.suppress(HandshakeError):
        assert isinstance(parse(line, model, "peer"), model)


@given(st.sampled_from(["hello", "offer", "accept", "ready"]), st.dictionaries(NAMES, VALUES, max_size=20))
def test_a_line_of_the_right_kind_is_a_message_or_refused(kind: str, members: dict[str, object]) -> None:
    model = next(one for one in MODELS if one.model_fields["kind"].default == kind)
    line = json.dumps(members | {"openmrc": 2, "kind": kind}).encode()
    with contextlib.suppress(HandshakeError):
        assert isinstance(parse(line, model, "peer"), model)


@given(st.lists(st.binary(min_size=1, max_size=3000), max_size=12))
def test_a_stream_of_any_bytes_ends_in_a_message_or_an_error_and_is_not_hoarded(chunks: list[bytes]) -> None:
    async def read(ours: socket.socket) -> int:
        channel = Channel(ours, "peer", time.monotonic() + 20)
        with contextlib.suppress(HandshakeError):
            await channel.receive(Hello)
        return len(channel._pending._pending)

    async def both() -> int:
        with socket.create_server(("127.0.0.1", 0)) as server:
            theirs = socket.create_connection(server.getsockname())
            ours = server.accept()[0]
        with ours, theirs:
            theirs.setblocking(False)
            reading = asyncio.create_task(read(ours))
            for chunk in chunks:
                with contextlib.suppress(OSError):
                    await asyncio.get_running_loop().sock_sendall(theirs, chunk)
            theirs.close()
            return await reading

    with new_runner() as runner:
        assert runner.run(both()) <= LINE_BYTES_MAX + 4096
