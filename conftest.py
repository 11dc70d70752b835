"""Plugins of every test run."""

pytest_plugins = ["tests.plugins_broker", "tests.plugins_faults"]
