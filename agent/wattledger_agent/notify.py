"""Tells systemd how the service is: ready, alive, stopping (sd_notify's protocol: one datagram to NOTIFY_SOCKET)."""

import socket

import structlog

log = structlog.get_logger()


class Notifier:
    """Does nothing without a socket's name. Protocol: sd_notify(3); a name that begins with `@` is abstract."""

    def __init__(self, address: str) -> None:
        self._address = f"\0{address[1:]}" if address.startswith("@") else address

    def ready(self) -> None:
        self._send("READY=1")

    def alive(self) -> None:
        self._send("WATCHDOG=1")

    def stopping(self) -> None:
        self._send("STOPPING=1")

    def status(self, text: str) -> None:
        """One line for `systemctl status`."""
        self._send(f"STATUS={text}")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out:
                out.sendto(message.encode(), self._address)
        except OSError as error:
            log.warning("notify_failed", error=str(error))
