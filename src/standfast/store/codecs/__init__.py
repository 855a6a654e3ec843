"""How the bodies of blocks are written."""
