"""Leaving on SIGTERM with everything that was started taken down."""

import signal
import sys


def leave_on_sigterm() -> None:
    """Makes SIGTERM raise SystemExit, once: a second one (make and `timeout` send one each) must not cut the cleaning
    up off."""
    signal.signal(signal.SIGTERM, _leave)


def _leave(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(143)
