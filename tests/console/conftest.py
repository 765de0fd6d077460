"""The browser of tests/browser, for the console's page."""

from __future__ import annotations

from tests.browser.conftest import chromium

__all__ = ["chromium"]
