"""`python -m octoloom` is `octoloom`."""

from __future__ import annotations

from octoloom.cli import main

if __name__ == "__main__":
    main()
