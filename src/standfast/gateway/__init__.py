"""The HTTP gateway: callers in front, upstreams behind, ``turn`` in between."""
