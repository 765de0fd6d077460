"""FIFO: the casts of each member come in the sequence in which it sent them.

This is the unicast of the slides, once for each sender: the number is the stamp, and what comes too early waits for the
one before it. It costs the same for every cast, however many are held. Between two senders nothing is promised: an
answer may come before its question.
"""

from __future__ import annotations

from octoloom.core.filters import orders
from octoloom.core.turns import Turns


class Fifo(Turns):
    """All that it needs is what every order does."""


orders.add("fifo", Fifo)
