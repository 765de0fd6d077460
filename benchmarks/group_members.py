"""Members of a group as processes, and the runs that are driven through them: the same for every kind of group.

A member is a process that joins its group and then obeys lines of JSON on its standard input. It ends when its input
does, so none outlives its driver. Lines that are not JSON objects are the library's own words, and are passed over.

  it says            when
  joined             it is in the group
  failed, why        it could not do what it was told

  told to            answers
  view               view, members: their names (m0, m1, …), the coordinator first
  expect, run        expecting: from now on it notes what is delivered of this run, and forgets all before
  send, size, and    sent, count, ended_ns, once the sending has ended
    count | millis     so many, or for so long; and, if given,
    period_us          one at each time (open loop: what is late is sent at once)
    one_at_a_time      each once the one before has been delivered here
  progress           progress, count, ended_ns: how many it has sent by now, and when now is
  wait, total,       waited, count: as soon as so many were delivered, or the time is over
    millis
  write, file        written: the notes, as `group_deliveries` reads them

Bodies begin with the header of `group_case`.
"""

from __future__ import annotations

import contextlib
import queue
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

import group_deliveries
from group_case import DRAIN_S_MAX, Failover, FailoverCase, GroupCase, GroupError, Latency, Throughput
from group_deliveries import Deliveries

JOIN_S_MAX = 60.0
ANSWER_S_MAX = 30.0
STOP_S_MAX = 5.0
VIEW_PAUSE_S = 0.05
SAID_MAX = 10_000


class Member:
    """One process. What it says is read by a thread, so that every wait has an end."""

    def __init__(self, name: str, command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None):
        self.name = name
        self._log = folder / f"{name}.log"
        with self._log.open("w") as log:
            self._child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True,
                env=environment,
            )  # fmt: skip
        self._said: queue.Queue[dict[str, Any] | None] = queue.Queue(SAID_MAX)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            if line.startswith("{"):
                self._said.put(msgspec.json.decode(line))
        self._said.put(None)

    def tell(self, do: str, **fields: int | str) -> None:
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(msgspec.json.encode({"do": do, **fields}).decode() + "\n")
            self._child.stdin.flush()
        except BrokenPipeError as error:
            raise GroupError(f"{self.name} has ended: {self._last_words()}") from error

    def answer(self, kind: str, timeout_s: float = ANSWER_S_MAX) -> dict[str, Any]:
        """The next answer of a kind; others are passed over."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                said = self._said.get(timeout=max(deadline - time.monotonic(), 0.001))
            except queue.Empty:
                raise GroupError(f"{self.name} did not say '{kind}' within {timeout_s:.0f} s") from None
            if said is None:
                raise GroupError(f"{self.name} has ended: {self._last_words()}")
            if said["said"] == "failed":
                raise GroupError(f"{self.name} failed: {said['why']}")
            if said["said"] == kind:
                return said

    def ask(self, do: str, kind: str, timeout_s: float = ANSWER_S_MAX, **fields: int | str) -> dict[str, Any]:
        self.tell(do, **fields)
        return self.answer(kind, timeout_s)

    def _last_words(self) -> str:
        return self._log.read_text(errors="replace").strip()[-500:] or "it said nothing"

    def kill(self) -> None:
        self._child.kill()

    def close(self) -> None:
        """Closes its input, on which it ends; what does not end is killed."""
        assert self._child.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._child.stdin.close()
        try:
            self._child.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait(STOP_S_MAX)


class Members:
    """A running group."""

    def __init__(self, folder: Path, drain_s_max: float = DRAIN_S_MAX) -> None:
        self._folder = folder
        self._drain_s_max = drain_s_max
        self._all: list[Member] = []
        self._runs = 0
        folder.mkdir(parents=True, exist_ok=True)

    def join(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Starts one more member, and waits until it has joined: the first one is to be the coordinator."""
        member = Member(f"m{len(self._all)}", command, self._folder, environment)
        self._all.append(member)
        member.answer("joined", JOIN_S_MAX)

    def until_whole(self) -> None:
        expected = [member.name for member in self._all]
        deadline = time.monotonic() + JOIN_S_MAX
        while True:
            views = [member.ask("view", "view")["members"] for member in self._all]
            if all(view == expected for view in views):
                return
            if time.monotonic() > deadline:
                raise GroupError(f"the members do not all see {expected} after {JOIN_S_MAX:.0f} s, but {views}")
            time.sleep(VIEW_PAUSE_S)

    def throughput(self, case: GroupCase) -> Throughput:
        return group_deliveries.throughput(*self._run(case, one_at_a_time=0))

    def latency(self, case: GroupCase) -> Latency:
        return group_deliveries.latency(*self._run(case, one_at_a_time=1))

    def _run(self, case: GroupCase, one_at_a_time: int) -> tuple[list[Deliveries], dict[int, int]]:
        """What all members were delivered, and how many messages each sender has sent."""
        self._expect()
        # The coordinator does not send.
        senders = dict(enumerate(self._all[1 : case.senders + 1], 1))
        how = {"size": case.size, "count": case.count, "millis": round(case.seconds * 1000)}
        for member in senders.values():
            member.tell("send", one_at_a_time=one_at_a_time, **how)
        longest = case.seconds + ANSWER_S_MAX
        sent = {number: int(member.answer("sent", longest)["count"]) for number, member in senders.items()}
        return self._collect(self._all, sum(sent.values()), self._drain_s_max), sent

    def failover(self, case: FailoverCase) -> Failover:
        self._expect()
        coordinator, *survivors = self._all
        senders = dict(enumerate(survivors[: case.senders], 1))
        for member in senders.values():
            member.tell("send", size=case.size, count=case.count, period_us=1_000_000 // case.per_second)
        time.sleep(case.before_s)
        # A child that has not been waited for: its number is still its own.
        coordinator.kill()
        killed_ns = time.monotonic_ns()
        sent, ends, stuck = {}, [], 0
        deadline = time.monotonic() + case.after_s + case.stuck_s_max
        for number, member in senders.items():
            try:
                said = member.answer("sent", deadline - time.monotonic())
            except GroupError:
                said = member.ask("progress", "progress")
                stuck += 1
            sent[number] = int(said["count"])
            ends.append(int(said["ended_ns"]))
        found = self._collect(survivors, sum(sent.values()), case.drain_s_max)
        return group_deliveries.failover(found, sent, killed_ns, max(ends), stuck)

    def _expect(self) -> None:
        self._runs += 1
        for member in self._all:
            member.ask("expect", "expecting", run=self._runs)

    def _collect(self, members: Sequence[Member], total: int, timeout_s: float) -> list[Deliveries]:
        for member in members:
            member.tell("wait", total=total, millis=int(timeout_s * 1000))
        for member in members:
            member.answer("waited", timeout_s + ANSWER_S_MAX)
        found = []
        for member in members:
            file = self._folder / f"{member.name}.deliveries"
            member.ask("write", "written", file=str(file))
            found.append(Deliveries.read(file))
            file.unlink()
        return found

    def close(self) -> None:
        for member in reversed(self._all):
            member.close()
        self._all.clear()


class DrivenGroup:
    """A group whose members obey the lines above. What differs between groups is how a member is started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.members = Members(folder)
        self.starts = 0

    def throughput(self, case: GroupCase) -> Throughput:
        return self.members.throughput(case)

    def latency(self, case: GroupCase) -> Latency:
        return self.members.latency(case)

    def failover(self, case: FailoverCase) -> Failover:
        return self.members.failover(case)

    def close(self) -> None:
        self.members.close()
