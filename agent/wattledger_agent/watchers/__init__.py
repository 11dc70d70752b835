"""Watchers: what follows schedulers, containers and processes. Pure parsers apart from their readers."""
