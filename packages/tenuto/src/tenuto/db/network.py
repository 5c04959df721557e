"""How the two ends of a connection to PostgreSQL find out that the other's machine is gone.

Knows neither statements nor what is done when it is.
"""

from collections.abc import Mapping
from typing import Any

CONNECT_TIMEOUT_S = 5
# What was sent and is not acknowledged by the other machine in so long never will be: its cable is pulled.
UNACKNOWLEDGED_MS = 5_000

NETWORK: Mapping[str, Any] = {
    "connect_timeout": CONNECT_TIMEOUT_S,
    "keepalives_idle": 5,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": UNACKNOWLEDGED_MS,
}
"""How a connection finds out that the server's machine is gone; a socket in a folder ignores it."""

# The same from the server's side: it would keep the sessions of a lost machine for hours, and has not many.
SERVER_NETWORK = f"""
    set tcp_keepalives_idle = 10;
    set tcp_keepalives_interval = 5;
    set tcp_keepalives_count = 3;
    set tcp_user_timeout = {2 * UNACKNOWLEDGED_MS};
"""
