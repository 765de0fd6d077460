"""A speaker as a real process, beside a register on this loop."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec

from octoloom.core.roster import name_of
from octoloom.runtime.group_lives import Ended, Heard, Line, Moved
from octoloom.runtime.group_speaker import EXPELLED, Speaking, read_lines
from octoloom.runtime.processes import Child, parse_ready
from tests.runtime.group_rooms import Listener, Rooms, group, run
from tests.waiting import PATIENCE_S
from tests.waiting import async_until as until

MODULE = "octoloom.runtime.group_speaker"


async def loaded(rooms: Rooms, folder: Path, **options: object) -> tuple[Child, Path]:
    file = folder / "eve.lines"
    common = {"group": "room", "name": "eve", "register": rooms.server.address, "file": str(file), "count": 20}
    speaking = msgspec.convert({**common, **options}, Speaking)
    text = msgspec.json.encode(speaking).decode()
    return await Child.start("eve", [text], folder / "eve.log", module=MODULE), file


async def answer(child: Child) -> dict[str, str]:
    return parse_ready(await child.read_line())


def test_it_sends_in_order_and_writes_down_what_it_is_handed(tmp_path: Path) -> None:
    async def story() -> tuple[int, list[Line], list[object]]:
        async with group(order="total") as rooms:
            ada = await rooms.join("ada")
            heard = Listener(ada)
            eve, file = await loaded(rooms, tmp_path)
            eve.write_line("join")
            member = (await answer(eve))["member"]
            await until(lambda: ada.members == ["ada", "eve"])
            await ada.to_others(["ada#1", 1, {}])
            bob = await rooms.join("bob")
            eve.write_line("send")
            eve.write_line("stop")
            sent = int((await answer(eve))["sent"])
            await until(lambda: len(heard.bodies) == sent + 1)
            await until(lambda: len(read_lines(file.read_bytes())) == sent + 2)
            assert bob.members == ["ada", "eve", "bob"]
            eve.write_line("nonsense")
            assert eve._process.stdin is not None
            eve._process.stdin.close()
            assert heard.bodies[1:] == [[member, number, {}] for number in range(1, sent + 1)]
            assert name_of(member) == "eve"
            return await eve.wait(), read_lines(file.read_bytes()), heard.bodies

    code, lines, bodies = run(story)
    assert code == 0
    assert [[line.sender, line.number, line.seen] for line in lines if isinstance(line, Heard)] == bodies
    assert isinstance(lines[1], Moved)
    assert (lines[1].word, lines[1].name, lines[1].names) == ("join", "bob", ["ada", "eve", "bob"])
    assert len(bodies) >= 21


def test_in_causal_order_it_says_what_it_has_seen(tmp_path: Path) -> None:
    async def story() -> list[object]:
        async with group(order="causal") as rooms:
            ada = await rooms.join("ada")
            heard = Listener(ada)
            eve, file = await loaded(rooms, tmp_path, order="causal", count=1, burst=1)
            eve.write_line("join")
            await answer(eve)
            await until(lambda: ada.members == ["ada", "eve"])
            await ada.to_others(["ada#1", 1, {}])
            await until(lambda: len(read_lines(file.read_bytes())) == 1)
            eve.write_line("send")
            eve.write_line("stop")
            await answer(eve)
            await until(lambda: len(heard.bodies) >= 1)
            await eve.stop(0)
            return [seen for _, _, seen in heard.bodies]

    assert run(story)[0] == {"ada#1": 1}


def test_one_that_the_group_goes_on_without_says_so(tmp_path: Path) -> None:
    async def story() -> tuple[int, list[Line]]:
        async with group(order="total") as rooms:
            await rooms.join("ada")
            eve, file = await loaded(rooms, tmp_path)
            eve.write_line("join")
            await answer(eve)
            await rooms.join("eve")
            return await eve.wait(), read_lines(file.read_bytes())

    code, lines = run(story)
    assert code == EXPELLED
    assert isinstance(lines[-1], Ended)
    assert lines[-1].sent == 0
    assert "join again" in lines[-1].why


def test_a_line_that_it_died_in_is_left_out() -> None:
    whole = msgspec.json.encode(Heard(1.0, "ada#1", 1)) + b"\n"
    assert read_lines(whole + whole[:-5]) == [Heard(1.0, "ada#1", 1)]
    assert read_lines(whole[:-5]) == []


def test_without_words_to_say_it_says_who_starts_it() -> None:
    done = subprocess.run(
        [sys.executable, "-m", MODULE], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode != 0
    assert "`octoloom demo`" in done.stderr
