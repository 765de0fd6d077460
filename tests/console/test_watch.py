"""One picture for all who look, none while nobody does, and never a queue."""

from __future__ import annotations

import asyncio
import json

import msgspec
import pytest

from octoloom.console.picture import Picture
from octoloom.console.watch import NEWS_KEPT, Frame, TooManyViewers, Watch
from tests.console.scenes import WHOLE, later, link

EVERY_S = 0.01


class Scene:
    """A gatherer that counts, and shows what it is told to."""

    def __init__(self) -> None:
        self.made = self.idle = 0
        self.picture = WHOLE
        self.broken = False

    async def gather(self) -> Picture:
        self.made += 1
        if self.broken:
            raise RuntimeError("on purpose")
        await asyncio.sleep(0)
        return msgspec.structs.replace(self.picture, number=self.made)

    async def close(self) -> None:
        self.idle += 1

    def watch(self, viewers_max: int = 3) -> Watch:
        return Watch(self.gather, self.close, EVERY_S, viewers_max)


async def until(condition: object) -> None:
    assert callable(condition)
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(EVERY_S / 2)


async def some_frames(watch: Watch, count: int) -> list[Frame]:
    found: list[Frame] = []
    watch.enter()
    try:
        async for frame in watch.frames(5):
            assert frame is not None
            found.append(frame)
            if len(found) == count:
                break
    finally:
        watch.leave()
    return found


def test_viewers_share_pictures_and_none_is_made_for_nobody() -> None:
    async def story() -> None:
        scene = Scene()
        watch = scene.watch()
        await asyncio.sleep(5 * EVERY_S)
        assert scene.made == 0
        mine, yours = await asyncio.gather(some_frames(watch, 5), some_frames(watch, 5))
        assert [frame.number for frame in mine] == [frame.number for frame in yours] == [1, 2, 3, 4, 5]
        assert all(mine[at] is yours[at] for at in range(5))
        await until(lambda: scene.idle == 1)
        made = scene.made
        await asyncio.sleep(5 * EVERY_S)
        assert scene.made == made
        # Who comes later begins it again.
        await some_frames(watch, 2)
        await watch.stop()

    asyncio.run(story())


def test_who_is_slow_gets_the_newest() -> None:
    async def story() -> None:
        scene = Scene()
        watch = scene.watch()
        watch.enter()
        frames = watch.frames(5)
        first = await anext(frames)
        await until(lambda: scene.made > 6)
        second = await anext(frames)
        assert first is not None
        assert second is not None
        assert first.number == 1
        assert second.number >= 6
        await watch.stop()
        assert [frame async for frame in frames] == []

    asyncio.run(story())


def test_viewers_are_bounded_and_a_seat_is_free_again() -> None:
    async def story() -> None:
        watch = Scene().watch(viewers_max=2)
        watch.enter()
        watch.enter()
        with pytest.raises(TooManyViewers, match="2 look at this console already"):
            watch.enter()
        watch.leave()
        watch.enter()
        await watch.stop()

    asyncio.run(story())


def test_once_makes_one_picture_for_all_who_ask_in_the_same_second() -> None:
    async def story() -> None:
        scene = Scene()
        watch = scene.watch()
        frames = await asyncio.gather(*(watch.once() for _ in range(10)))
        assert scene.made == 1
        assert len(set(map(id, frames))) == 1

    asyncio.run(story())


def test_news_is_found_kept_and_bounded() -> None:
    async def story() -> None:
        scene = Scene()
        watch = scene.watch()
        await some_frames(watch, 1)
        scene.picture = later(links=[link(1), link(2, "silent"), link(3)])
        frames = await some_frames(watch, 3)
        assert [news["text"] for news in json.loads(frames[-1].news)] == ["link2 does not answer"]
        for number in range(2 * NEWS_KEPT):
            watch.tell(f"line {number}")
        texts = [news["text"] for news in json.loads(watch.news)]
        assert texts == [f"line {number}" for number in reversed(range(NEWS_KEPT, 2 * NEWS_KEPT))]
        await watch.stop()

    asyncio.run(story())


def test_what_the_cluster_tells_itself_is_not_told_twice() -> None:
    async def story() -> None:
        scene = Scene()
        watch = scene.watch()
        watch.tell("link1 ended by SIGKILL, and is started again")
        await some_frames(watch, 1)
        scene.picture = later(links=[link(1, "down"), link(2, "silent"), link(3)])
        frames = await some_frames(watch, 3)
        texts = [news["text"] for news in json.loads(frames[-1].news)]
        assert texts == ["link2 does not answer", "link1 ended by SIGKILL, and is started again"]
        await watch.stop()

    asyncio.run(story())


def test_a_picture_that_cannot_be_made_is_said_by_silence(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        scene = Scene()
        scene.broken = True
        watch = scene.watch()
        watch.enter()
        frames = watch.frames(10 * EVERY_S)
        assert await anext(frames) is None
        scene.broken = False
        assert await anext(frames) is not None
        await watch.stop()

    asyncio.run(story())
    assert "no picture could be made" in caplog.text
