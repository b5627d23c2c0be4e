"""The files of tools/spec.py equal the descriptions in `spec/`, and an invalid description is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from _spec_model import SpecError, load

ROOT = Path(__file__).resolve().parents[2]

PAGE = '[page]\ntitle = "T"\nfile = "t.md"\n'
RECORD = '[R]\ndoc = "A record."\n[R.a]\ntype = "u8"\ndoc = "A field."\n'


def test_written_files_are_as_described() -> None:
    done = subprocess.run([sys.executable, str(ROOT / "tools" / "spec.py"), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stderr}\nafter a change in spec/: `make spec`, and read the difference"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (RECORD + 'unti = "us"\n', "unknown key unti"),
        (RECORD.replace("u8", "u9"), "unknown type u9"),
        (RECORD.replace('"u8"', '"time"'), "a time has the unit"),
        (RECORD.replace('"u8"', '"time"\nunit = "us"'), "ends in its unit"),
        (RECORD + '[R.b]\nlike = "R.c"\n', "R.c, which is not described"),
        (RECORD + '[R.b]\nrecord = "S"\ndoc = "B."\n', "no record S"),
        (RECORD + "default = 256\n", "default 256 is out of its range"),
        (RECORD.replace('doc = "A field."\n', ""), "R.a: no doc"),
    ],
)
def test_a_mistake_in_a_description_is_named(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "one.toml").write_text(PAGE + text)
    with pytest.raises(SpecError, match=problem):
        load(tmp_path)


def test_a_field_like_another_one_keeps_what_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text(PAGE + RECORD + 'range = [1, 7]\n[R.b]\nlike = "R.a"\ndefault = 3\n')
    first, second = load(tmp_path).records["R"].fields
    assert (first.required, second.required) == (True, False)
    assert (second.low, second.high, second.default, second.doc) == (1, 7, 3, "A field.")
