"""Files that the console serves: its own, the browser client's, the user's pages. Nothing outside, nothing hidden."""

from __future__ import annotations

import mimetypes
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from octoloom.core.errors import UsageError

STATIC = Path(__file__).parent / "static"


def client_folder(static: Path = STATIC) -> Path:
    """The browser client: a wheel brings it with the console's own files, a checkout has it in `clients/js/src`."""
    brought = static / "client"
    return brought if brought.is_dir() else static.parents[3] / "clients" / "js" / "src"


# What a machine says about these must not decide whether a browser runs them.
_TYPES = {".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".wasm": "application/wasm"}
for _ending, _type in _TYPES.items():
    mimetypes.add_type(_type, _ending)


class Files(StaticFiles):
    """A folder. What begins with a dot is not there, and a link that leads out of the folder leads nowhere."""

    def __init__(self, folder: Path, hint: str) -> None:
        super().__init__(directory=folder, html=True, check_dir=False)
        self._hint = hint

    async def get_response(self, path: str, scope: Scope) -> Response:
        if any(part.startswith(".") and part != "." for part in path.split("/")):
            raise HTTPException(404, self._hint)
        try:
            return await super().get_response(path, scope)
        except HTTPException as error:
            raise HTTPException(error.status_code, self._hint) from error
        except (OSError, ValueError, RuntimeError) as error:
            raise HTTPException(404, self._hint) from error


def pages_folder(folder: Path) -> Path:
    """The folder of the user's pages, looked at before anything is started."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is no directory: name the one with your pages with --pages")
    return folder
