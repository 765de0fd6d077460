"""Who may call itself what: a device's token is a keyed hash of its name.

With a secret configured, a link lets a device in only with the token that whoever knows the secret (usually the app's
login service) has made for it. Without one, names are taken on trust.
"""

from __future__ import annotations

import hmac


def sign(secret: bytes, device: str) -> str:
    return hmac.new(secret, device.encode(), "sha256").hexdigest()


def verify(secret: bytes, device: str, token: str) -> bool:
    return hmac.compare_digest(sign(secret, device).encode(), token.encode())
