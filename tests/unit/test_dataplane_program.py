"""The object file of the switches' eBPF program: of the wheel, or compiled here."""

from __future__ import annotations

from pathlib import Path

import pytest

from openmrc.doctor import Verdict
from openmrc.doctor.bed import check_data_plane
from openmrc.doctor.host import Host
from openmrc.testbed import dataplane_program
from openmrc.testbed.dataplane_program import DataPlaneUnavailableError, compiled, packaged


@pytest.fixture
def without_clang(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.usefixtures("without_clang")
def test_the_program_of_a_wheel_needs_no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "switch.bpf.o"
    monkeypatch.setattr(dataplane_program, "_OF_WHEEL", program)
    assert packaged() is None
    program.touch()
    assert compiled() == packaged() == program


@pytest.mark.usefixtures("without_clang")
def test_without_either_the_error_names_the_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(dataplane_program, "_OF_WHEEL", tmp_path / "none")
    with pytest.raises(DataPlaneUnavailableError, match="install clang"):
        compiled()


def test_build_and_test_bed_compile_with_the_same_flags(repository: Path) -> None:
    """Both read one file, so a wheel's program equals the one compiled from a source tree."""
    flags = repository / "src" / "openmrc" / "testbed" / "bpf" / "compile.flags"
    assert str(flags) in dataplane_program._FLAGS
    assert "@${bpf}/compile.flags" in (repository / "CMakeLists.txt").read_text()


def test_the_doctor_asks_for_no_compiler_where_the_program_is_packaged(tmp_path: Path) -> None:
    program = tmp_path / "switch.bpf.o"
    found = {one.name: one for one in check_data_plane(Host(tmp_path), lambda _: None, lambda _: True, program)}
    assert found["clang"].verdict is Verdict.OPTIONAL
    program.touch()
    found = {one.name: one for one in check_data_plane(Host(tmp_path), lambda _: None, lambda _: True, program)}
    assert (found["clang"].verdict, found["clang"].command) == (Verdict.OK, None)
    assert found["clang"].numbers == {"path": None, "compiled": True}
