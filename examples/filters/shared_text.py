"""A text that many write in at once: a pair of filters that transforms every edit to the text that it arrives in.

    room = Group.join("notes", name="ada", order="causal", filters=["shared-text"], …)
    await room.to_others({"at": 5, "delete": 0, "insert": "!"})
    async for message in room: …      # message.body is such an edit again, for the text as it is here

An app says and hears positions only. But position 5 of the one is not position 5 of the other, who has typed meanwhile.
So on its way out an edit is turned into names: each character has one, (clock, member), that never changes, and a
character goes behind the one that its author saw on its left. On its way in it is turned into the positions that
these characters have here by now. What one edit says may come out as no edit (both deleted the same), or as several.

Why all end with the same text: the characters, the deleted ones among them, form one sequence. A new one is put behind
its left neighbour, and further right past those with a greater name. Whoever typed at the same place without knowing of
each other is thereby put in the sequence of their names, greatest first, at every member, whatever comes first (this is
the rule of RGA, the replicated growable array). The clock of a new name is above all that its author has seen, so a
character that comes behind another stands before what its author saw there. It takes causal order below it: then the
left neighbour is always here already, and a deleted character too.

The positions of an edit are of the text with all that was handed on before: an app first applies what it has received.
Who joins later has no text, and edits of characters that it never saw are refused: all are there from the beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from octoloom.core.errors import ProtocolError, UsageError
from octoloom.core.filters import MessageFilters, ReceivedMessage, SentMessage, message_filters

CHARACTERS_MAX = 4_000_000
"""How many characters a text may have in its life. Deleted ones count: somebody may still type behind them."""
BLOCK_MAX = 512
"""The sequence is kept in blocks, since to insert in a long list and to count in it takes long."""

Name = tuple[int, str]
"""(clock, member)"""


class Block:
    """A part of the sequence. A character that is deleted stays, as dead."""

    __slots__ = ("alive", "living", "names")

    def __init__(self, names: list[Name], alive: bytearray) -> None:
        self.names = names
        self.alive = alive
        self.living = sum(alive)


class Sequence:
    """All characters that there ever were, by name and by position. What they look like it need not know."""

    def __init__(self) -> None:
        self._blocks = [Block([], bytearray())]
        self._block_of: dict[Name, Block] = {}

    def __len__(self) -> int:
        return len(self._block_of)

    def __contains__(self, name: Name) -> bool:
        return name in self._block_of

    @property
    def living(self) -> int:
        return sum(block.living for block in self._blocks)

    def named(self, position: int, count: int) -> list[Name]:
        """The names of the `count` living characters from `position` on."""
        names: list[Name] = []
        for block in self._blocks:
            if position < block.living and len(names) < count:
                living = [name for name, alive in zip(block.names, block.alive, strict=True) if alive]
                names += living[position : position + count - len(names)]
            position = max(0, position - block.living)
        return names

    def insert(self, after: Name | None, new: list[Name]) -> int:
        """Put characters with consecutive names behind `after` (None: at the beginning). Answers their position."""
        block = self._block_of[after] if after else self._blocks[0]
        index = block.names.index(after) + 1 if after else 0
        place = self._blocks.index(block)
        while True:
            if index == len(block.names) and place + 1 < len(self._blocks):
                block, place, index = self._blocks[place + 1], place + 1, 0
            elif index < len(block.names) and block.names[index] > new[0]:
                index += 1
            else:
                break
        position = self._position(block, index)
        block.names[index:index] = new
        block.alive[index:index] = b"\1" * len(new)
        block.living += len(new)
        self._block_of.update(dict.fromkeys(new, block))
        if len(block.names) > BLOCK_MAX:
            self._split(place)
        return position

    def delete(self, name: Name) -> int | None:
        """Answers the position that the character had, None if it was dead already."""
        block = self._block_of[name]
        index = block.names.index(name)
        if not block.alive[index]:
            return None
        block.alive[index] = False
        block.living -= 1
        return self._position(block, index)

    def _position(self, block: Block, index: int) -> int:
        position = sum(block.alive[:index])
        for each in self._blocks:
            if each is block:
                break
            position += each.living
        return position

    def _split(self, place: int) -> None:
        whole = self._blocks[place]
        size = BLOCK_MAX // 2
        starts = range(0, len(whole.names), size)
        parts = [Block(whole.names[start : start + size], whole.alive[start : start + size]) for start in starts]
        self._blocks[place : place + 1] = parts
        for part in parts:
            self._block_of.update(dict.fromkeys(part.names, part))


def runs(names: list[Name]) -> list[tuple[int, str, int]]:
    """Neighbours that were typed in one go take no more room than one: (clock, member, count)."""
    found: list[tuple[int, str, int]] = []
    for clock, member in names:
        first, last_member, count = found[-1] if found else (0, "", 0)
        if member == last_member and clock == first + count:
            found[-1] = first, member, count + 1
        else:
            found.append((clock, member, 1))
    return found


class Edit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an app says and hears."""

    at: int
    delete: int = 0
    insert: str = ""


class NamedEdit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What travels. The new characters are named (clock, sender), (clock + 1, sender) and so on."""

    behind: Name | None
    clock: int
    insert: str
    delete: list[tuple[int, str, int]]


def deleted_by(named: NamedEdit) -> list[Name]:
    return [(first + offset, member) for first, member, count in named.delete for offset in range(count)]


class Outgoing:
    """Positions become names."""

    def __init__(self, text: SharedText) -> None:
        self._text = text
        self.processor: Callable[[SentMessage], None] = print

    def filter(self, message: SentMessage) -> None:
        body = message.body
        if isinstance(body, dict) and "at" in body:
            try:
                edit = msgspec.convert(body, Edit)
            except msgspec.ValidationError as error:
                raise UsageError(f"an edit is at, delete and insert: {error}") from None
            message = SentMessage(msgspec.to_builtins(self._text.name(edit)))
        self.processor(message)


class Incoming:
    """Names become positions again."""

    def __init__(self, text: SharedText) -> None:
        self._text = text
        self.processor: Callable[[ReceivedMessage], None] = print

    def filter(self, message: ReceivedMessage) -> None:
        body = message.body
        if not isinstance(body, dict) or "behind" not in body:
            self.processor(message)
            return
        try:
            named = msgspec.convert(body, NamedEdit)
        except msgspec.ValidationError as error:
            raise ProtocolError("bad-edit", str(error)) from None
        # One by one, so that an app which answers an edit at once answers in the text that it has by then.
        for edit in self._text.place(message.sender, named):
            self.processor(replace(message, body=msgspec.to_builtins(edit)))


class SharedText:
    """What the two filters of a member share."""

    def __init__(self, me: str) -> None:
        self._me = me
        self._clock = 0
        self._sequence = Sequence()

    def name(self, edit: Edit) -> NamedEdit:
        """An edit of one's own: the same in names."""
        sequence, at = self._sequence, edit.at
        if at < 0 or edit.delete < 0 or at + edit.delete > sequence.living:
            raise UsageError(f"there are no {edit.delete} characters at {at}: the text has {sequence.living}")
        self._check_room(edit.insert)
        left = sequence.named(at - 1, 1)[0] if at else None
        deleted = sequence.named(at, edit.delete)
        named = NamedEdit(left, self._clock + 1, edit.insert, runs(deleted))
        for name in deleted:
            sequence.delete(name)
        if edit.insert:
            sequence.insert(left, self._names(self._me, named))
        return named

    def place(self, sender: str, named: NamedEdit) -> Iterator[Edit]:
        """An edit of another member: the same for the text as it is here."""
        self._check(sender, named)
        yield from self._delete(deleted_by(named))
        if named.insert:
            yield Edit(self._sequence.insert(named.behind, self._names(sender, named)), insert=named.insert)

    def _names(self, member: str, named: NamedEdit) -> list[Name]:
        names = [(named.clock + offset, member) for offset in range(len(named.insert))]
        self._clock = max(self._clock, names[-1][0])
        return names

    def _delete(self, names: list[Name]) -> Iterator[Edit]:
        """Neighbours go in one edit."""
        at, count = 0, 0
        for position in map(self._sequence.delete, names):
            if position is None:
                continue
            if count and position != at:
                yield Edit(at, count)
                count = 0
            at, count = position, count + 1
        if count:
            yield Edit(at, count)

    def _check(self, sender: str, named: NamedEdit) -> None:
        """Refuse before anything changes what cannot be."""
        self._check_room(named.insert)
        if any(not 0 < count <= len(self._sequence) for _, _, count in named.delete):
            raise ProtocolError("bad-edit", f"{sender} deletes more or less than there is")
        for name in deleted_by(named) + ([named.behind] if named.behind else []):
            if name not in self._sequence:
                raise ProtocolError("no-such-character", f"{name} is not here: a shared text needs causal order")
        if named.clock <= (named.behind[0] if named.behind else 0) or (named.clock, sender) in self._sequence:
            raise ProtocolError("bad-edit", f"{sender} cannot give a new character the name {named.clock}")

    def _check_room(self, insert: str) -> None:
        if len(self._sequence) + len(insert) > CHARACTERS_MAX:
            raise UsageError(f"a text has at most {CHARACTERS_MAX:,} characters in its life: begin a new one")


def shared_text(member: str) -> MessageFilters:
    """The pair for a member."""
    text = SharedText(member)
    return MessageFilters(Outgoing(text), Incoming(text))


def applied(text: str, edit: dict[str, Any]) -> str:
    """What an app does with an edit."""
    at, end, insert = edit["at"], edit["at"] + edit["delete"], str(edit["insert"])
    return text[:at] + insert + text[end:]


message_filters.add("shared-text", shared_text)
