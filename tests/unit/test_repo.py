"""The repository keeps its own rules: sizes, layers, banned calls, leftovers, names, documents."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILE_LINES_MAX = 700
FUNCTION_LINES_MAX = 70
TEST_FUNCTION_LINES_MAX = 100
TEXT_SUFFIXES = {".cpp", ".hpp", ".py", ".pyi", ".md", ".toml", ".yaml", ".yml", ".txt", ".cmake", ".json", ""}

# Permitted includes of each native layer. The drivers do not know each other.
NATIVE_LAYERS = {
    "engine": {"engine"},
    "netsim": {"engine", "netsim"},
    "nic": {"engine", "nic"},
    "collectives": {"engine", "nic", "collectives"},
    "verbs": {"engine", "nic", "verbs"},
    "mrc_api": {"engine", "verbs", "mrc_api", "openmrc"},  # declarations of the first two; links to neither
    "rdmacm": {"nic", "verbs", "rdmacm"},
    "nccl": {"engine", "nic", "verbs", "nccl"},
    "preload": {"preload"},
    "bindings": {"engine", "netsim", "nic", "collectives", "bindings"},
    "tests": {"engine", "netsim", "nic", "collectives", "verbs", "nccl", "rdmacm", "tests"},
}

# Pattern in native/engine -> replacement.
ENGINE_BANNED = {
    r"#include <(chrono|ctime|time\.h|sys/time\.h)>|std::chrono|clock_gettime|gettimeofday": "the `now` handed in",
    r"#include <(random|stdlib\.h)>|\bs?rand\(|random_device|getrandom": "engine/base/rng.hpp",
    r"#include <(sys/socket|netinet/in|arpa/inet|unistd|fcntl)\.h>": "nothing: drivers own sockets and files",
    r"#include <(iostream|fstream|sstream|cstdio|stdio\.h|filesystem|print)>|\bs?n?printf\(": "events and counters",
    r"#include <(thread|mutex|shared_mutex|condition_variable|future)>": "nothing: one engine, one lock outside",
    r"\bgetenv\(": "the configuration",
    r"\bthread_local\b": "a member",
}

# Composed of pieces, so that this file does not match itself.
LEFTOVERS = {
    "unfinished work": r"\b(?:" + "|".join(["TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK"]) + r")\b",
    "a path of one machine": r"(?<![\w.$}])/(?:" + "|".join(["wo" + "rk", "ro" + "ot", "tm" + "p"]) + r")/\w",
    "a package registry's host": "|".join(["pypi" + r"\.org", "python" + r"hosted\.org", "deb" + r"\.debian"]),
    "a merge conflict": r"^(?:<{7}|>{7}) ",
}


def committed_files() -> list[Path]:
    """Files that are or will be committed."""
    git = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        return [path for line in sorted(set(listed.stdout.splitlines())) if (path := ROOT / line).is_file()]
    skipped = {"build", ".venv", ".git", "__pycache__"}
    return sorted(p for p in ROOT.rglob("*") if p.is_file() and not skipped & set(p.relative_to(ROOT).parts))


FILES = committed_files()
TEXTS = [path for path in FILES if path.suffix in TEXT_SUFFIXES and "corpus" not in path.parts]
CPP = [path for path in FILES if path.suffix in {".cpp", ".hpp"}]
PYTHON = [path for path in FILES if path.suffix == ".py"]
DOCUMENTS = [path for path in FILES if path.suffix == ".md"]


def inside(paths: list[Path], *folder: str) -> list[Path]:
    return [path for path in paths if path.relative_to(ROOT).parts[: len(folder)] == folder]


def failing(paths: list[Path], problem: Callable[[Path], object]) -> dict[str, object]:
    """Files with a problem, and the problem."""
    assert paths, "the rule meets no file"
    return {str(path.relative_to(ROOT)): found for path in paths if (found := problem(path))}


def without_comments_and_strings(text: str) -> str:
    """C++ source with comments and literals blanked, every line kept."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', re.DOTALL)
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)


SIGNATURE = re.compile(
    r"\)\s*(?:const|noexcept|override|final|mutable|try|->[^{};]+|:[^{};]*\)?)?\s*(?:noexcept)?\s*\Z"
)
NOT_A_FUNCTION = re.compile(r"\s*(?:if|for|while|switch|catch|else|do|namespace|class|struct|enum|union|extern)\b")


def cpp_functions(text: str) -> Iterator[tuple[int, int]]:
    """(first line, number of lines) of every function body that is not inside another one."""
    code = re.sub(r"^[ \t]*#[^\n]*", "", without_comments_and_strings(text), flags=re.MULTILINE)
    stack: list[int] = []  # line of the function's head, or 0 for another block
    head_start = 0
    for match in re.finditer(r"[{};]", code):
        head = code[head_start : match.start()]
        if match[0] == "{":
            begins = SIGNATURE.search(head) and not NOT_A_FUNCTION.match(head) and not any(stack)
            first = head_start + len(head) - len(head.lstrip())
            stack.append(code.count("\n", 0, first) + 1 if begins else 0)
        elif match[0] == "}" and stack:
            line = stack.pop()
            if line:
                yield line, code.count("\n", 0, match.start()) + 2 - line
        head_start = match.end()


def test_the_function_finder_finds_functions() -> None:
    text = "namespace a {\nstruct B {\n  int f() const { return 1; }\n};\nint g(int x) {\n  if (x) {\n  }\n}\n}\n"
    assert list(cpp_functions(text)) == [(3, 1), (5, 4)]


def test_files_are_small() -> None:
    def problem(path: Path) -> int:
        lines = len(path.read_text().splitlines())
        return lines if lines > FILE_LINES_MAX else 0

    assert not failing(CPP + PYTHON, problem)


def test_cpp_functions_are_small() -> None:
    def problem(path: Path) -> list[tuple[int, int]]:
        limit = TEST_FUNCTION_LINES_MAX if "tests" in path.parts else FUNCTION_LINES_MAX
        return [(line, length) for line, length in cpp_functions(path.read_text()) if length > limit]

    assert not failing(CPP, problem), "(line, length)"


def test_python_functions_are_small() -> None:
    def problem(path: Path) -> dict[str, int]:
        nodes = ast.walk(ast.parse(path.read_text()))
        functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        lengths = {f"{node.name}:{node.lineno}": (node.end_lineno or 0) - node.lineno + 1 for node in functions}
        return {which: length for which, length in lengths.items() if length > FUNCTION_LINES_MAX}

    assert not failing(inside(PYTHON, "src") + inside(PYTHON, "tools"), problem)


def test_the_engine_calls_nothing_outside() -> None:
    def problem(path: Path) -> dict[str, str]:
        code = without_comments_and_strings(path.read_text())
        return {match[0]: use for banned, use in ENGINE_BANNED.items() if (match := re.search(banned, code))}

    assert not failing(inside(CPP, "native", "engine"), problem), "found: what to use instead"


def test_the_engine_decides_without_floating_point() -> None:
    def problem(path: Path) -> list[str]:
        return re.findall(r"\b(?:double|float)\b", without_comments_and_strings(path.read_text()))

    assert not failing(inside(CPP, "native", "engine"), problem)


def test_native_layers_look_down_only() -> None:
    def problem(path: Path) -> set[str]:
        included = re.findall(r'^#include "([a-z_]+)/', path.read_text(), re.MULTILINE)
        return set(included) - NATIVE_LAYERS[path.relative_to(ROOT).parts[1]]

    assert not failing(inside(CPP, "native"), problem)


def test_every_header_is_included_somewhere() -> None:
    included = {target for path in CPP for target in re.findall(r'^#include "([^"]+)"', path.read_text(), re.MULTILINE)}
    headers = {str(path.relative_to(ROOT / "native")) for path in CPP if path.suffix == ".hpp"}
    assert headers <= included


def test_the_library_does_not_print() -> None:
    def problem(path: Path) -> list[int]:
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        return [call.lineno for call in calls if isinstance(call.func, ast.Name) and call.func.id == "print"]

    assert not failing([path for path in inside(PYTHON, "src") if "cli" not in path.parts], problem)


def test_nothing_is_left_over() -> None:
    def problem(path: Path) -> dict[str, str]:
        text = path.read_text()
        return {what: m[0] for what, pattern in LEFTOVERS.items() if (m := re.search(pattern, text, re.MULTILINE))}

    assert not failing(TEXTS, problem)


def test_lines_end_cleanly() -> None:
    def problem(path: Path) -> list[int]:
        lines = path.read_text().split("\n")
        return [number for number, line in enumerate(lines, 1) if line != line.rstrip()] + [0] * bool(lines[-1])

    assert not failing(TEXTS, problem), "line numbers with blanks at the end; 0: no newline at the end of the file"


# A docstring starts with the result for the caller, a comment with its reason; neither starts with a question.
QUESTION = re.compile(r"(?:What|Who|Whom|Whose|Which|When|Where|How|Why|Whether)(?:ever)?\b", re.IGNORECASE)
COMMENT_BLOCK = re.compile(r"^[ \t]*(//+|#)(?!!)[^\n]*(?:\n[ \t]*\1[^\n]*)*", re.MULTILINE)


def python_documentation(text: str) -> Iterator[str]:
    """Docstrings, strings below attributes, and blocks of comments of a Python file."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value
    comments: list[tokenize.TokenInfo] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and token.line.lstrip().startswith("#"):
            if not comments or comments[-1].start[0] + 1 != token.start[0]:
                yield token.string.lstrip("#:")
            comments.append(token)


def cpp_documentation(text: str) -> Iterator[str]:
    """Blocks of comments that stand on lines of their own in a C++ file."""
    for block in COMMENT_BLOCK.finditer(text):
        if block[1] != "#":
            yield block[0].lstrip().lstrip("/<")


def test_the_documentation_finder_finds_questions() -> None:
    python = '"""What it does."""\n# Why it is so,\n# which is long.\nx = 1  # how many\ndef f():\n    """Where."""\n'
    assert [text.split()[0] for text in python_documentation(python)] == ["What", "Where.", "Why"]
    cpp = "#pragma once\n  // Whether it is,\n  // and when.\nint x;  // which\n/// How many.\nint y;\n"
    assert [text.split()[0] for text in cpp_documentation(cpp)] == ["Whether", "How"]


def test_no_docstring_or_comment_opens_with_a_question() -> None:
    def problem(path: Path) -> list[str]:
        find = python_documentation if path.suffix == ".py" else cpp_documentation
        return [" ".join(text.split()[:8]) for text in find(path.read_text()) if QUESTION.match(text.lstrip())]

    assert not failing(PYTHON + CPP, problem), "start with the result, with 'True if', or with a noun"


TERMS = (
    "QP PSN MSN RQMSN EV SACK NACK MPR WIMM NSCC ICRC GOOD SKIP ASSUMED_BAD DENIED T0 T1 plane port trim goodput "
    "stall fault engine driver device burst min_active"
)


@pytest.mark.parametrize("term", TERMS.split())
def test_the_glossary_has_the_words_we_use(term: str) -> None:
    assert f"**{term}**" in (ROOT / "docs" / "glossary.md").read_text()


def test_the_glossary_gives_each_word_once() -> None:
    rows = re.findall(r"^\| (\*\*[^|]+) \|", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)
    words = [word for row in rows for word in re.findall(r"\*\*([^*]+)\*\*", row)]
    assert len(words) == len(set(words))


def test_decisions_are_numbered_and_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    records = sorted(path.name for path in folder.glob("[0-9]*.md"))
    numbers = [record[:4] for record in records]
    assert len(numbers) == len(set(numbers))
    index = (folder / "README.md").read_text()
    assert not [record for record in records if f"({record})" not in index]


def test_links_between_documents_lead_somewhere() -> None:
    def problem(path: Path) -> list[str]:
        links = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", path.read_text())
        return [link for link in links if not (path.parent / link).exists()]

    assert not failing(DOCUMENTS, problem)


def test_no_test_asserts_elapsed_time() -> None:
    """A busy machine would break it: use counters, the order of events or virtual time."""
    clocks = {"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time", "process_time_ns"}

    def problem(path: Path) -> list[int]:
        checks = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Assert)]
        called = ((one, node.func) for one in checks for node in ast.walk(one.test) if isinstance(node, ast.Call))
        return [one.lineno for one, what in called if isinstance(what, ast.Attribute) and what.attr in clocks]

    assert not failing(inside(PYTHON, "tests"), problem)


def headings(text: str) -> list[str]:
    """Headings of a page in Markdown, without the marks; lines of code blocks are not headings."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"^#+ (.+)$", prose, re.MULTILINE)


def test_headings_are_found_outside_code_only() -> None:
    assert headings("# A page\n\n```sh\n# a comment\n```\n\n## Its part\n") == ["A page", "Its part"]


def test_headings_of_documents_name_their_subject() -> None:
    """A heading is a noun or an imperative; one that begins like a question is one, with a question mark."""

    def problem(path: Path) -> list[str]:
        opening = re.compile(r"(?:What|Who|Whose|Whom|Which|When|Where|How|Why)\b")
        return [one for one in headings(path.read_text()) if opening.match(one) and not one.endswith("?")]

    assert not failing(DOCUMENTS, problem)


def test_documents_write_each_unit_in_one_form() -> None:
    """`Gb/s`, `Mb/s` and `us`: other forms of a rate or of microseconds are for input only."""

    def problem(path: Path) -> list[str]:
        return re.findall(r"\b[TGMk]?[bB]it/s\b|\b[TGM]Bit\b|[µμ]s\b|\b\d+ usec\b", path.read_text())

    assert not failing(DOCUMENTS, problem)
