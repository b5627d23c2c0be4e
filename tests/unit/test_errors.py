"""Errors name the wrong value and its location; the tree lets callers catch by kind."""

import errno
import pickle

import pytest

from openmrc import errors
from openmrc.config.file_problems import FileProblemsError


def test_a_config_error_reads_as_one_sentence_with_its_place() -> None:
    error = errors.ConfigError("planes", 0, "1 to 8", source="lab.yaml", line=3, hint="one plane per NIC port")
    assert str(error) == "lab.yaml:3: planes is 0; allowed: 1 to 8 (hint: one plane per NIC port)"
    assert str(errors.ConfigError("planes", 0, "1 to 8")) == "planes is 0; allowed: 1 to 8"
    assert str(errors.ConfigError("planes", 0, "1 to 8", source="x.yaml")).startswith("x.yaml: planes")


@pytest.mark.parametrize("name", [name for name in errors.__all__ if name.endswith("Error")])
def test_every_error_is_an_openmrc_error(name: str) -> None:
    assert issubclass(getattr(errors, name), errors.OpenmrcError)


@pytest.mark.parametrize("name", [name for name in errors.__all__ if name.endswith("Error")])
def test_the_tree_at_the_top_of_the_module_is_complete(name: str) -> None:
    assert name in (errors.__doc__ or "")


def test_verbs_errors_carry_the_c_errno() -> None:
    assert errors.BusyError("QP 5 still uses the CQ").errno == errno.EBUSY
    assert errors.LimitError.errno == errno.E2BIG


def test_a_device_error_is_an_os_error_with_its_errno() -> None:
    error = errors.DeviceError(errno.EADDRINUSE, "port 4791 of 127.0.0.1 is taken")
    assert isinstance(error, OSError)
    assert error.errno == errno.EADDRINUSE
    assert "4791" in str(error)


def test_an_unreachable_peer_is_named_with_the_wait() -> None:
    error = errors.PeerUnreachableError("192.0.2.1:7000", 5.0, "connection refused")
    assert isinstance(error, ConnectionError)
    assert str(error) == "no openmrc peer at 192.0.2.1:7000 after 5.0 s: connection refused"


@pytest.mark.parametrize(
    "error",
    [
        errors.ConfigError("planes", 0, "1 to 8", source="lab.yaml", line=3, hint="one plane per NIC port"),
        FileProblemsError([errors.ConfigError("planes", 0, "1 to 8"), errors.ConfigError("hosts", None, "required")]),
        errors.BusyError("QP 5 still uses the CQ"),
        errors.DeviceError(errno.EADDRINUSE, "port 4791 of 127.0.0.1 is taken"),
        errors.PeerUnreachableError("192.0.2.1:7000", 5.0, "connection refused"),
        errors.WorkError("RETRY_EXC_ERR", "the peer is silent", errno.EPERM),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_survive_the_way_between_processes(error: errors.OpenmrcError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert copy.args == error.args
    assert {name: str(value) for name, value in vars(copy).items()} == {
        name: str(value) for name, value in vars(error).items()
    }
    assert getattr(copy, "errno", None) == getattr(error, "errno", None)


def test_did_you_mean() -> None:
    assert errors.did_you_mean("plane", ["planes", "hosts"]) == "did you mean 'planes'?"
    assert errors.did_you_mean("zzz", ["planes"]) is None
