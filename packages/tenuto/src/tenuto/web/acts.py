"""An operator's act that moves money happens once: its page names it beforehand, by an Idempotency-Key.

The key is bound in the transaction of the act itself, so a double click, a page that sends again and a lost
answer all find the act that was done. Which acts there are is not known here.
"""

from collections.abc import Callable

from tenuto.accounts.sessions import Person
from tenuto.api import uploads
from tenuto.api.call import Call
from tenuto.artifacts.uploads import bind_upload, request_sha256
from tenuto.db.database import Transaction
from tenuto.errors import Fault, InvalidRequest


def act_key(call: Call) -> str:
    """The Idempotency-Key that an act needs. InvalidRequest says what would be right."""
    faults: list[Fault] = []
    key = uploads.idempotency_key(call, faults)
    if key is None and not faults:
        message = "the header is required: 1 to 255 printable ASCII characters, new for each new act"
        faults.append(Fault(uploads.IDEMPOTENCY_HEADER, "required", message))
    if faults:
        raise InvalidRequest(faults)
    assert key is not None
    return key


def once(
    call: Call, operator: Person, key: str, asked: tuple[str, ...], act: Callable[[Transaction, str], None]
) -> Callable[[Transaction], None]:
    """The operation that carries out `act` with the id of its ledger line, unless this key did so before.

    IdempotencyConflict when the key belongs to another act; `asked` is all that makes it this one.
    """
    entry_id, now_ms = call.service.ids.new("entry"), call.service.clock()

    def operation(tx: Transaction) -> None:
        bound = bind_upload(
            tx,
            key_id=operator.caller.key_id,
            idempotency_key=key,
            request_sha256=request_sha256(*asked),
            record_id=entry_id,
            now_ms=now_ms,
        )
        if bound == entry_id:
            act(tx, entry_id)

    return operation
