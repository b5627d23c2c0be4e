"""The JSON schema of fabric files, for completion and validation in editors."""

from __future__ import annotations

from typing import Any

from openmrc.fabric.file_sections import FabricFile
from openmrc.fabric.value_schemas import QUANTITIES, QUANTITY

__all__ = ["fabric_schema"]


def fabric_schema() -> dict[str, Any]:
    """The schema of a fabric file in the user's notation (JSON Schema 2020-12), derived from the parser's models.

    It contains keys, types, units and bounds. Contradictions within a file are only detected on loading.
    """
    schema = _tidy(FabricFile.model_json_schema())
    schema["$defs"] = {**QUANTITIES, **schema["$defs"]}
    # Planes with settings of their own may all specify their rate.
    schema["required"].remove("rate")
    schema |= {"if": {"properties": {"planes": {"type": "integer"}}}, "then": {"required": ["rate"]}}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "openmrc fabric file", **schema}


def _tidy(node: Any) -> Any:
    """Removes additions of pydantic for programs: titles, nulls for absent keys, defaults of several values."""
    if isinstance(node, list):
        return [_tidy(each) for each in node]
    if not isinstance(node, dict):
        return node
    tidy = {key: _tidy(value) for key, value in node.items() if not _is_noise(key, value)}
    name = tidy.pop(QUANTITY, None)
    if name is not None:
        return {"$ref": f"#/$defs/{name}"} | tidy
    if "anyOf" not in tidy:
        return tidy
    ways = [way for way in tidy.pop("anyOf") if way != {"type": "null"}]
    flat = [inner for way in ways for inner in (way["anyOf"] if set(way) == {"anyOf"} else [way])]
    return {**flat[0], **tidy} if len(flat) == 1 else {**tidy, "anyOf": flat}


def _is_noise(key: str, value: Any) -> bool:
    if key == "title":
        return isinstance(value, str)
    return key == "default" and (value is None or isinstance(value, dict | list | tuple))
