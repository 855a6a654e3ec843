"""Standfast: what means the same is sent the same.

Keeps the opening of every LLM request byte-stable so that prompt caches hit, and explains every miss.
"""

__version__ = "0.1.0"
