"""POST /v1/images/generations by OpenAI's own package and as others send it; the fake engine draws."""

import base64
import io

import pytest

from servers.callers import Caller, Operator
from servers.openai_calls import CAT, draw, jobs_of, package

pytestmark = pytest.mark.variant("database", only="postgresql")


@pytest.fixture(scope="module")
def rich(operator: Operator) -> Caller:
    """An account that can pay for many images."""
    return operator.caller(credit="100")


def picture(content: bytes) -> tuple[str | None, tuple[int, int]]:
    """The format and the size of a picture that can be shown whole."""
    from PIL import Image

    with Image.open(io.BytesIO(content)) as image:
        image.load()
        return image.format, image.size


def test_openais_own_package_draws(rich: Caller) -> None:
    """Two images are two jobs; the PNG is the artifact's own, byte for byte; the charge is their sum.

    Without a model, as the package sends it unless asked to, it is the first image model that can be called.
    """
    raw = package(rich).images.with_raw_response.generate(prompt="A cat.", n=2, size="256x256")
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
    """PNG, JPEG and WebP, inside the answer or as an address that holds the image itself; the same as
    renditions of the job's result."""
    found = {}
    for form in ("png", "jpeg", "webp"):
        answer = draw(rich, CAT | {"output_format": form, "response_format": "url"}, Idempotency_Key="forms")
        start, _, content = answer.json()["data"][0]["url"].partition(",")
        found[start] = picture(base64.b64decode(content))
        artifact = rich.read(jobs_of(answer)[0])["artifacts"][0]
        rendition = rich.get(f"/v1/artifacts/{artifact['id']}/rendition?form={form}")
        assert base64.b64decode(content) == rendition.content

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


def test_a_wrong_size_is_told_the_range(rich: Caller) -> None:
    """The message is enough to send the right thing."""
    message = draw(rich, CAT | {"size": "128x2052"}).json()["error"]["message"]

    assert "width is 128; it must be from 256 to 2048 pixels" in message
    assert "height is 2052; it must be from 256 to 2048 pixels" in message
