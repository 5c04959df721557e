"""What callers do: credit, submissions (alone, again, at once), cancelling, erasing; own and others' jobs."""

from hypothesis import strategies as st
from hypothesis.stateful import rule

from properties.ground import FATES, FINAL, PICKS, Ground
from properties.model import PRICE, Job
from servers.world import METERED, SPEECH, any_key, at_once
from tenuto.account.caller import Caller
from tenuto.db.database import Transaction
from tenuto.errors import IdempotencyConflict, InsufficientBalance, InvalidRequest, NotFound, OperatorError
from tenuto.file.erasure import remove
from tenuto.job import erasure, finish
from tenuto.job.submit import Accepted, Request, prepare

DAYS_14_MS = 14 * 24 * 3600 * 1000
TEXTS = st.lists(st.sampled_from("一二"), min_size=2, max_size=3)


class Callers(Ground):
    """Two accounts with a key each."""

    @rule(who=st.integers(0, 1), prices=st.integers(-2, 2).filter(bool))
    def credit(self, who: int, prices: int) -> None:
        account = self.callers[who].account_id
        try:
            self.world.credit(account, prices * PRICE)
        except OperatorError:
            assert self.model.balance(account)[0] < -prices * PRICE
        else:
            self.model.credit[account] += prices * PRICE
            assert self.model.balance(account)[0] >= 0

    @rule(
        who=st.integers(0, 1),
        key=st.integers(0, 9),
        text=st.sampled_from(["一", "二"]),
        model=st.sampled_from([SPEECH, METERED]),
        fate=FATES,
    )
    def submit(self, who: int, key: int, text: str, model: str, fate: str) -> None:
        caller, body = self.callers[who], f"{model} {text}"
        request = self.request(caller, key, text, model)
        if fate == "undone":
            self.undone(prepare(self.world.submitting, request))
            return
        bound = self.model.keys.get((caller.key_id, f"key {key}"))
        before = self.model.balance(caller.account_id)[0]
        for _ in range(2 if fate == "unanswered" else 1):
            try:
                accepted = self.world.send(request)
            except IdempotencyConflict:
                assert bound is not None and bound[0] != body
            except InsufficientBalance:
                assert bound is None and before < PRICE
            else:
                assert accepted.replayed == (bound is not None)
                assert bound in (None, (body, accepted.job_id))
                self.accepted(caller, key, body, accepted.job_id)
                bound = (body, accepted.job_id)

    @rule(who=st.integers(0, 1), key=st.integers(0, 9), texts=TEXTS)
    def submit_at_once(self, who: int, key: int, texts: list[str]) -> None:
        """The same key from several processes at one moment: one job, whoever is first."""
        caller = self.callers[who]
        bound = self.model.keys.get((caller.key_id, f"key {key}"))
        can_pay = self.model.balance(caller.account_id)[0] >= PRICE
        requests = [self.request(caller, key, text, SPEECH) for text in texts]
        answers = at_once(len(texts), lambda number: self.world.send(requests[number]))
        made = [
            (answer.job_id, f"{SPEECH} {text}")
            for answer, text in zip(answers, texts, strict=True)
            if isinstance(answer, Accepted)
        ]
        if bound is None and not can_pay:
            assert [InsufficientBalance] * len(texts) == [type(answer) for answer in answers]
            return
        winner = bound[0] if bound is not None else made[0][1]
        assert len({job_id for job_id, _ in made}) <= 1
        assert [f"{SPEECH} {text}" == winner for text in texts] == [
            isinstance(answer, Accepted) for answer in answers
        ]
        assert all(isinstance(answer, Accepted | IdempotencyConflict) for answer in answers)
        if bound is None:
            self.accepted(caller, key, winner, made[0][0])

    @rule(pick=PICKS, is_own=st.booleans(), fate=FATES)
    def cancel(self, pick: int, is_own: bool, fate: str) -> None:
        job = self.job(pick)
        if not is_own:
            self.refused(NotFound, lambda tx: self.cancelling(tx, self.stranger(job), job))
            return
        self.call(fate, lambda tx: self.cancelling(tx, job.account, job), lambda: self.model.cancel(job))

    @rule(pick=PICKS, is_own=st.booleans(), fate=FATES)
    def erase(self, pick: int, is_own: bool, fate: str) -> None:
        world, job = self.world, self.job(pick)
        account = job.account if is_own else self.stranger(job)

        def operation(tx: Transaction) -> list[str]:
            return erasure.erase_content(tx, any_key(account), job_id=job.job_id, now_ms=world.now_ms)

        if not is_own or job.state not in FINAL:
            self.refused(InvalidRequest if is_own else NotFound, operation)
            return
        blobs = self.call(fate, operation, lambda: self.model.erase(job))
        if fate == "done":
            remove(self.database, self.rig.context.blobs, blobs)

    def request(self, caller: Caller, key: int, text: str, model: str) -> Request:
        return self.world.request(caller, f"key {key}", text, model)

    def accepted(self, caller: Caller, key: int, body: str, job_id: str) -> None:
        """The model's side of an acceptance; of a replay there is none."""
        if job_id not in self.model.jobs:
            deadline_at = self.world.now_ms + DAYS_14_MS
            job = Job(job_id, caller.account_id, body.startswith(METERED), deadline_at)
            self.model.accept((caller.key_id, f"key {key}"), body, job)

    def cancelling(self, tx: Transaction, account: str, job: Job) -> bool:
        return finish.cancel(
            tx, self.world.ids, any_key(account), job_id=job.job_id, now_ms=self.world.now_ms
        )
