"""The lab: simulated providers, generated breaks, replays. Whatever comes out of it is labelled simulated."""
