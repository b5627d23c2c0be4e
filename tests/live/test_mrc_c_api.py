"""MRC's C API: programs compiled from outside with pkg-config and CMake, over openmrc's lib_mrc.so."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rdma_programs import LIMIT_S, needs, wrapped

from openmrc import _native

HERE = Path(__file__).parent
PREFIX = Path(_native.__file__).parent
TWO_PLANES = "127.0.0.1,127.0.0.2"
C, CPP = ("-std=gnu11",), ("-x", "c++", "-std=c++17")
STRICT = ("-Wall", "-Wextra", "-Werror", "-pedantic")

pytestmark = needs("pkg-config", "cc", "c++")


def flags() -> list[str]:
    """Output of `pkg-config --cflags --libs openmrc` with the folder of `openmrc-config`."""
    config = [sys.executable, "-c", "from openmrc.programs.config import main; main()", "--pkgconfigdir"]
    folder = subprocess.run(config, capture_output=True, text=True, check=True).stdout.strip()
    environment = {**os.environ, "PKG_CONFIG_PATH": folder}
    asked = ["pkg-config", "--cflags", "--libs", "openmrc"]
    return subprocess.run(asked, env=environment, capture_output=True, text=True, check=True).stdout.split()


def compiled(source: Path, program: Path, *options: str) -> list[str]:
    compiler = "c++" if options == CPP else "cc"
    command = [compiler, *options, *STRICT, str(source), "-x", "none", "-o", str(program), *flags()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [str(program)]


def run(words: list[str], *devices: str, **variables: str) -> str:
    """Output of a program that ends well."""
    environment = {**os.environ, **variables}
    command = wrapped(words, *(devices or (TWO_PLANES,)))
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("language", [C, CPP], ids=["c", "c++"])
@pytest.mark.parametrize("program", ["mrc_misuse", "mrc_profiles", "mrc_forks"])
def test_program(program: str, language: tuple[str, ...], tmp_path: Path):
    assert run(compiled(HERE / f"{program}.c", tmp_path / program, *language)) == "as expected\n"


@pytest.mark.parametrize("signal", ["", "marks"])
@pytest.mark.parametrize("language", [C, CPP], ids=["c", "c++"])
def test_events_about_a_plane_that_leads_nowhere(language: tuple[str, ...], signal: str, tmp_path: Path):
    words = compiled(HERE / "mrc_events.c", tmp_path / "mrc_events", *language)
    assert run(words, TWO_PLANES, "127.0.0.3,127.0.0.9", OPENMRC_SIGNAL=signal) == "as expected\n"


def test_a_receiver_that_leaves_has_acknowledged_everything(tmp_path: Path):
    words = compiled(HERE / "mrc_farewell.c", tmp_path / "mrc_farewell")
    assert run(words, TWO_PLANES, "127.0.0.3,127.0.0.4") == "as expected\n"


@pytest.mark.parametrize("kind", ["pair", "rc"])
def test_queue_pairs_are_mrc_whatever_those_of_verbs_are(kind: str, tmp_path: Path):
    assert run(compiled(HERE / "mrc_misuse.c", tmp_path / "mrc_misuse"), OPENMRC_QP=kind) == "as expected\n"


def test_published_mrc(tmp_path: Path):
    words = compiled(HERE / "mrc_profiles.c", tmp_path / "mrc_profiles")
    assert run(words, OPENMRC_SIGNAL="marks") == "as expected\n"


def test_example(repository: Path, tmp_path: Path):
    words = compiled(repository / "examples" / "mrc_write.c", tmp_path / "mrc_write", "-Wno-missing-field-initializers")
    assert run(words) == "mrc0: success, contents equal\n"


def test_connection_parameters_of_the_guide(repository: Path, tmp_path: Path):
    source = repository / "examples" / "mrc_paths.c"
    guide = (repository / "docs" / "guides" / "c-programs.md").read_text()
    (shown,) = re.findall(r"<!-- from examples/mrc_paths\.c -->\n```c\n(.*?)```", guide, re.DOTALL)
    assert shown in source.read_text()
    words = compiled(source, tmp_path / "mrc_paths", "-Wno-missing-field-initializers")
    assert run(words) == (
        "segments, or any path: 64 EVs on port 1, 64 on port 2\none plane: 64 EVs on port 1, 0 on port 2\n"
    )


def test_the_system_s_libibverbs_has_no_mrc(tmp_path: Path):
    """A program that runs without `openmrc run` starts, and finds no device or no MRC."""
    words = compiled(HERE.parents[1] / "examples" / "mrc_write.c", tmp_path / "p", "-Wno-missing-field-initializers")
    environment = {**os.environ, "LD_LIBRARY_PATH": ""}
    environment["LD_PRELOAD"] = str(PREFIX / "lib" / "lib_mrc.so")
    system = [str(path) for path in Path("/usr/lib").rglob("libibverbs.so.1")]
    if not system:
        pytest.skip("the system has no libibverbs")
    environment["LD_PRELOAD"] = f"{system[0]}:{environment['LD_PRELOAD']}"
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 1
    assert "no RDMA device" in done.stderr or "MRC" in done.stderr


def test_every_published_function_is_exported():
    """The headers and the library have the same functions: 27 of applications, 14 of controllers."""
    declared: dict[str, set[str]] = {}
    for header in ("mrc.h", "mrc_ctl.h"):
        text = re.sub(r"/\*.*?\*/", "", (PREFIX / "include" / "openmrc" / header).read_text(), flags=re.DOTALL)
        declared[header] = set(re.findall(r"^(?:int |void |struct \w+ \*)(mrc_\w+)\(", text, re.MULTILINE))
    assert [len(names) for names in declared.values()] == [27, 14]
    nm = shutil.which("nm")
    if nm is None:
        pytest.skip("nm is not installed")
    library = [nm, "-D", "--defined-only", str(PREFIX / "lib" / "lib_mrc.so")]
    listed = subprocess.run(library, capture_output=True, text=True, check=True).stdout
    exported = {name for name in re.findall(r" T (\w+)", listed) if name.startswith("mrc_")}
    assert exported == declared["mrc.h"] | declared["mrc_ctl.h"]


def test_cmake_finds_the_package(repository: Path, tmp_path: Path):
    cmake = shutil.which("cmake")
    if cmake is None:
        pytest.skip("CMake is not installed")
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(program C)\nfind_package(openmrc REQUIRED)\n"
        f"add_executable(program {repository / 'examples' / 'mrc_write.c'})\n"
        "target_link_libraries(program PRIVATE openmrc::mrc)\n"
    )
    package = PREFIX / "lib" / "cmake" / "openmrc"
    for words in ([cmake, "-S", ".", "-B", "build", f"-Dopenmrc_DIR={package}"], [cmake, "--build", "build"]):
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    assert run([str(tmp_path / "build" / "program")]) == "mrc0: success, contents equal\n"
