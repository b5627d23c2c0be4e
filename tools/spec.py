#!/usr/bin/env python3
"""Write C++, Python and reference pages from the descriptions in spec/*.toml; `--check` compares, changes nothing."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from _spec_cpp import header_of, readers_of
from _spec_docs import page_of
from _spec_model import Spec, SpecError, load
from _spec_python import module_of

ROOT = Path(__file__).resolve().parents[1]
TOOLS = Path(sys.executable).parent  # the formatters of the same environment, whose versions are pinned


def outputs(spec: Spec) -> dict[str, str]:
    """Text of every written file, by its path in the repository."""
    files: dict[str, str] = {}
    for page in spec.pages:
        if page.header:
            files[page.header] = header_of(page, spec)
        if page.readers:
            files[page.readers] = readers_of(page, spec)
        if page.module:
            files[page.module] = module_of(page, spec)
        if page.file:
            files[f"docs/reference/{page.file}"] = page_of(page, spec)
    return {path: formatted(path, text) for path, text in files.items()}


def formatted(path: str, text: str) -> str:
    """The text in the project's format."""
    if path.endswith(".hpp"):
        command = ["clang-format", f"--assume-filename={path}"]
    elif path.endswith(".py"):
        command = ["ruff", "format", "-q", f"--stdin-filename={path}", "-"]
    else:
        return text
    tool = TOOLS / command[0]
    done = subprocess.run([str(tool), *command[1:]], cwd=ROOT, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SpecError(f"{path}: {command[0]}: {done.stderr.strip()}")
    return done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="name the files that are not as described; exit code 1")
    options = parser.parse_args()
    try:
        files = outputs(load(ROOT / "spec"))
    except SpecError as error:
        print(error, file=sys.stderr)
        return 2
    stale = [path for path, text in files.items() if not (ROOT / path).is_file() or (ROOT / path).read_text() != text]
    for path in stale:
        if options.check:
            print(f"{path} is not what spec/ describes: edit the description, then `make spec`", file=sys.stderr)
        else:
            (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / path).write_text(files[path])
            print(f"wrote {path}")
    return 1 if options.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
