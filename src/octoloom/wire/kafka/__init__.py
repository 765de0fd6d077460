"""The Kafka wire protocol: pure functions on bytes.

What every message of a game passes through (Produce, Fetch, Metadata, ApiVersions, record batches) is read and
written by hand, in place. The rest goes through kio's schemas, which are also what the tests compare with.
"""
