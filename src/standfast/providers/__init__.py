"""What providers' prompt caches do: rules and prices as dated data, and what follows from them."""
