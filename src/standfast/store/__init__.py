"""KV state in three tiers. Knows no engine and no gateway: runs of tokens go in, the longest stored head comes out."""
