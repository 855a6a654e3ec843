"""Where records lie."""
