"""Octoloom weaves the events of many devices into one ordered, durable, shared state."""

__version__ = "0.1.0"
