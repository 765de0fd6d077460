"""Bugs that are planted on purpose, to see whether the tests notice (`make mutants`; see docs/testing.md).

`catalogue` names all of them by room; `run` plants one at a time in a copy of the source tree.
"""
