"""Stores: values reach their waiters, errors and absences are reported in words."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from openmrc.collectives import FileStore, Store, TcpStore
from openmrc.errors import ConfigError, DeviceError, PeerError, PeerUnreachableError

Make = Callable[[float], Store]


@pytest.fixture(params=["file", "tcp", "tcp6"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Makes stores that hold the same values, with a timeout."""
    if request.param == "file":
        yield lambda timeout_s: FileStore(tmp_path / "store", timeout_s)
        return
    host = "127.0.0.1" if request.param == "tcp" else "[::1]"
    made = [TcpStore(f"{host}:0", serve=True, timeout_s=1)]

    def client(timeout_s: float) -> Store:
        made.append(TcpStore(made[0].address, timeout_s=timeout_s))
        return made[-1]

    yield client
    for one in reversed(made):
        one.close()


def test_a_value_set_by_one_is_got_by_another(make: Make):
    make(1).set("openmrc/world/0", "a value with\nlines and ü")
    assert make(1).get("openmrc/world/0") == "a value with\nlines and ü"


def test_a_later_value_replaces_the_first(make: Make):
    store = make(1)
    store.set("key", "first")
    store.set("key", "second")
    assert make(1).get("key") == "second"


def test_keys_that_look_alike_as_file_names_are_different(make: Make):
    store = make(1)
    store.set("a/b", "1")
    store.set("a_b", "2")
    assert (store.get("a/b"), store.get("a_b")) == ("1", "2")


def test_get_waits_for_set(make: Make):
    waiting, store = make(20), make(1)
    got: list[str | bytes] = []
    thread = threading.Thread(target=lambda: got.append(waiting.get("late")))
    thread.start()
    assert not store.check(["late"])
    store.set("late", "here")
    thread.join(20)
    assert got == ["here"]
    assert store.check(["late"])
    assert not store.check(["late", "never"])


def test_unset_keys_are_named(make: Make):
    with pytest.raises(TimeoutError, match="no rank set 'never' within"):
        make(0.05).get("never")


@pytest.mark.parametrize("address", ["", "29500", "host", "host:", "host:99999", ":29500"])
def test_an_address_that_is_none_is_refused(address: str):
    with pytest.raises(ConfigError, match="HOST:PORT") as refused:
        TcpStore(address)
    assert refused.value.field == "address"


def test_a_port_that_is_taken_is_told():
    first = TcpStore("127.0.0.1:0", serve=True)
    try:
        with pytest.raises(DeviceError, match="does another job serve there"):
            TcpStore(first.address, serve=True)
    finally:
        first.close()


def test_an_address_without_a_server():
    first = TcpStore("127.0.0.1:0", serve=True)
    first.close()
    with pytest.raises(PeerUnreachableError, match="refused"):
        TcpStore(first.address, timeout_s=0.05)


def test_a_server_that_has_gone_is_told():
    store = TcpStore("127.0.0.1:0", serve=True)
    store.close()
    with pytest.raises(PeerError, match="is lost"):
        store.get("key")
