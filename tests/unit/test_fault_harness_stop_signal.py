"""A run that is told twice to stop still takes down what it started."""

import os
import signal
import subprocess
import sys

PROGRAM = """
import os, signal, time
from tests.fault_harness.stop_signal import leave_on_sigterm
leave_on_sigterm()
try:
    print("started", flush=True)
    time.sleep(60)
finally:
    print("cleaning", flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0.1)
    print("clean", flush=True)
"""


def test_a_second_sigterm_does_not_cut_off_the_cleaning_up() -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True, env=os.environ) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "started\n"
        run.send_signal(signal.SIGTERM)
        assert run.stdout.read() == "cleaning\nclean\n"
    assert run.returncode == 143
