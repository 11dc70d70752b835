"""Plugins of every test run."""

pytest_plugins = ["tests.plugins_broker"]
