"""Engines that compute: the embedded llama.cpp server, its model, and the choice of slots in it."""
