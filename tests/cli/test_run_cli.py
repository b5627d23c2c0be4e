"""`openmrc run`: refusals, and the environment of the program."""

from __future__ import annotations

import errno
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rdma_programs import needs

from openmrc.programs import LIBRARY, MANAGER, MRC_LIBRARY, environment, library_path, loader_problems

pytestmark = needs()


def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "openmrc.cli.main", "run", *words]
    environment = {"PATH": "/usr/bin:/bin", **variables}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_the_program_gets_its_arguments_and_its_exit_code_is_returned():
    done = run("--ports", "127.0.0.1", "--", "sh", "-c", 'echo "$0 $1"; exit 7', "a b", "--ports")
    assert (done.returncode, done.stdout) == (7, "a b --ports\n")


def test_the_environment_keeps_what_the_user_has_set():
    done = run("--", "sh", "-c", "echo $LD_PRELOAD $OPENMRC_PORTS", OPENMRC_PORTS="127.0.0.1;127.0.0.2", LD_PRELOAD="")
    preloaded = "libibverbs.so.1:lib_mrc.so:librdmacm.so.1:libopenmrc-device-files.so"
    assert done.stdout == f"{preloaded} 127.0.0.1;127.0.0.2\n"
    assert done.stderr.startswith("openmrc: sh finds mrc0 with 1 port")
    assert "; mrc1 with 1 port" in done.stderr


LOOK = """
import os, stat, sys
for name in sys.argv[1:]:
    try:
        print(stat.S_ISCHR(os.stat(name).st_mode) and os.access(name, os.R_OK | os.W_OK))
    except OSError as error:
        print(error.errno)
"""


def test_every_device_appears_to_have_a_file():
    names = [f"/dev/infiniband/uverbs{number}" for number in ("0", "1", "2", "", "1x", "-1")]
    options = ["--ports", "127.0.0.1", "--ports", "127.0.0.2"]
    done = run(*options, "--", sys.executable, "-c", LOOK, *names, "/dev/zero", "/no/such/file")
    assert done.stdout.split() == ["True", "True", *[str(errno.ENOENT)] * 4, "True", str(errno.ENOENT)]


def test_signals_have_their_usual_effect_in_the_program():
    done = run("--ports", "127.0.0.1", "--", "grep", "SigIgn", "/proc/self/status")
    (ignored,) = done.stdout.removeprefix("SigIgn:").split()
    python_ignores = 1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1
    assert int(ignored, 16) & python_ignores == 0


def test_the_loader_takes_every_library():
    assert loader_problems() == {LIBRARY: None, MRC_LIBRARY: None, MANAGER: None}


def test_a_library_that_does_not_load_has_the_words_of_the_loader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in (LIBRARY, MRC_LIBRARY):
        shutil.copy(library_path().with_name(name), tmp_path)
    (tmp_path / MANAGER).write_text("no library")
    monkeypatch.setattr(environment, "library_path", lambda: tmp_path / LIBRARY)
    problems = loader_problems()
    assert (problems[LIBRARY], problems[MRC_LIBRARY]) == (None, None)
    assert "file too short" in (problems[MANAGER] or "")


def test_a_file_that_is_no_program_is_named(tmp_path: Path):
    file = tmp_path / "words"
    file.write_text("no program\n")
    file.chmod(0o755)
    done = run("--ports", "127.0.0.1", "--", str(file))
    assert done.returncode == 2
    assert f"PROGRAM is '{file}'" in done.stderr
    assert "Exec format error" in done.stderr


@pytest.mark.parametrize(
    ("words", "variables", "said"),
    [
        (["--ports", "nope0", "--", "true"], {}, "--ports is 'nope0'"),
        (["--", "true"], {"OPENMRC_PORTS": "nope0"}, "OPENMRC_PORTS is 'nope0'"),
        (["--", "no-such-program"], {}, "PROGRAM is 'no-such-program'"),
        (["--qp", "ud", "--", "true"], {}, "--qp is 'ud'"),
        (["--", "true"], {"OPENMRC_QP": "ud"}, "OPENMRC_QP is 'ud'"),
        (["--", "true"], {"OPENMRC_PATHS": "host.json"}, "path file is 'host.json'"),
        (["--paths", "host.json", "--", "true"], {}, "path file is 'host.json'"),
        (["--", "true"], {"OPENMRC_PATHS": "host.json", "OPENMRC_PORTS": "127.0.0.1"}, "OPENMRC_PORTS is '127.0.0.1'"),
    ],
)
def test_mistakes_are_named(words: list[str], variables: dict[str, str], said: str):
    done = run(*words, **variables)
    assert done.returncode == 2
    assert said in done.stderr
