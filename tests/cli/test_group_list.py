"""`octoloom group list`, beside a register and members on real sockets."""

from __future__ import annotations

import asyncio
import json

import pytest
from click.testing import CliRunner, Result

from octoloom import Group
from octoloom.cli import octoloom
from tests.runtime.group_rooms import group, run


async def listed(register: str, *options: str) -> Result:
    return await asyncio.to_thread(
        CliRunner().invoke, octoloom, ["group", "list", "--register", register, *options], catch_exceptions=False
    )


def test_groups_are_shown_with_their_members_oldest_first() -> None:
    async def story() -> None:
        async with group(order="total") as rooms:
            register = rooms.server.address
            empty = await listed(register)
            assert empty.output == "no groups: make one with `octoloom group chat ROOM --as NAME`\n"
            assert json.loads((await listed(register, "--json")).output) == []
            ada, _, _ = await rooms.join_all("zoe", "ada", "bob")
            async with Group.join("hall", name="eve", register=register, order="causal", transport="udp") as hall:
                result = await listed(register)
                assert [line.split("  ") for line in _squeezed(result)] == [
                    ["group", "order", "epoch", "over", "members, oldest first"],
                    ["hall", "causal", str(hall.view.epoch), "udp", "eve (coordinator)"],
                    ["room", "total", str(ada.view.epoch), "tcp", "zoe (coordinator), ada, bob"],
                ]
                views = json.loads((await listed(register, "--json")).output)
                assert [view["group"] for view in views] == ["hall", "room"]
                assert [member["member"].split("#")[0] for member in views[1]["members"]] == ["zoe", "ada", "bob"]
            assert len(_squeezed(await listed(register))) == 2

    def _squeezed(result: Result) -> list[str]:
        assert result.exit_code == 0
        lines = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in result.output.splitlines()]
        return ["  ".join(cells) for cells in lines]

    run(story)


@pytest.mark.parametrize(
    ("register", "says"),
    [("127.0.0.1:1", "start one with `octoloom register`"), ("nowhere", "write host:port")],
)
def test_without_a_register_the_next_step_is_named(register: str, says: str) -> None:
    result = CliRunner().invoke(octoloom, ["group", "list", "--register", register])
    assert result.exit_code == 2
    assert says in result.output
    assert result.output.startswith("Error: ")
