"""Ray Serve's asynchronous inference, on Redis: a cluster of one machine, the routes and the consumer.

Its documentation offers no other way to answer before the work is done and to be asked for its state later.
"""

import os
import threading

import celery
import ray
import work
from fastapi import FastAPI
from ray import serve
from ray.serve.schema import CeleryAdapterConfig, TaskProcessorConfig
from ray.serve.task_consumer import instantiate_adapter_from_config, task_consumer, task_handler

CONFIG = TaskProcessorConfig(
    queue_name="speech",
    adapter_config=CeleryAdapterConfig(
        broker_url=os.environ["RACE_STORE"],
        backend_url=os.environ["RACE_STORE"],
        # Ray itself sets late acknowledgement, rejection with a lost worker, and a pool of threads.
        app_custom_config={"task_track_started": True, "worker_prefetch_multiplier": 1},
        broker_transport_options={"visibility_timeout": int(os.environ.get("RACE_VISIBILITY_S", "3600"))},
    ),
)
CLIENTS = 100
"""Requests that the route's replica may hold at once; by default, 5."""

api = FastAPI()


@serve.deployment(max_ongoing_requests=work.SLOTS)
@task_consumer(task_processor_config=CONFIG)
class Consumer:
    """Runs as many tasks at once as it may have ongoing requests, in threads of one replica."""

    @task_handler(name="speak")
    def speak(self, text: str) -> int:
        """The work."""
        return work.speak(celery.current_task.request.id, text)


@serve.deployment(max_ongoing_requests=CLIENTS, logging_config={"enable_access_log": False})
@serve.ingress(api)
class Jobs:
    """The routes. The consumer is bound to them, so that both are deployed."""

    def __init__(self, consumer: serve.handle.DeploymentHandle) -> None:
        self._consumer = consumer
        self._tasks = instantiate_adapter_from_config(CONFIG)

    @api.post("/v1/jobs", status_code=202)
    def submit(self, submission: work.Submission) -> work.Accepted:
        """The message is in Redis when this returns; the adapter has no asynchronous calls."""
        task = self._tasks.enqueue_task_sync("speak", args=[submission.parameters.text])
        return work.Accepted(id=task.id, state=task.status)

    @api.get("/v1/jobs/{job_id}")
    def show(self, job_id: str) -> work.Accepted:
        """Celery's word."""
        return work.Accepted(id=job_id, state=self._tasks.get_task_status_sync(job_id).status)


def main() -> None:
    """Serves until it is killed."""
    ray.init(
        # What the route and the consumer ask for, whatever the machine has.
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=100 * 2**20,
        _temp_dir=os.environ["RACE_FOLDER"],
    )
    serve.start(http_options={"host": "127.0.0.1", "port": int(os.environ["RACE_PORT"])})
    serve.run(Jobs.bind(Consumer.bind()))
    threading.Event().wait()


if __name__ == "__main__":
    main()
