"""The process that tries events: one beside a link, with the same app, which forks a child for each try.

A process with threads must not fork: a lock that another thread holds at that moment stays locked in the child for
ever, and an innocent event would be judged by it. This process has one thread and does nothing else. It is made of the
link before the link has any thread (`Trials.forked`), or as a fresh interpreter that loads the app by its name:
``python -m octoloom.runtime.trial_host app descriptor``.

1. It holds nothing of the link but one socket, and ends when the link does: then the socket does. Its children end
   with it.
2. An order on the socket is a kind and a number. `TRY` brings two descriptors: a file with the `Case`, and a pipe on
   which the child says how far it has come. `END` ends the child of that number, if it is still there: only this
   process waits for it, so its process number is its own.
3. A child leaves by `_exit` only. If it cannot be made, the pipe ends without a word.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import os
import select
import signal
import socket
import struct
import sys
from typing import Any, NoReturn

import msgspec

from octoloom.core.app import App
from octoloom.core.event import Event
from octoloom.core.rehearsal import rehearse
from octoloom.runtime.apps import load_app

ORDER = struct.Struct("=BI")
TRY, END = 1, 2
AT = struct.Struct("=i")
"""A child's word: the place of the event that it begins; after the last one, how many there were."""

_REAP_S = 0.5
_PR_SET_PDEATHSIG = 1


class Case(msgspec.Struct, array_like=True):
    state: dict[str, Any]
    events: list[Event]
    budget_ms: int


def serve(app: App, control: int) -> NoReturn:
    """Obeys until the link is gone."""
    try:
        # Whoever ends the link by a signal to all of its processes still wants the events judged until it is gone.
        _leave_everything(control, signal.SIG_IGN)
        gc.freeze()
        _Host(app, socket.socket(fileno=3)).run()
    finally:
        os._exit(0)


class _Host:
    def __init__(self, app: App, control: socket.socket) -> None:
        self._app = app
        self._control = control
        self._children: dict[int, int] = {}
        self._libc = ctypes.CDLL(None) if sys.platform == "linux" else None

    def run(self) -> None:
        while True:
            ready, _, _ = select.select([self._control], [], [], _REAP_S if self._children else None)
            self._reap()
            if not ready:
                continue
            text, descriptors, _, _ = socket.recv_fds(self._control, ORDER.size, 2)
            if not text:
                break
            kind, number = ORDER.unpack(text)
            if kind == TRY:
                self._try(number, *descriptors)
            elif number in self._children:
                os.kill(self._children[number], signal.SIGKILL)
        for pid in self._children.values():
            os.kill(pid, signal.SIGKILL)

    def _reap(self) -> None:
        for number, pid in list(self._children.items()):
            if os.waitpid(pid, os.WNOHANG)[0]:
                del self._children[number]

    def _try(self, number: int, case: int, pipe: int) -> None:
        with contextlib.suppress(OSError):
            pid = os.fork()
            if pid == 0:
                self._live(case, pipe)
            self._children[number] = pid
        os.close(case)
        os.close(pipe)

    # Only the child runs what follows.

    def _live(self, case: int, pipe: int) -> NoReturn:
        try:
            if self._libc is not None:
                self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            text = os.pread(case, os.fstat(case).st_size, 0)
            _leave_everything(pipe, signal.SIG_DFL)
            _compute(self._app, msgspec.json.decode(text, type=Case), 3)
        finally:
            os._exit(0)


def _leave_everything(kept: int, on_signal: signal.Handlers) -> None:
    """Cuts every tie to the parent but one descriptor, which is 3 from now on."""
    signal.set_wakeup_fd(-1)
    faulthandler.disable()
    ended_by = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in signal.valid_signals():
        # Those that cannot be caught cannot be reset either.
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, on_signal if number in ended_by else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    nowhere = os.open(os.devnull, os.O_RDWR)
    # The one that is kept may be where another goes.
    kept = os.dup(kept)
    os.dup2(kept, 3)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    os.closerange(4, os.sysconf("SC_OPEN_MAX"))


def _compute(app: App, case: Case, pipe: int) -> None:
    def on_attempt(at: int) -> None:
        os.write(pipe, AT.pack(at))
        signal.setitimer(signal.ITIMER_PROF, case.budget_ms / 1000)

    rehearse(app, case.state, case.events, on_attempt)
    signal.setitimer(signal.ITIMER_PROF, 0)
    os.write(pipe, AT.pack(len(case.events)))


if __name__ == "__main__":
    serve(load_app(sys.argv[1]), int(sys.argv[2]))
