"""Reading of fabric files. All problems of a file are reported at once, each with its line and a hint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from openmrc.config.yaml_document import Document, in_order, read_text, read_yaml
from openmrc.fabric.errors import FabricFileError
from openmrc.fabric.file_sections import FabricFile
from openmrc.fabric.model import Fabric
from openmrc.fabric.resolve import decide

__all__ = ["fabric_of", "load_fabric", "make_fabric", "parse_fabric"]


def load_fabric(path: str | Path) -> Fabric:
    """The fabric that a YAML file describes.

    Raises:
        FabricFileError: with every problem of the file, each with line and hint; also if it cannot be read.
    """
    return parse_fabric(read_text(path, "fabric file", FabricFileError), source=path)


def parse_fabric(text: str, source: str | Path = "<text>") -> Fabric:
    """The fabric that YAML text describes; `source` names it in errors.

    Raises:
        FabricFileError: with every problem of the text.
    """
    return fabric_of(read_yaml(text, source, "fabric file", "planes: 4", FabricFileError))


def make_fabric(**values: Any) -> Fabric:
    """The fabric with these settings, named as in the fabric file: `make_fabric(planes=4, hosts=2, rate="250Mbit")`.

    Raises:
        FabricFileError: with every problem of the settings.
    """
    return fabric_of(Document(values))


def fabric_of(document: Document) -> Fabric:
    """The fabric of a document, which may be a section of another file.

    Raises:
        FabricFileError: with every problem of the document.
    """
    try:
        file = FabricFile.model_validate(dict(document.values))
    except ValidationError as error:
        raise FabricFileError(document.problems(error, FabricFile)) from None
    fabric, problems = decide(file, document)
    if fabric is None:
        raise FabricFileError(in_order(problems))
    return fabric
