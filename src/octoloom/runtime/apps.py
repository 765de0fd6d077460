"""Finds a developer's app: `package.module:app` or `path/to/file.py:app`. Without a colon it is called `app`.

A file is imported under its own name with its folder on the path, so that it can import its neighbours.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from octoloom.core.app import App
from octoloom.core.errors import UsageError


def load_app(target: str) -> App:
    """The app that `target` names; whatever is wrong with it is said with the next step."""
    place, _, name = target.partition(":")
    name = name or "app"
    if not place:
        raise UsageError(f"{target!r} names no app: write module:app or path/to/file.py:app")
    module = _load_file(Path(place)) if place.endswith(".py") else _load_module(place)
    found = getattr(module, name, None)
    if isinstance(found, App):
        return found
    if found is not None:
        raise UsageError(f"{name!r} in {place} is a {type(found).__name__}, not an octoloom App")
    apps = [key for key, value in vars(module).items() if isinstance(value, App)]
    hint = f"did you mean {place}:{apps[0]}?" if apps else f'make one there: {name} = App("{name}")'
    raise UsageError(f"there is no {name!r} in {place}; {hint}")


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UsageError(f"there is no file {path}: check the path, it is relative to {Path.cwd()}")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} cannot be imported: name a Python file")
    module = importlib.util.module_from_spec(spec)
    # Its classes must be found under its name, but a module that is there already is somebody else's.
    known = sys.modules.setdefault(path.stem, module)
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        if known is module:
            del sys.modules[path.stem]
        raise _broken(str(path), error) from error
    return module


def _load_module(name: str) -> ModuleType:
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            text = f"there is no module {name!r}: check the name, or name a file as in path/to/file.py:app"
            raise UsageError(text) from error
        raise _broken(name, error) from error
    except Exception as error:
        raise _broken(name, error) from error


def _broken(place: str, error: BaseException) -> UsageError:
    return UsageError(f"{place} cannot be imported ({type(error).__name__}: {error}): fix that and start again")
