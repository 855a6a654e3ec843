"""The pure core: requests in, bytes and reasons out. No clock, no I/O, no randomness."""
