"""`openmrc-config` prints the folders of the C API."""

from __future__ import annotations

from pathlib import Path

import pytest

from openmrc.errors import DeviceError
from openmrc.programs import config


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation with the library, as far as `openmrc-config` looks."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "lib_mrc.so").touch()
    monkeypatch.setattr(config._native, "__file__", str(tmp_path / "_native.so"))
    return tmp_path


def test_each_option_prints_its_folder_in_order(installed: Path, capsys: pytest.CaptureFixture[str]):
    config.main(["--pkgconfigdir", "--prefix"])
    assert capsys.readouterr().out == f"{installed}/lib/pkgconfig\n{installed}\n"


def test_without_an_option_all_are_named(installed: Path, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        config.main([])
    assert ended.value.code == 2
    assert "--prefix, --includedir, --libdir, --pkgconfigdir, --cmakedir" in capsys.readouterr().err


def test_an_installation_without_the_library_is_an_error(installed: Path):
    (installed / "lib" / "lib_mrc.so").unlink()
    with pytest.raises(DeviceError, match=r"has no lib_mrc\.so"):
        config.folders()
    with pytest.raises(SystemExit, match=r"openmrc-config: .*libibverbs"):
        config.main(["--prefix"])
