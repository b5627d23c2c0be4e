"""Sphinx extension of the documentation site: navigation from links, docstrings, names of the API."""

from __future__ import annotations

import builtins
import inspect
import re
import sys
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.ext.napoleon import Config, GoogleDocstring
from sphinx.util.nodes import make_refnode

API = Path(__file__).resolve().parent.parent / "docs" / "api"
# Pages whose links are the navigation, and the number of levels that the navigation shows below each link.
NAVIGATION_PAGES = {"docs/index": 1, "docs/api/README": 1, "docs/decisions/README": 1}
_LINK = re.compile(r"\]\(([^)#\s:]+)\.md\)")
_CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)(?=(\w?))")
_NAME = re.compile(r"[A-Za-z_]\w*(\.\w+)*(\(\))?")
_TREE = ("├", "│", "└")
_SECTIONS = Config(napoleon_use_ivar=True)
_ALIASES = {"np": "numpy", "pa": "pyarrow", "pl": "polars"}
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)

# A name that several public modules export is described by the first of these that has it.
OWNERS = ("openmrc.errors", "openmrc.events", "openmrc.connection", "openmrc.verbs")


def public_modules() -> list[str]:
    """Modules that have a page in docs/api."""
    return sorted(path.stem for path in API.glob("openmrc*.md"))


def load_api(_app: Sphinx) -> None:
    """Import every module of the API, as processes of `-j` that resolve names are not those that import for autodoc."""
    for module in public_modules():
        import_module(module)


# --- navigation


def add_navigation(_app: Sphinx, page: str, source: list[str]) -> None:
    """Append a hidden table of contents for each section of a navigation page: the documents that the section links."""
    if page not in NAVIGATION_PAGES:
        return
    text = source[0]
    parts = _HEADING.split(text)
    captions, bodies = ["", *parts[1::2]], parts[0::2]
    for caption, body in zip(captions, bodies, strict=True):
        entries = list(dict.fromkeys(document_of(page, link) for link in _LINK.findall(body)))
        if entries and not (page == "docs/index" and not caption):
            text += toctree(caption, entries, NAVIGATION_PAGES[page])
    source[0] = text


def document_of(page: str, link: str) -> str:
    """Document that a relative link of a page names, from the root of the site."""
    parts: list[str] = []
    for part in (PurePosixPath(page).parent / link).parts:
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    return "/" + "/".join(parts)


def toctree(caption: str, entries: list[str], depth: int) -> str:
    options = [":hidden:", f":maxdepth: {depth}", *([f":caption: {caption}"] if caption else [])]
    return "\n\n```{toctree}\n" + "\n".join([*options, "", *entries]) + "\n```\n"


# --- docstrings


def to_restructured_text(_app: Sphinx, what: str, _name: str, _value: Any, _options: Any, lines: list[str]) -> None:
    """Translate Google's sections, and the Markdown of our docstrings: code in single backticks, drawings of trees.

    A name in backticks becomes a reference, anything else code. Docstrings of attributes have no sections: words before
    a colon in their first line are not a type.
    """
    translated = _CODE.sub(literal, "\n".join(indent_trees(lines))).split("\n")
    lines[:] = translated if what == "attribute" else GoogleDocstring(translated, _SECTIONS, what=what).lines()


def literal(code: re.Match[str]) -> str:
    words = " ".join(code[1].split())
    quotes = "`" if _NAME.fullmatch(words) else "``"
    return quotes + words + quotes + ("\\ " if code[2] else "")  # keeps a plural's s from ending the role


def indent_trees(lines: list[str]) -> list[str]:
    """The lines, where each tree of box characters with the line above it is a literal block."""
    marked: list[str] = []
    in_tree = False
    for line in lines:
        if line[:1] in _TREE and not in_tree:
            root = marked.pop()
            marked += ["::", "", "    " + root]
        in_tree = line[:1] in _TREE
        marked.append("    " + line if in_tree else line)
    return marked


# --- names


def owner_of(name: str, value: Any) -> str | None:
    """Public module that describes a name exported by several of them."""
    exporting = [module for module in public_modules() if vars(import_module(module)).get(name) is value]
    return min(exporting, key=lambda module: (OWNERS.index(module) if module in OWNERS else 99, module), default=None)


def skip_names_of_others(app: Sphinx, what: str, name: str, value: Any, _skip: bool, _options: Any) -> bool | None:
    """Leave out names that another module of the API describes, so that every name has one place."""
    module = PurePosixPath(app.env.docname).name
    if what != "module" or not (inspect.isclass(value) or inspect.isfunction(value)):
        return None
    return True if owner_of(name, value) not in (None, module) else None


def unlink_builtins(_app: Sphinx, document: nodes.document) -> None:
    """Show built-in types as text: `bytes` would otherwise be searched among the attributes of that name."""
    for node in document.findall(addnodes.pending_xref):
        if node.get("refdomain") == "py" and node["reftype"] == "class" and hasattr(builtins, node["reftarget"]):
            node.replace_self(node.children)


def resolve_by_object(app: Sphinx, env: Any, node: Any, text: nodes.Node) -> nodes.Node | None:
    """Resolve a reference by importing its target: a link if the API describes it, text if it exists elsewhere."""
    if node.get("refdomain") != "py":
        return None
    domain, name = env.domains.python_domain, node["reftarget"]
    found, value = look_up(name.partition("[")[0], node.get("py:module"))
    target = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"
    entry = domain.objects.get(target)
    if entry is not None:
        return make_refnode(app.builder, node["refdoc"], entry.docname, entry.node_id, [text], target)
    # Words in backticks may name arguments, files, commands; a type has to exist.
    return text if found or node["reftype"] == "obj" else None


def look_up(name: str, module: str | None) -> tuple[bool, Any]:
    """True if a name of an annotation exists, from the root or in a module below `module`; and its value."""
    path, _, last = name.rpartition(".")
    for start in (path, _ALIASES.get(path, "")):
        value = getattr(imported(start), last, None) if start else None  # some are loaded on demand
        if value is not None:
            return True, value
    for loaded in ("openmrc", *sorted(sys.modules)):
        if loaded == "openmrc" or (module and (loaded + ".").startswith(module + ".")):
            value = vars(sys.modules[loaded]).get(name.removeprefix(module + "." if module else ""))
            if value is not None:
                return True, value
    return False, None


def imported(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        return None


def write_front_page(app: Sphinx, error: Exception | None) -> None:
    """Redirect the root of the site to its first page, which is at the position of its source."""
    if error is None:
        page = f"{app.config.root_doc}.html"
        refresh = f'<meta http-equiv="refresh" content="0; url={page}">'
        text = f'<!doctype html><meta charset="utf-8"><title>openmrc</title>{refresh}'
        (Path(app.outdir) / "index.html").write_text(f'{text}<a href="{page}">openmrc</a>\n')


def setup(app: Sphinx) -> dict[str, Any]:
    """Entry point that Sphinx calls."""
    app.connect("builder-inited", load_api)
    app.connect("source-read", add_navigation)
    app.connect("autodoc-process-docstring", to_restructured_text, priority=100)
    app.connect("autodoc-skip-member", skip_names_of_others)
    app.connect("doctree-read", unlink_builtins)
    app.connect("missing-reference", resolve_by_object)
    app.connect("build-finished", write_front_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
