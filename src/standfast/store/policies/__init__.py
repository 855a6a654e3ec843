"""Which entry goes when there is no room."""
