"""Octoloom weaves the events of many devices into one ordered, durable, shared state.

`App` and `Reject` are for whoever writes the rules, `Device` and `Observer` for whoever takes part. What runs a chain
is the command line: ``octoloom up game.py:app``. `Group` is for programs that speak to each other in an order.
`LogClient`, `Producer`, `Consumer` and `ValueConsumer` write and read the log, and `GroupConsumer` and
`GroupValueConsumer` read it together with others.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from octoloom.core.app import App, AppEvent, Reject
    from octoloom.core.causal import ConcurrentMessages
    from octoloom.core.errors import OctoloomError, ProtocolError, StoreError, UsageError
    from octoloom.core.filters import ReceivedMessage
    from octoloom.core.group_messages import GroupView
    from octoloom.runtime.device import Device, Sending
    from octoloom.runtime.follower import Change, SendOutcome
    from octoloom.runtime.group import Group
    from octoloom.runtime.group_errors import Expelled
    from octoloom.runtime.log_client import LogClient
    from octoloom.runtime.log_consumer import Consumer, ValueConsumer
    from octoloom.runtime.log_errors import LogError
    from octoloom.runtime.log_group_consumer import GroupConsumer, GroupValueConsumer
    from octoloom.runtime.log_producer import Producer
    from octoloom.runtime.observer import Observer

__version__ = "0.1.0"

__all__ = [
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

# Every import of a core passes through here, so what a name needs is loaded when it is asked for, and no earlier.
_HOMES = {
    "App": "octoloom.core.app",
    "AppEvent": "octoloom.core.app",
    "Change": "octoloom.runtime.follower",
    "ConcurrentMessages": "octoloom.core.causal",
    "Consumer": "octoloom.runtime.log_consumer",
    "Device": "octoloom.runtime.device",
    "Expelled": "octoloom.runtime.group_errors",
    "Group": "octoloom.runtime.group",
    "GroupConsumer": "octoloom.runtime.log_group_consumer",
    "GroupValueConsumer": "octoloom.runtime.log_group_consumer",
    "GroupView": "octoloom.core.group_messages",
    "LogClient": "octoloom.runtime.log_client",
    "LogError": "octoloom.runtime.log_errors",
    "Observer": "octoloom.runtime.observer",
    "OctoloomError": "octoloom.core.errors",
    "Producer": "octoloom.runtime.log_producer",
    "ProtocolError": "octoloom.core.errors",
    "ReceivedMessage": "octoloom.core.filters",
    "Reject": "octoloom.core.app",
    "SendOutcome": "octoloom.runtime.follower",
    "Sending": "octoloom.runtime.device",
    "StoreError": "octoloom.core.errors",
    "UsageError": "octoloom.core.errors",
    "ValueConsumer": "octoloom.runtime.log_consumer",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'octoloom' has no attribute {name!r}")
    found = getattr(importlib.import_module(home), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
