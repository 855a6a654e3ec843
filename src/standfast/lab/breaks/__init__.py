"""Breaks of a prompt cache, made on purpose: sessions to break, and one change for each way to break them.

Nothing here knows the core: what a break does to a body is written down a second time, so that the two can be compared.
"""
