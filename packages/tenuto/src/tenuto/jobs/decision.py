"""An operator's decision about a job: who made it, and why. Nothing here knows jobs or rows."""

from dataclasses import dataclass

from tenuto.errors import OperatorError

MAX_CHARACTERS = 1000


@dataclass(frozen=True, slots=True)
class Decision:
    """Who decided, and why in words. Raises OperatorError when nobody is named."""

    operator: str
    note: str | None = None
    entry_id: str | None = None
    """The ledger line that it writes, so that a decision whose answer was lost is carried out once. Made
    by every edge before the operation; None: a new one each time."""

    def __post_init__(self) -> None:
        if not self.operator.strip():
            raise OperatorError("say who decides: --operator NAME")
        for name, text in (("the operator's name", self.operator), ("the note", self.note or "")):
            if len(text) > MAX_CHARACTERS or "\0" in text:
                raise OperatorError(f"{name} may have at most {MAX_CHARACTERS} characters, and no NUL")

    def as_note(self, done: str) -> str:
        """As the ledger notes it."""
        return f"{done} by {self.operator}" + (f": {self.note}" if self.note else "")
