"""Who a request comes from, and to which models its key and its account are restricted."""

import msgspec

from tenuto.errors import ModelNotAllowed


class Caller(msgspec.Struct, frozen=True):
    """Who a request comes from: the key that authenticated it, and what the account may use."""

    key_id: str
    account_id: str
    account_models: frozenset[str] | None
    key_models: frozenset[str] | None

    def may_use(self, model: str) -> bool:
        """Whether both the operator and the key's creator allow this model, now."""
        return (self.account_models is None or model in self.account_models) and (
            self.key_models is None or model in self.key_models
        )

    def check_job(self, model: str) -> None:
        """Raises ModelNotAllowed unless this key may list, cancel and erase jobs of the model.

        Only the key's own restriction counts: an account that loses a model by the operator's decision keeps
        its existing jobs.
        """
        if self.key_models is not None and model not in self.key_models:
            raise ModelNotAllowed("this key is restricted to other models than this job's")
