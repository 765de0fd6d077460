"""The processes that several tests share: who kills one and starts it again leaves the new one to whoever shares it."""

shared: set[int] = set()
"""Their numbers, from their start until somebody has waited for them."""
