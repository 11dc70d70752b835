"""Plugins of every test run, and what holds for every property test: no example is timed, machines may be busy."""

from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.plugins_broker", "tests.plugins_faults"]

settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
