"""Import of the file or module that registers a scenario's policies, by each process of a sweep."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from openmrc.errors import ConfigError

__all__ = ["load"]


def load(module_or_file: str | Path, *, folder: Path | None = None) -> ModuleType:
    """The module that registers policies, imported once per process.

    Args:
        module_or_file: A path that ends in .py, or the dotted name of an importable module.
        folder: Base of relative paths: the scenario's folder. None: the current one.

    Raises:
        ConfigError: there is no such file or module, or it raised during import; `__cause__` has the details. A
            ConfigError of the module itself, such as a name that is taken, is passed on unchanged.
    """
    text = str(module_or_file)
    if not text.endswith(".py"):
        return _import(text)
    path = ((folder or Path.cwd()) / text).resolve()
    if not path.is_file():
        raise ConfigError("policies", text, "a Python file that exists, or a module's name", hint=f"looked for {path}")
    return _imported_from(path) or _run(path, text)


def _import(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ConfigError:
        raise
    except ModuleNotFoundError as error:
        allowed = "a module that Python finds, or a path that ends in .py"
        raise ConfigError("policies", name, allowed, hint=str(error)) from error
    except Exception as error:
        raise _failed(name, error) from error


def _imported_from(path: Path) -> ModuleType | None:
    """The running program if it is the file: a script that registers policies and then runs a scenario that uses it."""
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file and Path(file).name == path.name and Path(file).resolve() == path:
            return module
    return None


def _run(path: Path, text: str) -> ModuleType:
    name = f"_openmrc_policies_{len(sys.modules)}_{path.stem}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError("policies", text, "a Python file")
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, ConfigError) or not isinstance(error, Exception):
            raise
        raise _failed(text, error) from error
    return module


def _failed(name: str, error: Exception) -> ConfigError:
    return ConfigError("policies", name, "Python that imports", hint=f"{type(error).__name__}: {error}")
