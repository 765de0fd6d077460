"""Our own sources as one file, for executors on other machines.

The zip holds every module of the package and nothing that was compiled: what the package needs has to be installed
where the executors run, the package itself does not. Its name tells its content, so that a cluster which has seen an
older one does not mistake it.
"""

from __future__ import annotations

import atexit
import hashlib
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGES = ("octoloom", "pyspark_octoloom")
KEPT = (".py", ".properties", ".typed")
STAMP = (1980, 1, 1, 0, 0, 0)
"""Equal sources make an equal file, whenever they were checked out."""


def root() -> Path:
    """The directory that holds the package."""
    return Path(__file__).resolve().parents[2]


@cache
def sources() -> Path:
    """The zip, in a directory that is there as long as this process: executors may come late."""
    folder = Path(tempfile.mkdtemp(prefix="octoloom-sources-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    digest = hashlib.sha256()
    unnamed = folder / "sources.zip"
    with zipfile.ZipFile(unnamed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in _files():
            name, content = str(path.relative_to(root())), path.read_bytes()
            digest.update(f"{name}\n{len(content)}\n".encode() + content)
            archive.writestr(zipfile.ZipInfo(name, STAMP), content, zipfile.ZIP_DEFLATED)
    return unnamed.rename(folder / f"octoloom-{digest.hexdigest()[:12]}.zip")


def _files() -> Iterator[Path]:
    for package in PACKAGES:
        for path in sorted((root() / package).rglob("*")):
            if path.suffix in KEPT and path.is_file():
                yield path
