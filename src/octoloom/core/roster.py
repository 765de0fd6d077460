"""Which links (brokers, members of groups) are there: incarnations, leases, graces. The register's sense of who lives.

A link is in one of three conditions:

- *present*: connected, and heard within `lease_ms`;
- *absent*: its connection closed (or the register itself restarted) and its grace has not run out yet. It is neither
  counted on nor given up;
- *dead*: its grace or its lease ran out, or a newer incarnation of its name enlisted.

A dead link comes back by enlisting again, unless it was superseded. Invariants:

1. of each name, at most the newest known incarnation is not dead;
2. a dead link is remembered as long as a view names it, and so is the newest incarnation of every name in a view:
   it is the proof that the older one is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Address = TypeVar("Address")
NAME_MAX = 100


@dataclass(slots=True)
class Member(Generic[Address]):
    """What the register knows about one link or broker. Times are absolute, in ms."""

    address: Address
    connected: bool
    expires_at: int
    dead: bool = False
    leaving: bool = False
    barred_until: int = 0


def name_of(link: str) -> str:
    return link.rpartition("#")[0]


def incarnation_of(link: str) -> int:
    """The number behind the name, or -1 if `link` is not ``name#incarnation``."""
    name, _, number = link.rpartition("#")
    good = 0 < len(name) <= NAME_MAX and "\0" not in name and number.isascii() and number.isdigit() and len(number) < 20
    return int(number) if good else -1


class Roster(Generic[Address]):
    def __init__(self, lease_ms: int, closed_grace_ms: int, links_max: int) -> None:
        self._lease_ms = lease_ms
        self._closed_grace_ms = closed_grace_ms
        self._links_max = links_max
        self._members: dict[str, Member[Address]] = {}
        self._newest: dict[str, str] = {}

    def restore(self, now: int, addresses: dict[str, Address]) -> None:
        """After a restart everybody known has a fresh lease to come back in."""
        for link, address in addresses.items():
            self._members[link] = Member(address, connected=False, expires_at=now + self._lease_ms)
            self._newest[name_of(link)] = max(link, self._newest.get(name_of(link), link), key=incarnation_of)
        for link, member in self._members.items():
            member.dead = self._newest[name_of(link)] != link

    # Questions.

    def present(self, link: str) -> bool:
        member = self._members.get(link)
        return member is not None and member.connected

    def dead(self, link: str) -> bool:
        member = self._members.get(link)
        return member is None or member.dead

    def leaving(self, link: str) -> bool:
        member = self._members.get(link)
        return member is not None and member.leaving

    def superseded(self, link: str) -> bool:
        newest = self._newest.get(name_of(link), link)
        return incarnation_of(newest) > incarnation_of(link)

    def barred(self, link: str, now: int) -> bool:
        member = self._members.get(link)
        return member is not None and member.barred_until > now

    def candidates(self) -> list[str]:
        """Those who may be given a place in a chain, in a fixed order."""
        return sorted(link for link, member in self._members.items() if member.connected and not member.leaving)

    def addresses(self) -> dict[str, Address]:
        return {link: self._members[link].address for link in sorted(self._members)}

    def successor(self, link: str) -> str:
        """The newest known incarnation of this one's name, if it is present."""
        newest = self._newest.get(name_of(link), link)
        return newest if self.present(newest) else ""

    def refusal(self, link: str) -> tuple[str, str] | None:
        """Why this link may not enlist."""
        if incarnation_of(link) < 0:
            return "bad-link", f"a link is called name#incarnation, its name at most {NAME_MAX} characters long"
        if self.superseded(link):
            return "outdated", f"{self._newest[name_of(link)]} has taken the place of {link}"
        if name_of(link) not in self._newest and len(self._members) >= self._links_max:
            return "full", f"the register knows {self._links_max} links already"
        return None

    # Changes.

    def enlist(self, now: int, link: str, address: Address) -> str:
        """Welcomes a link, new or back. Answers the older incarnation that it supersedes, if one was not dead yet."""
        name = name_of(link)
        member = self._members.setdefault(link, Member(address, connected=True, expires_at=0))
        member.address, member.connected, member.dead = address, True, False
        member.expires_at = now + self._lease_ms
        older = self._newest.get(name, link)
        self._newest[name] = link
        return older if older != link and self.give_up(older) else ""

    def hear(self, now: int, link: str) -> bool:
        """The link said something: its lease begins anew. False if it has to enlist first."""
        member = self._members.get(link)
        if member is None or not member.connected:
            return False
        member.expires_at = now + self._lease_ms
        return True

    def close(self, now: int, link: str) -> None:
        member = self._members.get(link)
        if member is not None and member.connected:
            self._make_absent(now, member)

    def expect(self, now: int, link: str) -> None:
        """Gives a dead link a last chance to come back, since one that was lost together with it did."""
        member = self._members.get(link)
        if member is not None and member.dead and not self.superseded(link):
            self._make_absent(now, member)

    def leave(self, link: str) -> None:
        self._members[link].leaving = True

    def bar(self, link: str, until: int) -> None:
        """Keeps a link from being given a place for a while, so that others get their turn."""
        if link in self._members:
            self._members[link].barred_until = until

    def expire(self, now: int) -> list[str]:
        """Gives up everybody whose time has run out; answers those who were still connected."""
        late = [link for link, member in self._members.items() if not member.dead and member.expires_at <= now]
        lapsed = [link for link in late if self._members[link].connected]
        for link in late:
            self.give_up(link)
        return lapsed

    def give_up(self, link: str) -> bool:
        """True if the link was not dead before."""
        member = self._members.get(link)
        if member is None or member.dead:
            return False
        member.connected, member.dead = False, True
        return True

    def delay(self, late_ms: int) -> None:
        for member in self._members.values():
            member.expires_at += late_ms
            member.barred_until += late_ms

    def forget(self, named: Sequence[str]) -> None:
        """Drops the dead that no view counts on any more (invariant 2)."""
        kept = frozenset(named) | frozenset(self._newest.get(name_of(link), link) for link in named)
        for link in [link for link, member in self._members.items() if member.dead and link not in kept]:
            del self._members[link]
            if self._newest[name_of(link)] == link:
                del self._newest[name_of(link)]

    def deadline(self, now: int) -> int | None:
        """The next time at which somebody's condition may change; None while there is nobody to wait for."""
        times = [member.expires_at for member in self._members.values() if not member.dead]
        times += [member.barred_until for member in self._members.values() if member.barred_until > now]
        return min(times, default=None)

    def _make_absent(self, now: int, member: Member[Address]) -> None:
        member.connected, member.dead = False, False
        member.expires_at = now + self._closed_grace_ms
