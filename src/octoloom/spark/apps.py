"""Apps for executors: `module:app` is imported there under its name, a file travels with its text.

An executor is another process, perhaps on another machine. It has our package and what else is installed, not the
folder that the driver was started in. So a file's text is sent along and run there once; it can import what is
installed, not its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from octoloom.core.app import App
from octoloom.core.errors import UsageError
from octoloom.runtime.apps import load_app

_loaded: dict[tuple[str, str], App] = {}


def app_loader(app: str | App) -> Callable[[], App]:
    """What gives the app on an executor. It is loaded here first, so that what is wrong with it is told at once."""
    if isinstance(app, App):
        return _Ready(app)
    load_app(app)
    place, _, name = app.partition(":")
    name = name or "app"
    return _Text(Path(place).read_text(), place, name) if place.endswith(".py") else _Named(app)


class _Ready:
    """The app itself, sent as cloudpickle sends it."""

    def __init__(self, app: App) -> None:
        self._app = app

    def __call__(self) -> App:
        return self._app


class _Named:
    def __init__(self, target: str) -> None:
        self._target = target

    def __call__(self) -> App:
        return load_app(self._target)


class _Text:
    def __init__(self, text: str, place: str, name: str) -> None:
        self._text, self._place, self._name = text, place, name

    def __call__(self) -> App:
        key = self._text, self._name
        if key not in _loaded:
            module = ModuleType(Path(self._place).stem)
            try:
                exec(compile(self._text, self._place, "exec"), module.__dict__)
            except Exception as error:
                text = f"{self._place} cannot be run on an executor ({type(error).__name__}: {error})"
                raise UsageError(f"{text}: it can import what is installed there, not its neighbours") from error
            found = module.__dict__[self._name]
            assert isinstance(found, App)
            _loaded[key] = found
        return _loaded[key]
