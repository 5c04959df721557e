"""The secrets for calling upstreams: read when a process starts, from the places that the settings name.

They are never in a setting, a response or a log.
"""

from collections.abc import Mapping
from pathlib import Path

from tenuto.config import UpstreamSettings
from tenuto.errors import OperatorError
from tenuto.kind.model import Model


def check(models: Mapping[str, Model], environment: Mapping[str, str]) -> None:
    """Read every key once. OperatorError names the one that cannot be read."""
    for name, model in models.items():
        if model.upstream is not None:
            read_key(model.upstream, environment, name)


def read_key(upstream: UpstreamSettings, environment: Mapping[str, str], name: str) -> str | None:
    """The upstream's secret, from the variable or the file that the settings name; None: it needs none."""
    if upstream.key_variable is not None:
        key = environment.get(upstream.key_variable, "")
        where = f"the variable {upstream.key_variable}"
    elif upstream.key_file is not None:
        where = upstream.key_file
        try:
            key = Path(where).expanduser().read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise OperatorError(f'models."{name}": the key in {where} can\'t be read') from error
    else:
        return None
    if not key or not key.isascii() or not key.isprintable():
        raise OperatorError(f'models."{name}": there is no key in {where}')
    return key
