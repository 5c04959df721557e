"""An image through the public API alone, with the real engine: its bytes, its record, its cancelling."""

import base64
import io
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from servers.callers import Caller, Operator
from servers.service import FINAL, RunningService
from tenuto.features.image.png import read_png

MODEL = "tenuto/pictograms"

pytestmark = pytest.mark.real_engine


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    """A caller of a service with the real engines."""
    folder: Path = tmp_path_factory.mktemp("drawing")
    running = RunningService(folder / "data", engines="real")
    running.start()
    operator = Operator(running)
    yield operator.caller(credit="1")
    operator.close()
    running.stop()


def body(prompt: str, **parameters: Any) -> dict[str, Any]:
    return {"model": MODEL, "parameters": {"prompt": prompt, **parameters}}


def test_a_prompt_becomes_a_real_png(real: Caller) -> None:
    """The model's own size, the seed that was drawn, what was drawn, and the price (R138, R144–R146)."""
    operation = real.wait(real.post_job(body("两只猫")).json()["id"], timeout_s=120)
    artifact = operation["artifacts"][0]
    content = real.get(f"/v1/artifacts/{artifact['id']}/content").content
    again = body("两只猫", seed=artifact["metadata"]["seed"])
    second = real.wait(real.post_job(again).json()["id"], timeout_s=120)["artifacts"][0]

    assert (512, 512) == struct.unpack(">II", content[16:24])
    assert read_png(content)
    assert [{"phrase": "猫", "concept": "cat", "count": 2}] == artifact["metadata"]["drawn"]
    assert (artifact["sha256"], []) == (second["sha256"], second["metadata"]["warnings"])
    assert {"held": "0.000000", "charged": "0.050000", "currency": "CNY"} == operation["billing"]


def test_openais_own_package_draws(real: Caller) -> None:
    """Two images of one request, drawn with seeds of their own, in the size and the form that it asks for."""
    import openai

    url = str(real.http.base_url).rstrip("/") + "/v1"
    with openai.OpenAI(base_url=url, api_key=real.key, timeout=600) as client:
        drawn = client.images.generate(
            model="dall-e-3",
            prompt="A red sun above a blue mountain.",
            n=2,
            size="256x256",
            output_format="webp",
        )
    images = [base64.b64decode(image.b64_json or "") for image in drawn.data or []]

    assert [(256, 256)] * 2 == [Image.open(io.BytesIO(image)).size for image in images]
    assert {b"WEBP"} == {image[8:12] for image in images}
    assert images[0] != images[1]


def test_an_image_can_be_cancelled_while_it_is_drawn(real: Caller) -> None:
    """The engine stops before its next step; nothing is made and nothing is charged (R34, R217)."""
    large = body("a cat", num_inference_steps=100, width=2048, height=2048)
    job_id = real.post_job(large).json()["id"]
    real.wait(job_id, ("running",))
    real.cancel(job_id)
    operation = real.wait(job_id, FINAL)

    assert ("cancelled", [], "0.000000") == (
        operation["state"],
        operation["artifacts"],
        operation["billing"]["charged"],
    )
