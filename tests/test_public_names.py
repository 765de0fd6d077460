"""The public names: adding one is a decision, and so is taking one away."""

from __future__ import annotations

import subprocess
import sys

import octoloom

NAMES = [
    "App",
    "AppEvent",
    "Change",
    "ConcurrentMessages",
    "Consumer",
    "Device",
    "Expelled",
    "Group",
    "GroupConsumer",
    "GroupValueConsumer",
    "GroupView",
    "LogClient",
    "LogError",
    "Observer",
    "OctoloomError",
    "Producer",
    "ProtocolError",
    "ReceivedMessage",
    "Reject",
    "SendOutcome",
    "Sending",
    "StoreError",
    "UsageError",
    "ValueConsumer",
    "__version__",
]


def test_the_public_names_are_these() -> None:
    assert octoloom.__all__ == NAMES
    assert [name for name in dir(octoloom) if name in NAMES] == sorted(NAMES)


def test_every_public_name_is_there_and_documented() -> None:
    for name in NAMES:
        found = getattr(octoloom, name)
        assert name == "__version__" or found.__doc__, name
        assert name == "__version__" or found.__name__ == name


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(octoloom, "Gadget")


def test_a_core_loads_no_sockets() -> None:
    """Reducers run in many places; none of them should have to load what only a device needs."""
    code = "import sys, octoloom.core.app; sys.exit('picows' in sys.modules or 'asyncio' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
