"""The engine: knows capitals and nothing of Tenuto."""

from typing import Any

from tenuto_engine import Result, Run


class Shout:
    """Shouts a text, or whispers it when it is asked for nothing else."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.info = {"model_id": "toy/shout"}

    def run(self, run: Run) -> Result:
        text = str(run.parameters["text"])
        shouted = text if text == "whisper" else " ".join([text.upper()] * int(run.parameters["times"]))
        return Result("text/plain", shouted.encode(), {"times": run.parameters["times"]})
