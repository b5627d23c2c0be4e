"""Everything behind `make`: sets up .venv, builds, and runs a task. Needs Python and a C++ compiler, nothing installed.

Runs before any package is there, so it uses the standard library only and must parse on old Pythons.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
LOGS = ROOT / "build" / "log"
SITE = ROOT / "build" / "docs" / "html"
TORCH_SOURCE = ROOT / "src" / "openmrc" / "torch" / "csrc"
VERBS_HEADER = Path("/usr/include/infiniband/verbs.h")
PYTHON_MIN = (3, 11)
GCC_MIN, CLANG_MIN = 12, 14
NINJA_COUNT = re.compile(rb"\[(\d+)/(\d+)\]")
HEARTBEAT_S = 15.0
SIM_SEEDS = 2000
WORKERS_MAX = 16
SET_UP_STEPS, PACKAGES_STEPS = 6, 4  # of `set_up`, with and without the build


class StopError(Exception):
    """An error that the user can correct, with instructions. `code` is the exit status."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


def say(line: str, end: str = "\n") -> None:
    print(line, end=end, flush=True)


# --- requirements of the machine


def require_python() -> None:
    """Check the version of Python, with installation instructions on failure."""
    if sys.version_info >= PYTHON_MIN:
        return
    for minor in range(20, PYTHON_MIN[1] - 1, -1):
        found = shutil.which(f"python3.{minor}")
        if found:
            os.execv(found, [found, *sys.argv])
    minimum = f"{PYTHON_MIN[0]}.{PYTHON_MIN[1]}"
    raise StopError(
        f"openmrc needs Python {minimum} or newer; this is {sys.version.split()[0]}. Install one (Debian/Ubuntu: "
        f"apt install python{minimum} python{minimum}-venv python{minimum}-dev; Fedora: dnf install "
        f"python{minimum}-devel) or name it: make PYTHON=/path/to/python3"
    )


def require_python_parts() -> None:
    """Check the two parts of Python that distributions package separately: venv and the C headers."""
    import importlib.util
    import sysconfig

    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if not (importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip")):
        raise StopError(
            f"Python {version} has no venv module. Install it: Debian/Ubuntu `apt install python{version}-venv`; "
            "Fedora, Arch and openSUSE have it in their python3 package."
        )
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        raise StopError(
            f"Python {version} has no C headers (Python.h). Install them: Debian/Ubuntu `apt install "
            f"python{version}-dev`; Fedora `dnf install python3-devel`; openSUSE `zypper install python3-devel`; Arch "
            "has them in `python`."
        )


def find_compiler() -> tuple[str, str]:
    """Path and version of a C++20 compiler, from CXX or the PATH."""
    names = [os.environ["CXX"]] if os.environ.get("CXX") else ["g++", "clang++", "c++"]
    for name in names:
        path = shutil.which(name)
        if path is None:
            continue
        text = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
        numbers = subprocess.run([path, "-dumpversion"], capture_output=True, text=True, check=False).stdout.strip()
        major = int(numbers.split(".")[0]) if numbers[:1].isdigit() else 0
        if major >= (CLANG_MIN if "clang" in text else GCC_MIN):
            return path, text.splitlines()[0]
    looked = f"CXX={names[0]} is not one" if os.environ.get("CXX") else "none is on the PATH"
    raise StopError(
        f"openmrc needs a C++20 compiler, GCC {GCC_MIN} or newer or Clang {CLANG_MIN} or newer, and {looked}. Install "
        "one: Debian/Ubuntu `apt install g++`; Fedora `dnf install gcc-c++`; Arch `pacman -S gcc`; openSUSE `zypper "
        "install gcc-c++`; Alpine `apk add g++`."
    )


# --- steps


class Steps:
    """Numbered lines with elapsed time; the output of a step goes to a log that is shown if the step fails."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.index = 0
        self.live = sys.stdout.isatty()

    def head(self, title: str) -> str:
        self.index += 1
        return f"[{self.index}/{self.count}] {title}"

    def done(self, title: str, note: str) -> None:
        say(f"{self.head(title)}: {note}")

    def run(self, title: str, log_name: str, commands: list[list[str]], env: dict[str, str] | None = None) -> None:
        """Run the commands quietly with progress, or raise StopError after showing the end of the log."""
        running = (self.begin(command, log_name, env, append=index > 0) for index, command in enumerate(commands))
        self._follow_all(running, title, log_name)

    def begin(
        self, command: list[str], log_name: str, env: dict[str, str] | None = None, *, append: bool = False
    ) -> subprocess.Popen[bytes]:
        """Start a command that goes on beside the steps, until `follow` or `stop`."""
        LOGS.mkdir(parents=True, exist_ok=True)
        with (LOGS / (log_name + ".log")).open("ab" if append else "wb") as log:
            log.write(("$ " + " ".join(command) + "\n").encode())
            log.flush()
            return subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, env=env)

    def follow(self, title: str, log_name: str, process: subprocess.Popen[bytes]) -> None:
        """Wait for a command with progress, or raise StopError after showing the end of the log."""
        self._follow_all([process], title, log_name)

    def _follow_all(self, processes: Iterable[subprocess.Popen[bytes]], title: str, log_name: str) -> None:
        head, log_path = self.head(title), LOGS / (log_name + ".log")
        started = time.monotonic()
        if not self.live:
            say(head + " ...")
        for process in processes:
            if self._follow(process, head, log_path) != 0:
                self._show_failure(head, log_path)
        clear = "\r\033[K" if self.live else ""
        say(f"{clear}{head}: done in {time.monotonic() - started:.1f} s")

    def _follow(self, process: subprocess.Popen[bytes], head: str, log_path: Path) -> int:
        started = said = time.monotonic()
        try:
            while process.poll() is None:
                time.sleep(0.1)
                now = time.monotonic()
                if self.live:
                    say(f"\r\033[K{head} {ninja_progress(log_path)} {now - started:.0f} s", end="")
                elif now - said >= HEARTBEAT_S:
                    said = now
                    say(f"      {ninja_progress(log_path) or 'working,'} {now - started:.0f} s")
        finally:
            stop(process)
        return process.returncode

    def _show_failure(self, head: str, log_path: Path) -> None:
        lines = log_path.read_text(errors="replace").splitlines()
        errors = [line for line in lines if "error:" in line or "undefined reference" in line][:20]
        if self.live:
            say("\r\033[K", end="")
        say(f"{head}: FAILED")
        for line in errors or lines[-40:]:
            say("    " + line)
        raise StopError(f"The whole output is in {log_path.relative_to(ROOT)}.")

    def show(self, title: str, command: list[str], env: dict[str, str] | None = None) -> None:
        """Run a command whose output is the purpose of the task."""
        self.show_all(title, [command], env)

    def show_all(self, title: str, commands: list[list[str]], env: dict[str, str] | None = None) -> None:
        """Run commands at once; all of them end before the first failure ends the task."""
        say(self.head(title))
        started = time.monotonic()
        running = [subprocess.Popen(command, cwd=ROOT, env=env) for command in commands]
        try:
            codes = [process.wait() for process in running]
        except BaseException:
            for process in running:
                process.terminate()
                process.wait()
            raise
        failed = next((code for code in codes if code), 0)
        if failed:
            raise SystemExit(failed if failed > 0 else 128 - failed)
        say(f"      done in {time.monotonic() - started:.1f} s")


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process that still runs."""
    if process.poll() is None:
        process.terminate()
        process.wait()


def ninja_progress(log_path: Path) -> str:
    with log_path.open("rb") as log:
        log.seek(0, os.SEEK_END)
        log.seek(max(0, log.tell() - 65536))
        counts = NINJA_COUNT.findall(log.read())
    return f"{counts[-1][0].decode()}/{counts[-1][1].decode()} files," if counts else ""


# --- environment and build


def read_pyproject() -> dict:  # type: ignore[type-arg]
    import tomllib

    with (ROOT / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)


def build_requirements() -> list[str]:
    """Packages that the build needs, from pyproject.toml."""
    project = read_pyproject()
    return sorted(project["project"]["dependencies"] + project["dependency-groups"]["build"])


def requirements() -> list[str]:
    """All packages of a development environment."""
    project = read_pyproject()
    wanted = build_requirements()
    for extra in ("report", "sim", "testbed", "eval"):
        wanted += project["project"]["optional-dependencies"][extra]
    for group in ("test", "lint"):
        wanted += project["dependency-groups"][group]
    return sorted(set(wanted))


def check_requirements() -> list[str]:
    """Packages that only `make check` needs."""
    return list(read_pyproject()["project"]["optional-dependencies"]["ray"])


def digest(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def cpp_files() -> list[Path]:
    folders = (ROOT / "native", TORCH_SOURCE)
    return sorted(path for folder in folders for path in folder.rglob("*") if path.suffix in (".cpp", ".hpp"))


def native_state(compiler: str) -> str:
    """Digest that changes when the extension has to be rebuilt."""
    files = [path for path in cpp_files() if "tests" not in path.parts]
    files += [ROOT / "CMakeLists.txt", ROOT / "pyproject.toml", VERBS_HEADER]
    libraries = ("verbs", "mrc_api", "rdmacm", "nccl", "preload")
    for folder in (*(ROOT / "native" / name for name in libraries), ROOT / "include"):
        files += [path for path in folder.rglob("*.*") if path.suffix not in (".cpp", ".hpp")]
    # New Python files count by name: an editable install knows the earlier ones.
    names = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "src").rglob("*.py"))
    stats = sorted(f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in files if path.exists())
    return digest([compiler, *stats, *names])


def stamp_says(name: str, state: str) -> bool:
    stamp = VENV / (".openmrc-" + name)
    return stamp.exists() and stamp.read_text() == state


def write_stamp(name: str, state: str) -> None:
    (VENV / (".openmrc-" + name)).write_text(state)


def child_env() -> dict[str, str]:
    env = dict(os.environ)
    env["PATH"] = str(VENV / "bin") + os.pathsep + env.get("PATH", "")
    env["VIRTUAL_ENV"] = str(VENV)
    env["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    env["CMAKE_GENERATOR"] = "Ninja"
    env.pop("PYTHONHOME", None)
    return env


def forget_other_compilers(compiler: str) -> None:
    """Make CMake configure again if its cache has another compiler, which it would keep regardless of CXX."""
    for cache in (ROOT / "build").glob("*/CMakeCache.txt"):
        known = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", cache.read_text(errors="replace"), re.MULTILINE)
        if known and known[1] != compiler and (cache.parent.name == "test" or cache.parent.name.startswith("cp")):
            shutil.rmtree(cache.parent)


def set_up(steps: Steps, *, build: bool = True) -> dict[str, str]:
    """Environment with all dependencies, the extension if it is built, and the variables for commands inside it."""
    env = set_up_python(steps)
    install(steps, env, "packages-build", build_requirements())
    with installing(steps, env, "packages", requirements()):  # mostly unpacking, on one core
        if build:
            build_extension(steps, env)
    if build:
        build_torch_backend(steps, env)
    return env


def set_up_python(steps: Steps) -> dict[str, str]:
    compiler, version = find_compiler()
    steps.done("compiler", version)
    forget_other_compilers(compiler)
    env = child_env()
    env["CXX"] = compiler
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    fresh = not PYTHON.exists() or not stamp_says("python", python)
    if fresh:
        require_python_parts()
        steps.run("environment .venv", "venv", [[sys.executable, "-m", "venv", "--clear", str(VENV)]])
        write_stamp("python", python)
    else:
        steps.done("environment .venv", "there")
    return env


def install(steps: Steps, env: dict[str, str], name: str, wanted: list[str]) -> None:
    with installing(steps, env, name, wanted):
        pass


@contextmanager
def installing(steps: Steps, env: dict[str, str], name: str, wanted: list[str]) -> Iterator[None]:
    """Install packages while the block runs; they are there after it."""
    if stamp_says(name, digest(wanted)):
        yield
        steps.done(name, "there")
        return
    pip = steps.begin(pip_install(wanted), name, env)
    try:
        yield
        steps.follow(f"{name} ({len(wanted)} and what they need)", name, pip)
    finally:
        stop(pip)
    write_stamp(name, digest(wanted))


def pip_install(wanted: list[str]) -> list[str]:
    return [str(PYTHON), "-m", "pip", "install", *wanted]


def build_extension(steps: Steps, env: dict[str, str]) -> None:
    state = native_state(env["CXX"])
    if stamp_says("native", state):
        steps.done("build", "up to date")
        return
    options = ["--no-build-isolation", "--no-deps", "-v", "-e"]
    steps.run("build", "build", [pip_install([*options, "."])], env)
    if not any((VENV / "lib").glob("python*/site-packages/openmrc/lib/libibverbs.so.1")):
        say(
            "      without libibverbs.so.1 for `openmrc run`, as the headers of libibverbs are missing (Debian/Ubuntu: "
            "apt install libibverbs-dev; Fedora: dnf install rdma-core-devel)"
        )
    write_stamp("native", state)


def build_torch_backend(steps: Steps, env: dict[str, str]) -> None:
    """Otherwise the first process group would compile it, within the time limit of a test."""
    state = native_state(env["CXX"])
    if stamp_says("torch", state):
        steps.done("backend for torch", "up to date")
        return
    steps.run("backend for torch", "torch", [[str(PYTHON), "-m", "openmrc.torch.native"]], env)
    write_stamp("torch", state)


def build_tests(steps: Steps, env: dict[str, str]) -> Path:
    folder = ROOT / "build" / "test"
    configure = ["cmake", "-S", ".", "-B", str(folder), "-G", "Ninja", "-DOPENMRC_TESTS=ON"]
    steps.run("build of the C++ tests", "build-tests", [configure, ["cmake", "--build", str(folder)]], env)
    return folder


# --- tasks


def task_build(_args: list[str]) -> None:
    """Set up .venv and build; everything else does this first."""
    set_up(Steps(SET_UP_STEPS))


def task_demo(args: list[str]) -> None:
    """Four hosts, four planes, and faults, in your terminal; writes a report."""
    steps = Steps(SET_UP_STEPS + 1)
    env = set_up(steps)
    steps.show("demo", [str(VENV / "bin" / "openmrc"), "demo", *args], env)


def simulate(steps: Steps, folder: Path) -> None:
    """Run the seeds, an equal share on each core."""
    shares = os.cpu_count() or 1
    ends = [SIM_SEEDS * share // shares for share in range(shares + 1)]
    program = str(folder / "openmrc_sim")
    commands = [[program, "--seeds", f"{begin}..{end}"] for begin, end in itertools.pairwise(ends)]
    steps.show_all(f"simulation of {SIM_SEEDS} seeds", commands)


def pytest_in_workers(selected: str) -> list[str]:
    """The command that runs the tests of a marker expression; most of them wait, so there are two workers per core."""
    workers = min(2 * (os.cpu_count() or 1), WORKERS_MAX)
    return [str(PYTHON), "-m", "pytest", "-q", "-n", str(workers), "--dist", "worksteal", "-m", selected]


def task_test(args: list[str]) -> None:
    """The tests for every change: C++, seeded simulation, Python but for slow ones. Arguments go to pytest."""
    steps = Steps(SET_UP_STEPS + (2 if args else 4))
    env = set_up(steps)
    folder = build_tests(steps, env)
    env["OPENMRC_TEST_BUILD"] = str(folder)
    if args:
        steps.show("Python tests", [str(PYTHON), "-m", "pytest", *args], env)
        return
    steps.show("C++ tests", [str(folder / "openmrc_tests"), "--jobs", str(os.cpu_count() or 1)], env)
    simulate(steps, folder)
    steps.show("Python tests but for slow ones", pytest_in_workers("not slow and not alone"), env)


def task_check(_args: list[str]) -> None:
    """The tests that `make test` leaves out: slow Python tests."""
    steps = Steps(SET_UP_STEPS + 4)
    env = set_up(steps)
    install(steps, env, "packages-check", check_requirements())
    folder = build_tests(steps, env)
    env["OPENMRC_TEST_BUILD"] = str(folder)
    steps.show("slow Python tests", pytest_in_workers("slow and not alone"), env)
    steps.show("Python tests that measure", [str(PYTHON), "-m", "pytest", "-q", "-m", "alone"], env)


def task_bench(args: list[str]) -> None:
    """All benchmarks, one table; pass --json FILE for the records."""
    steps = Steps(SET_UP_STEPS + 1)
    env = set_up(steps)
    steps.show("benchmarks", [str(PYTHON), "benchmarks/run.py", *args], env)


def task_lint(_args: list[str]) -> None:
    """Formatting, types, layers, requirements. Changes nothing."""
    steps = Steps(PACKAGES_STEPS + 4)
    env = set_up(steps, build=False)
    steps.show("ruff check", ["ruff", "check", "."], env)
    steps.show("ruff format", ["ruff", "format", "--check", "."], env)
    formats = ["clang-format", "--dry-run", "-Werror", *map(str, cpp_files())]
    layers = ["lint-imports", "--no-logo"]
    both = {**env, "PYTHONPATH": "src"}
    steps.show_all("mypy; clang-format; layers of the Python package", [["mypy"], formats, layers], both)
    steps.show("requirements", [str(PYTHON), "tools/requirements.py", "--check"], env)


def task_format(_args: list[str]) -> None:
    """Rewrite the sources in the project's format."""
    steps = Steps(PACKAGES_STEPS + 2)
    env = set_up(steps, build=False)
    steps.show("ruff format", ["ruff", "format", "."], env)
    steps.show("clang-format", ["clang-format", "-i", *map(str, cpp_files())], env)


def task_spec(_args: list[str]) -> None:
    """Write the sources and reference pages that spec/*.toml describes, and the table of requirements."""
    steps = Steps(PACKAGES_STEPS + 2)
    env = set_up(steps, build=False)
    steps.show("spec", [str(PYTHON), "tools/spec.py"], env)
    steps.show("requirements", [str(PYTHON), "tools/requirements.py"], env)


def task_docs(_args: list[str]) -> None:
    """Build the documentation site in build/docs/html; every warning is an error."""
    steps = Steps(SET_UP_STEPS + 2)
    env = set_up(steps)
    install(steps, env, "packages-docs", list(read_pyproject()["dependency-groups"]["docs"]))
    sphinx = [str(PYTHON), "-m", "sphinx", "-q", "-W", "--keep-going", "-j", "auto", "-c", "docs"]
    steps.show("site", [*sphinx, "-d", "build/docs/doctrees", ".", str(SITE)], env)
    say(f"      {SITE.relative_to(ROOT)}/index.html")


def task_docs_serve(args: list[str]) -> None:
    """Build the site and serve it on this machine; --port N (default 8000, 0: any free one)."""
    import functools
    import http.server

    port = port_of(args)
    task_docs([])
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(SITE))
    try:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
    except OSError as error:
        raise StopError(
            f"--port: {port}: {error.strerror}; give another one: make docs-serve ARGS='--port 0'", 2
        ) from None
    say(f"http://127.0.0.1:{server.server_port}/ (Ctrl-C ends it)")
    with server:
        server.serve_forever()


def port_of(args: list[str]) -> int:
    """Port of `--port N` or `--port=N`."""
    words = [part for arg in args for part in arg.split("=", 1)]
    if not words:
        return 8000
    if len(words) != 2 or words[0] != "--port":
        raise StopError(f"arguments: {' '.join(args)}: only --port N is allowed", 2)
    if not (words[1].isascii() and words[1].isdigit() and int(words[1]) < 65536):
        raise StopError(f"--port: {words[1]}: a number from 0 to 65535 is allowed; 0 takes any free port", 2)
    return int(words[1])


def task_wheel(args: list[str]) -> None:
    """Build a wheel into dist and try it out where there is no compiler; --python PROGRAM: for another Python."""
    import _wheel

    if args[:1] not in ([], ["--python"]) or len(args) not in (0, 2):
        raise StopError(f"arguments: {' '.join(args)}: only --python PROGRAM is allowed", 2)
    python = args[1] if args else sys.executable
    try:
        folder = _wheel.environment(python)
    except ValueError as error:
        raise StopError(str(error), 2) from None
    steps = Steps(4)
    env = child_env()
    env["CXX"], version = find_compiler()
    env["PATH"] = f"{folder / 'bin'}{os.pathsep}{env['PATH']}"
    env["VIRTUAL_ENV"] = str(folder)
    steps.done("compiler", version)
    log = f"wheel-{folder.name}"
    steps.run("wheel", log, _wheel.build_commands(folder, python, _wheel.build_packages(read_pyproject())), env)
    try:
        wheel = _wheel.tag(folder, env)
        program = "compiled" if _wheel.has_program(wheel) else "not compiled, as there is no clang"
        steps.done("platform", f"{wheel.relative_to(ROOT)}; eBPF program of the test bed: {program}")
        say(steps.head("trial in a new environment without a compiler"))
        _wheel.try_out(wheel, python)
    except subprocess.CalledProcessError as error:
        raise StopError(
            f"{' '.join(error.cmd)}: exit status {error.returncode}\n{error.stdout}{error.stderr}"
        ) from None
    except RuntimeError as error:
        raise StopError(str(error)) from None
    say("      works")


def task_stub(_args: list[str]) -> None:
    """Write src/openmrc/_native/*.pyi, the typed face of the extension, from the built extension."""
    steps = Steps(SET_UP_STEPS + 2)
    env = set_up(steps)
    stubgen = [str(PYTHON), "-m", "nanobind.stubgen", "-q", "-r", "-m", "openmrc._native", "-O", "src/openmrc"]
    steps.show("stub", stubgen, env)
    steps.show("format", ["ruff", "format", "-q", "src/openmrc/_native"], env)


TASKS = {
    "build": task_build,
    "demo": task_demo,
    "test": task_test,
    "check": task_check,
    "bench": task_bench,
    "lint": task_lint,
    "format": task_format,
    "spec": task_spec,
    "stub": task_stub,
    "wheel": task_wheel,
    "docs": task_docs,
    "docs-serve": task_docs_serve,
}


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] not in TASKS:
        for name, task in TASKS.items():
            say(f"{name:10} {(task.__doc__ or '').strip()}")
        return 0 if not arguments or arguments[0] in ("help", "-h", "--help") else 2
    try:
        require_python()
        TASKS[arguments[0]](arguments[1:])
    except StopError as stop:
        print(stop, file=sys.stderr)
        return stop.code
    except KeyboardInterrupt:
        print("\nopenmrc: interrupted", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
