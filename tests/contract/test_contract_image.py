"""Images: parameters, the PNG, the seed, and the price."""

import hashlib
import re
import struct
import zlib
from typing import Any

import pytest

from servers.callers import ON_ONE_DATABASE, Caller, Operator, error_code
from servers.service import FINAL

pytestmark = pytest.mark.variant("database", only="postgresql")

IMAGE = "fake/image"
MAX_SEED = 2**63 - 1
SMALL = {"width": 256, "height": 256}


def image(prompt: Any = "A long note, held.", **parameters: Any) -> dict[str, Any]:
    return {"model": IMAGE, "parameters": {"prompt": prompt, **parameters}}


@pytest.fixture(scope="module")
def rich(operator: Operator) -> Caller:
    """An account that can pay for many images."""
    return operator.caller(credit="100")


def made(caller: Caller, body: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """The artifact of a job that succeeds, and its bytes."""
    answer = caller.post_job(body)
    assert answer.status_code == 202, answer.text
    operation = caller.wait(answer.json()["id"])
    assert operation["state"] == "succeeded", operation
    artifact = operation["artifacts"][0]
    return artifact, caller.get(f"/v1/artifacts/{artifact['id']}/content").content


def size_of(png: bytes) -> tuple[int, int]:
    """Width and height of an RGB PNG, read by hand; its pixels are all there."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height, depth, colour = struct.unpack(">IIBB", png[16:26])
    at, data = 8, b""
    while at < len(png):
        length, name = struct.unpack(">I4s", png[at : at + 8])
        body = png[at + 8 : at + 8 + length]
        assert struct.pack(">I", zlib.crc32(name + body)) == png[at + 8 + length : at + 12 + length]
        data += body if name == b"IDAT" else b""
        at += 12 + length
    assert (8, 2, height * (1 + 3 * width)) == (depth, colour, len(zlib.decompress(data)))
    return width, height


@pytest.mark.parametrize(("width", "height"), [(2048, 256), (264, 1000)])
def test_an_image_is_a_png_of_just_that_size(rich: Caller, width: int, height: int) -> None:
    """The file, its type and its metadata agree on width and height (R3, R43, R49, R139, R140, R145)."""
    artifact, content = made(rich, image(width=width, height=height))

    assert "image/png" == artifact["media_type"]
    assert (width, height) == size_of(content)
    assert (width, height) == (artifact["metadata"]["width"], artifact["metadata"]["height"])
    assert artifact["sha256"] == hashlib.sha256(content).hexdigest()
    assert (True, IMAGE, "1") == tuple(
        artifact["metadata"][n] for n in ("fake", "model_id", "model_revision")
    )


def test_prompts_of_both_languages_are_taken(rich: Caller) -> None:
    """Chinese and English, up to 20,000 bytes; every prompt has an image of its own (R137, R138)."""
    prompts = ("一个音符，余音未了。", "A note that is still held.", "x" * 20_000, "字" * 6_666, " x ")

    assert 5 == len({made(rich, image(prompt, seed=1, **SMALL))[1] for prompt in prompts})


@ON_ONE_DATABASE
def test_what_is_out_of_bounds_is_refused(rich: Caller) -> None:
    """A prompt of 1 to 20,000 bytes, sides of 256 to 2,048 in steps of 8, steps of 1 to 100, guidance of 0 to
    20, seeds of 0 to 2^63 - 1, and nothing else (R25, R92, R137, R139–R143, R147, R208)."""
    wrong: list[tuple[str, list[Any], str]] = [
        ("prompt", ["", " \u3000\n"], "empty"),
        ("prompt", ["x" * 20_001, "字" * 6_667], "too_long"),
        *((name, [255, 2049, 260], "out_of_range") for name in ("width", "height")),
        ("num_inference_steps", [0, 101], "out_of_range"),
        ("guidance_scale", [-0.01, 20.01], "out_of_range"),
        ("seed", [-1, MAX_SEED + 1], "out_of_range"),
        ("prompt", [5], "wrong_type"),
        ("guidance_scale", ["512", None], "wrong_type"),
        *(
            (name, ["512", None, 512.5], "wrong_type")
            for name in ("width", "height", "num_inference_steps", "seed")
        ),
        *((name, [1], "unknown_name") for name in ("steps", "Width")),
    ]

    for name, values, code in wrong:
        for value in values:
            found = rich.refused(image(**{"prompt": "x", name: value}))
            assert [(f"parameters.{name}", code)] == found, value


def test_bounds_are_inclusive_and_numbers_have_two_forms(rich: Caller) -> None:
    """Both ends of steps, guidance and seed are taken; `7` is a number as `7.0` is (R141, R142, R143)."""
    bodies = [
        image(num_inference_steps=1, guidance_scale=0, seed=0, **SMALL),
        image(num_inference_steps=100, guidance_scale=20.0, seed=MAX_SEED, **SMALL),
        image(guidance_scale=7, **SMALL),
    ]
    answers = [rich.post_job(body) for body in bodies]

    assert {202} == {answer.status_code for answer in answers}
    assert {"succeeded"} == {rich.wait(answer.json()["id"])["state"] for answer in answers}


def test_the_same_seed_makes_the_same_image(rich: Caller) -> None:
    """Seed and parameters fix the bytes; another seed, or any other figure, makes another image (R144)."""
    base = {"seed": 7, "num_inference_steps": 4, "guidance_scale": 5, **SMALL}
    first, again = made(rich, image(**base))[1], made(rich, image(**base))[1]
    others = [
        made(rich, image(**base | change))[1]
        for change in ({"seed": 8}, {"num_inference_steps": 5}, {"guidance_scale": 5.5}, {"height": 264})
    ]

    assert first == again
    assert 5 == len({first, *others})


def test_seeds_near_the_end_stay_exact(rich: Caller) -> None:
    """2^63 - 1 and its neighbour are two seeds, to the key, to the engine and in the record (R143, R144)."""
    answers = [rich.post_job(image(seed=seed, **SMALL), key="seed") for seed in (MAX_SEED, MAX_SEED - 1)]
    pairs = [made(rich, image(seed=seed, **SMALL)) for seed in (MAX_SEED, MAX_SEED - 1, MAX_SEED - 2)]
    rich.wait(answers[0].json()["id"])

    assert [202, 409] == [answer.status_code for answer in answers]
    assert [MAX_SEED, MAX_SEED - 1, MAX_SEED - 2] == [artifact["metadata"]["seed"] for artifact, _ in pairs]
    assert 3 == len({content for _, content in pairs})


def test_a_seed_that_is_left_out_is_drawn_and_told(rich: Caller) -> None:
    """Two images without a seed differ; the seed that the record tells makes the image again (R143, R144)."""
    (first, content), (second, other) = (made(rich, image(**SMALL)) for _ in range(2))
    seed = first["metadata"]["seed"]
    _, again = made(rich, image(seed=seed, **SMALL))

    assert content != other
    assert seed != second["metadata"]["seed"]
    assert 0 <= seed <= MAX_SEED
    assert content == again


def test_what_is_left_out_is_the_models_choice(operator: Operator, rich: Caller) -> None:
    """Size, steps and guidance of the model are frozen with the job; the image has that size (R144, R145)."""
    answer = rich.post_job(image("defaults", seed=3))
    frozen = operator.parameters(answer.json()["id"])
    artifact = rich.wait(answer.json()["id"])["artifacts"][0]
    given = made(rich, image(**{name: value for name, value in frozen.items() if name != "prompt"}))

    assert {
        "prompt": "defaults",
        "seed": 3,
        "width": 512,
        "height": 512,
        "num_inference_steps": 20,
        "guidance_scale": 7.5,
    } == frozen
    assert (512, 512) == (artifact["metadata"]["width"], artifact["metadata"]["height"])
    assert (512, 512) == size_of(given[1])


@ON_ONE_DATABASE
@pytest.mark.parametrize("wrong", ["cut", "other_size"])
def test_what_is_no_png_of_that_size_fails_the_job(operator: Operator, wrong: str) -> None:
    """A broken or other image is never a result, and costs nothing (R33, R34, R145, R217)."""
    caller = operator.caller(credit="0.05")
    answer = caller.post_job(image(f"[fake:{wrong}] x", **SMALL))
    operation = caller.wait(answer.json()["id"])

    assert ("failed", "engine_failed", []) == (
        operation["state"],
        operation["error"]["code"],
        operation["artifacts"],
    )
    assert (50_000, 0) == operator.money(caller)


def test_an_image_costs_five_cents(operator: Operator) -> None:
    """0.05 CNY are held and charged; with less nothing is accepted or stored; the catalog says so
    (R135, R146, R148, R209)."""
    caller = operator.caller(credit="0.099999")
    accepted = caller.post_job(image(**SMALL)).json()
    refused = caller.post_job(image(**SMALL))
    operation = caller.wait(accepted["id"])
    shown = next(model for model in caller.get("/v1/models").json()["data"] if model["id"] == IMAGE)

    assert (403, "insufficient_balance") == error_code(refused)
    assert [accepted["id"]] == caller.newest()
    assert "0.050000" == accepted["billing"]["held"]
    assert {"held": "0.000000", "charged": "0.050000", "currency": "CNY"} == operation["billing"]
    assert (49_999, 0) == operator.money(caller)
    assert ("image", "jobs", True) == (shown["kind"], shown["interface"], shown["callable"])
    assert {"currency": "CNY", "unit": "job", "price": "0.050000", "hold": "0.050000"} == shown["pricing"]


def test_images_run_beside_speech(rich: Caller) -> None:
    """An image has a lane of its own: it is made while speech is busy (R130, R214)."""
    speaking = rich.block_lane()
    artifact, _ = made(rich, image(**SMALL))
    state = rich.read(speaking)["state"]
    rich.cancel(speaking)

    assert "running" == state
    assert re.fullmatch("artifact_[0-9a-z]{26}", artifact["id"])
    assert "cancelled" == rich.wait(speaking, FINAL)["state"]
