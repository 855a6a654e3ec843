"""``python -m standfast``."""

from standfast.cli import main

main()
