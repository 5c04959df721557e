"""POST /v1/images/generations by OpenAI's own package and as others send it; the fake engine draws."""

import base64
import io
import json
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from servers.callers import HELD, Caller, Operator, error_code, faults

pytestmark = pytest.mark.variant("database", only="postgresql")

if TYPE_CHECKING:
    import openai

PATH = "/v1/images/generations"
CAT = {"model": "dall-e-3", "prompt": "A cat.", "size": "256x256"}


@pytest.fixture(scope="module")
def rich(operator: Operator) -> Caller:
    """An account that can pay for many images."""
    return operator.caller(credit="100")


@pytest.fixture
def client(rich: Caller) -> Iterator["openai.OpenAI"]:
    """OpenAI's own package on our base address."""
    import openai  # Not above: it takes a second, which every process that collects this file would spend.

    url = str(rich.http.base_url).rstrip("/") + "/v1"
    with openai.OpenAI(base_url=url, api_key=rich.key, max_retries=0) as client:
        yield client


def draw(caller: Caller, body: dict[str, Any], **headers: str) -> httpx2.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    content = json.dumps(body).encode()
    return caller.request("POST", PATH, headers={"Content-Type": "application/json"} | named, content=content)


def jobs_of(answer: httpx2.Response) -> list[str]:
    return answer.headers["x-service-job"].split(", ")


def picture(content: bytes) -> tuple[str | None, tuple[int, int]]:
    """The format and the size of a picture that can be shown whole."""
    from PIL import Image

    with Image.open(io.BytesIO(content)) as image:
        image.load()
        return image.format, image.size


def test_openais_own_package_draws(client: "openai.OpenAI", rich: Caller) -> None:
    """Two images are two jobs; the PNG is the artifact's own, byte for byte; the charge is their sum.

    Without a model, as the package sends it unless asked to, it is the first image model that can be called.
    """
    raw = client.images.with_raw_response.generate(prompt="A cat.", n=2, size="256x256")
    images = raw.parse()
    contents = [base64.b64decode(image.b64_json or "") for image in images.data or []]
    jobs = [rich.read(job_id) for job_id in raw.headers["x-service-job"].split(", ")]
    stored = [rich.get(f"/v1/artifacts/{job['artifacts'][0]['id']}/content").content for job in jobs]

    assert ["fake/image"] * 2 == [job["model"] for job in jobs]
    assert 2 == len({job["id"] for job in jobs})
    assert stored == contents
    assert stored[0] != stored[1]
    assert [("PNG", (256, 256))] * 2 == [picture(content) for content in contents]
    assert (images.created, "png") == (jobs[0]["created_at"], images.output_format)
    assert [job["artifacts"][0]["sha256"] for job in jobs] == raw.headers["x-service-sha256"].split(", ")
    assert "0.100000 CNY" == raw.headers["x-service-charged"]
    assert ["1 of 2", "2 of 2"] == [job["metadata"]["image"] for job in jobs]


def test_forms(rich: Caller) -> None:
    """PNG, JPEG and WebP, inside the answer or as an address that holds the image itself."""
    found = {}
    for form in ("png", "jpeg", "webp"):
        answer = draw(rich, CAT | {"output_format": form, "response_format": "url"}, Idempotency_Key="forms")
        start, _, content = answer.json()["data"][0]["url"].partition(",")
        found[start] = picture(base64.b64decode(content))

    assert {
        "data:image/png;base64": ("PNG", (256, 256)),
        "data:image/jpeg;base64": ("JPEG", (256, 256)),
        "data:image/webp;base64": ("WEBP", (256, 256)),
    } == found


def test_fields_become_parameters(rich: Caller) -> None:
    """Size and the extensions as the contract names them; nulls are nothing, the rest is named."""
    sent = {
        "n": 2,
        "seed": 2**63 - 1,
        "steps": 3,
        "guidance_scale": 2.5,
        "quality": "hd",
        "style": None,
        "user": "me",
        "stream": False,
        "partial_images": 0,
    }
    answer = draw(rich, CAT | sent)
    auto = draw(rich, CAT | {"size": "auto"})
    bodies = [rich.get(f"/v1/jobs/{job_id}/request").json() for job_id in jobs_of(answer)]
    asked = {"prompt": "A cat.", "width": 256, "height": 256, "num_inference_steps": 3, "guidance_scale": 2.5}

    assert "quality, user" == answer.headers["x-service-ignored"]
    assert [asked | {"seed": seed} for seed in (2**63 - 1, 0)] == [body["parameters"] for body in bodies]
    assert {"prompt": "A cat."} == rich.get(f"/v1/jobs/{jobs_of(auto)[0]}/request").json()["parameters"]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"model": "fake/speech"}, ("model", "unknown_model")),
        ({"prompt": " \n"}, ("prompt", "empty")),
        ({"prompt": "語" * 7000}, ("prompt", "too_long")),
        ({"n": 5}, ("n", "out_of_range")),
        ({"n": "2"}, ("n", "wrong_type")),
        ({"size": "large"}, ("size", "wrong_type")),
        ({"size": "256x257"}, ("size", "out_of_range")),
        ({"steps": 1000}, ("steps", "out_of_range")),
        ({"num_inference_steps": 0}, ("num_inference_steps", "out_of_range")),
        ({"seed": -1, "n": 2}, ("seed", "out_of_range")),
        ({"output_format": "gif"}, ("output_format", "not_allowed")),
        ({"stream": True}, ("stream", "not_allowed")),
    ],
)
def test_what_is_wrong_is_said_in_the_clients_words(
    rich: Caller, change: dict[str, Any], fault: tuple[str, str]
) -> None:
    """Always 400 with what would be right, and never 404: programs read that as a missing path."""
    before = rich.newest()

    assert {fault} == set(faults(draw(rich, CAT | change)))
    assert before == rich.newest()


def test_a_wrong_size_is_told_the_range(rich: Caller) -> None:
    """The message is enough to send the right thing."""
    message = draw(rich, CAT | {"size": "128x2052"}).json()["error"]["message"]

    assert "width is 128; it must be from 256 to 2048 pixels" in message
    assert "height is 2052; it must be from 256 to 2048 pixels" in message


def test_images_are_accepted_all_or_none(operator: Operator) -> None:
    """The hold of the third is refused: there is none of the others either, and the key stays free."""
    caller = operator.caller(credit="0.12")

    refused = draw(caller, CAT | {"n": 3}, Idempotency_Key="one")
    fewer = draw(caller, CAT | {"n": 2}, Idempotency_Key="one")

    assert (403, "insufficient_balance") == error_code(refused)
    assert "0.100000 CNY" == fewer.headers["x-service-charged"]
    assert set(jobs_of(fewer)) == set(caller.newest())


def test_a_key_is_bound_to_the_images_and_not_to_their_form(rich: Caller) -> None:
    """The same jobs in another form; another number of images under the same key is a conflict."""
    key = str(uuid.uuid4())
    first = draw(rich, CAT | {"n": 2}, Idempotency_Key=key)
    again = draw(rich, CAT | {"n": 2, "output_format": "webp"}, Idempotency_Key=key)
    others = [draw(rich, CAT | {"n": n}, Idempotency_Key=key) for n in (1, 3)]

    assert jobs_of(first) == jobs_of(again)
    assert (None, "true") == tuple(each.headers.get("idempotent-replayed") for each in (first, again))
    assert [(409, "idempotency_conflict")] * 2 == [error_code(each) for each in others]


@pytest.mark.parametrize("name", ["Idempotency_Key", "X_Stainless_Retry_Count"])
def test_a_retry_is_its_request_whatever_the_models_name_means_by_then(operator: Operator, name: str) -> None:
    """`dall-e-3` stands for nothing any more: the same two jobs (P2)."""
    caller = operator.caller(credit="1")
    headers = {name: "1"}
    first = draw(caller, CAT | {"n": 2}, **headers)
    operator.restrict(caller, ["fake/speech"])
    again = draw(caller, CAT | {"n": 2, "output_format": "webp"}, **headers)

    assert 200 == again.status_code, again.text
    assert jobs_of(first) == jobs_of(again)


def test_a_declared_retry_joins_all_jobs_of_its_request(operator: Operator) -> None:
    """Without a key: the jobs that were not yet answered are joined, and none is added or charged again."""
    caller = operator.caller(credit="1")
    lane = caller.post_job({"model": "fake/image", "parameters": {"prompt": "[fake:sleep=50] x"}}).json()[
        "id"
    ]
    caller.wait(lane, HELD)
    try:
        left = caller.http.build_request(
            "POST",
            PATH,
            headers={"Authorization": f"Bearer {caller.key}"},
            json=CAT | {"n": 2},
            extensions={"timeout": {"read": 0.5}},
        )
        with pytest.raises(httpx2.ReadTimeout):
            caller.http.send(left)
        waiting = set(caller.newest())
    finally:
        caller.cancel(lane)
    joined = draw(caller, CAT | {"n": 2}, X_Stainless_Retry_Count="1")
    separate = draw(caller, CAT | {"n": 2})

    assert waiting - {lane} == set(jobs_of(joined))
    assert "true" == joined.headers["idempotent-replayed"]
    assert not set(jobs_of(joined)) & set(jobs_of(separate))
    assert 5 == len(caller.get("/v1/jobs").json()["data"])


def test_a_restricted_key_draws_with_its_own_model(operator: Operator) -> None:
    """A key for other kinds has no image model; OpenAI's name then is that of no model."""
    caller = operator.caller(models=["fake/speech"])

    assert [("model", "unknown_model")] == faults(draw(caller, CAT))
    assert (403, "model_not_allowed") == error_code(draw(caller, CAT | {"model": "fake/image"}))
