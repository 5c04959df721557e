"""The image's health check: exits with 0 while the process of this container is ready.

An API answers at its metrics port, a worker at its own; `serve` has both, and its API speaks for it.
"""

import http.client
import os
import sys

PORTS = ("TENUTO_METRICS_PORT", "TENUTO_WORKER_METRICS_PORT")
PATIENCE_S = 4.0


def readiness(port: int) -> str | None:
    """What `/readyz` answers at a port of this container, or None if nobody listens there."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        connection.request("GET", "/readyz")
        response = connection.getresponse()
        return f"{response.status} {response.read(1000).decode('utf-8', 'replace')}"
    except ConnectionRefusedError:
        return None
    except OSError as error:
        return str(error)


def main() -> int:
    """Prints the answer of the first port that has a listener."""
    for name in PORTS:
        port = int(os.environ.get(name, "0"))
        answer = readiness(port) if port else None
        if answer is not None:
            print(answer)
            return 0 if answer.startswith("200 ") else 1
    print("neither an API nor a worker listens here")
    return 1


if __name__ == "__main__":
    sys.exit(main())
