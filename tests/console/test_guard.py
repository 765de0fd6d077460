"""Who may ask, in which way, and under which name."""

from __future__ import annotations

import pytest

from octoloom.console.guard import is_ours, name_in


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("localhost:7060", "localhost"),
        ("LOCALHOST", "localhost"),
        ("127.0.0.1:1", "127.0.0.1"),
        ("[::1]:7060", "::1"),
        ("[::1]", "::1"),
        ("::1", "::1"),
        ("", ""),
    ],
)
def test_a_name_is_found_in_a_host(host: str, name: str) -> None:
    assert name_in(host) == name


@pytest.mark.parametrize(
    ("host", "own", "ours"),
    [
        ("localhost:7060", "127.0.0.1", True),
        ("127.0.0.1:7060", "127.0.0.1", True),
        ("[::1]:7060", "127.0.0.1", True),
        ("localhost.:7060", "127.0.0.1", True),
        ("evil.example:7060", "127.0.0.1", False),
        ("localhost.evil.example", "127.0.0.1", False),
        ("127.0.0.1.evil.example", "127.0.0.1", False),
        ("10.0.0.7:7060", "127.0.0.1", False),
        ("", "127.0.0.1", False),
        ("box:7060", "box", True),
        ("other:7060", "box", False),
        ("10.0.0.7:7060", "10.0.0.7", True),
        ("10.0.0.7:7060", "0.0.0.0", True),
        ("box:7060", "0.0.0.0", False),
        ("[fe80::1]:7060", "::", True),
    ],
)
def test_only_our_own_names_are_ours(host: str, own: str, ours: bool) -> None:
    assert is_ours(host, own) is ours
