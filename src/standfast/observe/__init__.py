"""What an operator sees: metrics and logs, both plain observers of ``events``."""
