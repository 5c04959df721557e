"""BentoML's task endpoint: `bentoml serve with_bentoml:Speech`. Its tasks end with its process."""

import bentoml
import work


@bentoml.service(workers=1, threads=work.SLOTS, logging={"access": {"enabled": False}})
class Speech:
    """One process whose threads run the tasks."""

    @bentoml.task(route="/v1/jobs")
    def speak(self, ctx: bentoml.Context, model: str, parameters: work.Parameters) -> int:
        """The work. BentoML adds the routes `/v1/jobs/submit` and `/v1/jobs/status`."""
        return work.speak(ctx.request.state.task_id, parameters.text)
