"""A small web server on loopback: the client, the example pages, and what tests serve beside them.

A planted bug is a text substitution in one file of the client. Each has an address of its own, so that a page loads
all modules anew: `/planted/3/core.js`.
"""

from __future__ import annotations

import mimetypes
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
FOLDERS = {
    "client": ROOT / "clients" / "js" / "src",
    "app": ROOT / "examples" / "pages",
    "tests": Path(__file__).parent,
}
TYPES = {".js": "text/javascript", ".html": "text/html; charset=utf-8"}
BLANK = b"<!doctype html><meta charset=utf-8><title>test</title><link rel=icon href=data:,>"


@dataclass(frozen=True)
class Bug:
    """In `file`, `wrong` stands where `right` was."""

    file: str
    right: str
    wrong: str

    def planted(self, text: str) -> str:
        assert text.count(self.right) == 1, f"{self.file} has {text.count(self.right)} of {self.right!r}"
        return text.replace(self.right, self.wrong)


@dataclass
class Site:
    url: str = ""
    bugs: list[Bug] = field(default_factory=list)
    texts: dict[str, bytes] = field(default_factory=dict)
    """More pages: path → content."""

    @property
    def blank(self) -> str:
        """A page with nothing on it."""
        return f"{self.url}/blank.html"

    def plant(self, bug: Bug) -> str:
        """The folder of a client that has this bug."""
        self.bugs.append(bug)
        return f"{self.url}/planted/{len(self.bugs) - 1}/"

    def content(self, path: str) -> bytes | None:
        if path in self.texts:
            return self.texts[path]
        top, _, rest = path.lstrip("/").partition("/")
        if path == "/blank.html":
            return BLANK
        if top == "planted":
            number, _, rest = rest.partition("/")
            return self._planted(self.bugs[int(number)], rest)
        file = FOLDERS.get(top, ROOT / "nowhere") / rest
        return file.read_bytes() if file.is_file() and ".." not in rest else None

    def _planted(self, bug: Bug, name: str) -> bytes:
        text = (FOLDERS["client"] / name).read_text()
        return (bug.planted(text) if name == bug.file else text).encode()


class Server:
    """Serves a site until it is closed."""

    def __init__(self) -> None:
        self.site = Site()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self.site))
        self.site.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, name="site", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


def _handler(site: Site) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            content = site.content(path)
            self.send_response(404 if content is None else 200)
            suffix = Path(path).suffix
            self.send_header("Content-Type", TYPES.get(suffix) or mimetypes.guess_type(path)[0] or "text/plain")
            self.send_header("Cache-Control", "no-store")
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, *args: object) -> None:
            """Nobody reads it."""

    return Handler
