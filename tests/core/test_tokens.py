"""Tokens: only whoever knows the secret can let a device call itself by a name."""

from __future__ import annotations

import pytest

from octoloom.core.tokens import sign, verify


def test_a_token_opens_the_door_for_its_device_only() -> None:
    token = sign(b"secret", "ada")
    assert verify(b"secret", "ada", token)
    assert not verify(b"secret", "bob", token)
    assert not verify(b"another", "ada", token)


@pytest.mark.parametrize("forged", ["", "ada", "0" * 64, "ÄÖ", "\N{OCTOPUS}" * 64])
def test_a_forged_token_is_refused_whatever_it_is_made_of(forged: str) -> None:
    assert not verify(b"secret", "ada", forged)


def test_a_token_is_the_same_each_time_and_fits_into_a_url() -> None:
    token = sign(b"secret", "Zoë")
    assert token == sign(b"secret", "Zoë")
    assert token.isalnum()
    assert len(token) == 64
    assert token != sign(b"secret", "Zoe")
