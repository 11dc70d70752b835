"""Asks an agent whether it is alive: exit 0 on any 2xx answer. Standard library only: the image has no curl."""

import sys
import urllib.request

DEFAULT = "http://127.0.0.1:9478/-/healthy"
WITHIN_S = 4


def main(arguments: list[str]) -> str | None:
    """None when healthy, else what was wrong. No proxy of the environment is asked: the address is meant literally."""
    url = arguments[0] if arguments else DEFAULT
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=WITHIN_S):
            return None
    except (OSError, ValueError) as error:
        return f"{url}: {error}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
