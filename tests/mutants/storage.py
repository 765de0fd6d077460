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
    Mutant(
        "failed-sync-tried-again",
        "a sync that fails is never tried again",
        "storage/log_commit.py",
        """            self.fail(f"it could not be synced ({error})")
            self.check()
""",
        """            raise StoreError(f"{self._path}: it could not be synced ({error}); open the log anew") from error
""",
        "tests/storage/test_log_commit.py",
    ),
    Mutant(
        "sealed-not-synced",
        "a sync covers every segment that was written to",
        "storage/log_commit.py",
        """            for segment in dirty:
                assert""",
        """            for segment in dirty[-1:]:
                assert""",
        "tests/storage/test_log_commit.py",
    ),
    Mutant(
        "unsaved-leaves-memory",
        "a sealed segment leaves memory once its index is saved",
        "storage/log_commit.py",
        """            if segment.save(segment.saved()):
                segment.unpin()
""",
        """            segment.save(segment.saved())
            if True:
                segment.unpin()
""",
        "tests/storage/test_log_commit.py",
    ),
    Mutant(
        "roll-name-not-durable",
        "new segments are durable by name",
        "storage/log_commit.py",
        """            self._new_names = max(self._new_names, 1)
""",
        "",
        "tests/storage/test_log_commit.py",
    ),
    Mutant(
        "torn-append-grows",
        "an append that fails leaves the log as it was",
        "storage/log.py",
        """            if segment.file_size() != segment.size:
""",
        """            if segment.file_size() < segment.size:
""",
        "tests/storage/test_log_commit.py",
    ),
    Mutant(
        "append-falls-in-epoch",
        "leader epochs of a log never fall",
        "storage/log.py",
        "if header.base_offset != offset or header.leader_epoch < epoch:",
        "if header.base_offset != offset:",
        "tests/storage/test_log.py",
    ),
    Mutant(
        "dead-epoch-stays",
        "an epoch of which nothing is left is forgotten",
        "storage/log.py",
        """            self.epochs.pop()
""",
        """            pass
""",
        "tests/storage/test_log.py tests/storage/test_log_twin.py",
    ),
    Mutant(
        "retains-unsynced",
        "only synced segments are deleted",
        "storage/log.py",
        "if segment.end > before or segment.pinned is not None:",
        "if segment.end > before:",
        "tests/storage/test_log.py",
    ),
    Mutant(
        "retains-uncommitted",
        "what is not committed is not deleted",
        "storage/log.py",
        """                if segment.end > before or segment.pinned is not None:
                    break
""",
        """                if segment.pinned is not None:
                    break
""",
        "tests/storage/test_log.py",
    ),
    Mutant(
        "retention-bytes-off",
        "so much of a topic is kept at least",
        "storage/log.py",
        "is_much = 0 <= retention_bytes <= size - segment.size",
        "is_much = 0 <= retention_bytes <= size",
        "tests/storage/test_log.py",
    ),
    Mutant(
        "truncated-start-stays",
        "a log that was cut before its start begins where it ends",
        "storage/log.py",
        """                save_start(self.path, self.start, sync=True)
""",
        "",
        "tests/storage/test_log.py tests/storage/test_log_twin.py",
    ),
    Mutant(
        "reset-keeps-start",
        "a log that was reset begins anew",
        "storage/log.py",
        """            remove(os.path.join(self.path, START_FILE))
""",
        "",
        "tests/storage/test_log.py tests/storage/test_log_twin.py",
    ),
    Mutant(
        "time-index-reads-on",
        "the first record of a time lies below the watermark",
        "storage/log.py",
        "return found if found[0] < before else None",
        "return found",
        "tests/storage/test_log.py",
    ),
    Mutant(
        "foreign-segment-joined",
        "a segment that does not follow is set aside",
        "storage/log_recovery.py",
        "if at > 0 and base != self._segments[-1].end:",
        "if at > 0 and base < self._segments[-1].end:",
        "tests/storage/test_log_recovery.py -k 'does_not_follow or missing_segment'",
    ),
    Mutant(
        "torn-tail-not-cut",
        "a torn tail is cut off",
        "storage/log_recovery.py",
        """            os.ftruncate(file.fd, segment.size)
""",
        "",
        "tests/storage/test_log_recovery.py -k 'torn or zeros'",
    ),
    Mutant(
        "torn-tail-thrown-away",
        "what is cut off is set aside",
        "storage/log_recovery.py",
        """            set_bytes_aside(self._directory, file, segment.size, segment.end)
""",
        "",
        "tests/storage/test_log_recovery.py -k 'torn or zeros'",
    ),
    Mutant(
        "short-segment-written-to",
        "a segment that lost bytes is not written to",
        "storage/log_recovery.py",
        """            if size < saved.size:
""",
        """            if size < saved.size // 2:
""",
        "tests/storage/test_log_recovery.py -k 'short or damage'",
    ),
    Mutant(
        "orphan-index-stays",
        "no index outlives what it speaks of",
        "storage/log_recovery.py",
        "if is_orphan or name.endswith(TEMPORARY):",
        "if name.endswith(TEMPORARY):",
        "tests/storage/test_log_recovery.py -k 'index or leftovers'",
    ),
    Mutant(
        "scan-trusts-epoch",
        "a flipped epoch is noticed although no CRC covers it",
        "storage/log_scan.py",
        "if header.base_offset != offset or at < 0 or header.leader_epoch != epochs[at][0]:",
        "if header.base_offset != offset or at < 0:",
        "tests/storage/test_log_recovery.py -k epoch tests/storage/test_log_scan.py",
    ),
    Mutant(
        "scan-gives-up-at-large",
        "a batch larger than a piece is read whole",
        "storage/log_scan.py",
        "if not wanted < claimed <= limit - position:",
        "if not wanted < claimed < limit - position:",
        "tests/storage/test_log_scan.py",
    ),
    Mutant(
        "scan-runs-into-next",
        "a segment ends where the next begins",
        "storage/log_scan.py",
        " or header.next_offset > self.until:",
        ":",
        "tests/storage/test_log_scan.py tests/storage/test_log_recovery.py -k 'scan or same_offsets'",
    ),
    Mutant(
        "index-of-other-segment",
        "an index of another segment is not believed",
        "storage/log_index.py",
        """            or self.base != base
""",
        "",
        "tests/storage/test_log_index.py tests/storage/test_log_recovery.py -k index",
    ),
    Mutant(
        "near-forgets-nothing",
        "an index keeps the newest batches only",
        "storage/log_index.py",
        """            self._near_mark = len(self.near_offsets)
""",
        "",
        "tests/storage/test_log_index.py",
    ),
    Mutant(
        "cut-keeps-time",
        "the time of records that were cut off does not count",
        "storage/segment.py",
        """        self.time_max = max(index.times, default=NO_TIME)
""",
        "",
        "tests/storage/test_segment.py tests/storage/test_log.py tests/storage/test_log_twin.py",
    ),
    Mutant(
        "proved-unread",
        "bytes are served only when they are proved",
        "storage/segment.py",
        """            proven[chunk:stop] = b"\\1" * (stop - chunk)
""",
        """            proven[chunk : stop + 1] = b"\\1" * (min(stop + 1, len(proven)) - chunk)
""",
        "tests/storage/test_segment.py tests/storage/test_log_recovery.py -k damage",
    ),
    Mutant(
        "cut-not-synced",
        "a log that was cut stays cut",
        "storage/segment.py",
        """        os.ftruncate(file.fd, position)
        os.fdatasync(file.fd)
""",
        """        os.ftruncate(file.fd, position)
""",
        "tests/storage/test_log_recovery.py -k power",
    ),
    Mutant(
        "slice-beyond-watermark",
        "nobody reads beyond the watermark",
        "storage/segment_search.py",
        "if header.next_offset > before or (place + header.size > limit and not is_first):",
        "if header.base_offset > before or (place + header.size > limit and not is_first):",
        "tests/storage/test_segment_search.py tests/storage/test_log.py",
        survives="batches are only walked where so many bytes end before the watermark does",
    ),
    Mutant(
        "slice-beyond-damage",
        "what lies behind damage is not served",
        "storage/segment_search.py",
        """        before = min(before, segment.damage)
""",
        """        pass
""",
        "tests/storage/test_segment_search.py tests/storage/test_log_recovery.py -k damage",
    ),
    Mutant(
        "device-store-not-atomic",
        "a device's step is durable as a whole or not at all",
        "storage/device_store.py",
        """                self._db.execute("ROLLBACK")
                self._measure()
""",
        """                self._db.execute("COMMIT")
                self._measure()
""",
        "tests/storage/test_device_store.py",
    ),
    Mutant(
        "device-store-of-another",
        "a store belongs to one device",
        "storage/device_store.py",
        "if (space, device) != (self.space, self.device):",
        "if device != self.device:",
        "tests/storage/test_device_store.py",
    ),
    Mutant(
        "device-store-keeps-patches",
        "a new state replaces what was patched",
        "storage/device_store.py",
        """        self._db.execute("DELETE FROM patches")
""",
        "",
        "tests/storage/test_device_store.py",
    ),
    Mutant(
        "device-store-shared",
        "two processes do not use one store",
        "storage/device_store.py",
        """        self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
""",
        "",
        "tests/storage/test_device_store.py",
    ),
    Mutant(
        "checksum-without-key",
        "a row that was put in another's place is noticed",
        "storage/checked_tables.py",
        'return crc32(raw, crc32(f"{key[0]}\\0{key[1]}".encode()))',
        "return crc32(raw)",
        "tests/storage/test_topic_store.py tests/storage/test_register_store.py tests/storage/test_group_store.py",
    ),
    Mutant(
        "old-brokers-stay",
        "the register's store holds the brokers of now",
        "storage/topic_store.py",
        """                self._database.execute("DELETE FROM log_brokers")
""",
        "",
        "tests/storage/test_topic_store.py tests/storage/test_register_store.py",
    ),
    Mutant(
        "register-half-saved",
        "what a tick has decided is saved as a whole",
        "storage/register_store.py",
        """            execute("BEGIN IMMEDIATE")
            if directory""",
        """            execute("BEGIN IMMEDIATE") if directory is not None else None
            if directory""",
        "tests/storage/test_topic_store.py",
    ),
    Mutant(
        "register-not-synced",
        "what the register has answered is on the disk",
        "storage/register_store.py",
        'execute("PRAGMA synchronous = FULL")',
        'execute("PRAGMA synchronous = OFF")',
        "tests/storage/test_register_store.py",
    ),
)
