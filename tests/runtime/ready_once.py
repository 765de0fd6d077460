"""A process that is ready, and ends."""

print("ready a=1", flush=True)
