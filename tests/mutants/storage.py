"""Bugs in what is kept on disk: a partition's segments, and the stores of devices, groups and the register."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

STORAGE = (
    Mutant(
        "appended-during-sync-is-synced",
        "no byte counts as durable that is not",
        "storage/log_commit.py",
        """                self.synced = end
                self._save(dirty, saved)
            return end
""",
        """                end = self.synced = self._dirty[-1].end
                self._save(dirty, saved)
            return end
""",
        "tests/storage/test_log_commit.py",
    ),
    Mutant(
        "index-of-what-came-during-sync",
        "an index speaks only of what was synced",
        "storage/log_commit.py",
        "            dirty[-1].save(saved)\n",
        "            dirty[-1].save(dirty[-1].saved())\n",
        "tests/storage/test_log_commit.py",
    ),
    Mutant(
        "recovered-tail-not-synced",
        "recovery syncs what only the cache may hold",
        "storage/log_recovery.py",
        "            os.fdatasync(file.fd)\n            sync_directory(self._directory)\n",
        "            sync_directory(self._directory)\n",
        "tests/storage/test_log_recovery.py -k 'power or durable'",
    ),
    Mutant(
        "recovered-name-not-synced",
        "recovery syncs what only the cache may hold",
        "storage/log_recovery.py",
        "        new_names = 1 if len(segments.items) > 1 else 2\n",
        "        new_names = 0\n",
        "tests/storage/test_log_recovery.py -k 'power or durable'",
    ),
    Mutant(
        "recovered-parent-not-synced",
        "recovery syncs what only the cache may hold",
        "storage/log_recovery.py",
        "if saved is None and not self._segments:",
        "if saved is not None and not self._segments:",
        "tests/storage/test_log_recovery.py -k 'power or durable'",
    ),
)
