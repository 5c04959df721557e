"""Who runs an attempt of each kind. A new kind is one line here."""

from collections.abc import Callable, Mapping

from tenuto.hosts.host import HostResult
from tenuto.worker import image, recognition, speech
from tenuto.worker.calls import EngineCalls

Runner = Callable[[EngineCalls], HostResult]
"""Gives a result that was checked, its bytes not yet durable. Raises ResultInvalid, and what hosts raise."""

RUNNERS: Mapping[str, Runner] = {
    "speech": speech.run,
    "recognition": recognition.run,
    "image": image.run,
}
