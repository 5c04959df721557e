"""Who may have how much at once: requests by account, connections by address, and who gives way."""

from tenuto.api.limits import RESERVED_EACH, Requests
from tenuto.errors import RateLimited


def entered(requests: Requests, account_id: str, count: int) -> int:
    """How many of so many requests of an account are let in."""
    allowed = 0
    for _ in range(count):
        try:
            requests.enter(account_id)
        except RateLimited as error:
            assert error.limit == "requests_at_once"
        else:
            allowed += 1
    return allowed


def test_an_account_has_a_share_of_what_is_under_way() -> None:
    """So many at once, and again when one is answered; other accounts have their own (P14)."""
    requests = Requests(20, 800)
    first = entered(requests, "a", 30)
    requests.leave("a")

    assert (20, 1, 20) == (first, entered(requests, "a", 5), entered(requests, "b", 30))
    assert 1000 == entered(Requests(0, 800), "a", 1000)


def test_fifty_accounts_leave_room_for_the_fifty_first() -> None:
    """Half is for whoever comes; then everybody may have a few, and connections stay free for them (P14)."""
    requests = Requests(200, 800)
    hostile = [entered(requests, f"hostile_{number}", 300) for number in range(50)]

    assert [200, 200, *[RESERVED_EACH] * 48] == hostile
    assert sum(hostile) + RESERVED_EACH < 800
    assert RESERVED_EACH == entered(requests, "somebody", 10)
