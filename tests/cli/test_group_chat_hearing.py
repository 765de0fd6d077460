"""What is known of a message when it is read: the view it belongs to, and how long it was held back."""

from __future__ import annotations

from octoloom.cli.group_chat_hearing import Arrival, Hearing
from octoloom.core.steps import BUFFERED, DELIVERED, SENT, UNBUFFERED, VIEW, Step


class Heard:
    def __init__(self) -> None:
        self.sent: list[int] = []
        self.views: list[tuple[int, str]] = []
        self.held: list[int] = []
        self.hearing = Hearing(
            self.sent.append,
            lambda epoch, order: self.views.append((epoch, order)),
            lambda: self.held.append(self.hearing.held),
        )

    def hear(
        self, name: str, sender: str = "", number: int = 0, at_ms: int = 0, epoch: int = 1, text: str = ""
    ) -> None:
        self.hearing.on_step(Step(name, "cathy#1", sender, number, epoch=epoch, at_ms=at_ms, text=text))


def test_an_answer_is_held_until_its_question_is_there() -> None:
    heard = Heard()
    heard.hear(BUFFERED, "bob#1", 7, at_ms=1000)
    heard.hear(BUFFERED, "bob#1", 7, at_ms=1500)  # for lack of something else
    heard.hear(DELIVERED, "ada#1", 3, at_ms=2200)
    heard.hear(UNBUFFERED, "bob#1", 7, at_ms=2200)
    heard.hear(DELIVERED, "bob#1", 7, at_ms=2200)
    assert heard.held == [1, 1, 0]
    assert heard.hearing.of("ada", 3) == Arrival(1)
    assert heard.hearing.of("bob", 2) == Arrival(1, held_ms=1200)


def test_messages_of_one_bundle_came_as_one() -> None:
    heard = Heard()
    heard.hear(BUFFERED, "bob#1", 1, at_ms=10)
    heard.hear(DELIVERED, "bob#1", 1, at_ms=30)
    heard.hear(DELIVERED, "bob#1", 2, at_ms=31, epoch=2)
    arrivals = [heard.hearing.of("bob", number) for number in (1, 1, 2, 2, 3)]
    assert arrivals == [Arrival(1, 20), Arrival(1, 20), Arrival(2), Arrival(2), Arrival()]


def test_what_passes_by_the_order_is_not_asked_about() -> None:
    heard = Heard()
    heard.hear(DELIVERED, "bob#1", 1, epoch=4)
    assert heard.hearing.of("bob", 0) == Arrival()
    assert heard.hearing.of("bob", 1) == Arrival(4)


def test_who_comes_back_begins_at_the_first_bundle() -> None:
    heard = Heard()
    heard.hear(DELIVERED, "bob#1", 1, epoch=1)
    heard.hear(DELIVERED, "bob#2", 1, epoch=2)
    assert heard.hearing.of("bob", 1) == Arrival(1)
    heard.hearing.forget("bob")
    assert heard.hearing.of("bob", 1) == Arrival(2)


def test_a_view_lets_go_of_what_was_held() -> None:
    heard = Heard()
    heard.hear(BUFFERED, "bob#1", 1)
    heard.hear(VIEW, epoch=2, text="total")
    heard.hear(SENT, "cathy#1", 1, epoch=2)
    assert (heard.held, heard.views, heard.sent) == ([1, 0], [(2, "total")], [2])
