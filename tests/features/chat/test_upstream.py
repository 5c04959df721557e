"""An upstream's settings and key, and the one case in which a request is sent again."""

import asyncio
import threading
import time
from pathlib import Path

import msgspec
import pytest

from servers.upstream import UpstreamServer
from tenuto import config
from tenuto.config import UpstreamSettings
from tenuto.errors import ModelUnavailable, OperatorError, SettingsInvalid
from tenuto.features.chat.answers import Embeddings
from tenuto.features.chat.chat_body import ChatRequest
from tenuto.features.chat.embeddings import MANY_INPUTS, UpstreamEmbeddings
from tenuto.features.chat.embeddings_body import EmbeddingRequest
from tenuto.features.chat.messages import Message
from tenuto.features.chat.upstream import UpstreamChat
from tenuto.kind.model import models
from tenuto.kind.upstream_keys import read_key

REQUEST = ChatRequest(model="a/b", messages=(Message("user", "Hello."),))


def load(folder: Path, text: str) -> config.Settings:
    file = folder / "tenuto.toml"
    file.write_text(text)
    return config.load({}, file=file)


def test_settings_name_a_model_of_another_server(tmp_path: Path) -> None:
    """The table's name is the model's name here; a child process gets the same settings."""
    settings = load(
        tmp_path,
        '[models."a/b"]\nupstream = "https://host/v1"\nupstream_model = "c"\nupstream_key_file = "/k"\n',
    )
    model = models(settings)["a/b"]

    expected = UpstreamSettings("https://host/v1", model="c", key_file="/k")
    assert ("chat", "chat", expected) == (model.kind, model.interface, model.upstream)
    assert settings == config.undump(config.dump(settings))


def test_wrong_settings_are_named_all_at_once(tmp_path: Path) -> None:
    with pytest.raises(SettingsInvalid) as caught:
        load(
            tmp_path,
            '[models."a/b"]\nupstream = "https://me:secret@host/v1"\nupstream_key_variable = "K"\n'
            'upstream_key_file = "/k"\nconnections = 0\nprice = "1"\nwarm = true\ntakes = ["tool"]\n'
            '[models."c/d"]\nupstream_model = "x"\n[models."e/f"]\nupstream = "http://h/v1"\n'
            'serves = "embeddings"\nlongest_answer = 5\ninput_price = "1"\noutput_price = "1"\n',
        )

    names = ("upstream", "upstream_key_file", "connections", "price", "warm", "takes")
    assert all(f'models."a/b".{name}: ' in caught.value.message for name in names)
    assert 'models."c/d".upstream: ' in caught.value.message
    assert 'models."e/f".output_price: means nothing' in caught.value.message
    assert "secret" not in caught.value.message


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ('[models."hexgrad/Kokoro-82M"]\nupstream = "http://host/v1"\n', "is Tenuto's own"),
        ('[models."Qwen/Qwen2.5-Coder-0.5B-Instruct"]\nprice = "1"\n', "free of charge"),
    ],
)
def test_our_own_models_stay_what_they_are(tmp_path: Path, table: str, said: str) -> None:
    """None of ours is answered by somebody else, and no chat costs money."""
    with pytest.raises(SettingsInvalid, match=said):
        models(load(tmp_path, table))


def test_the_key_comes_from_a_variable_or_a_file(tmp_path: Path) -> None:
    """Neither named: none is sent; missing, empty or not one line: said before anything starts (P16)."""
    file = tmp_path / "key"
    file.write_text("from-a-file\n")
    wrong = tmp_path / "wrong"
    wrong.write_text("two\nlines")
    in_variable = UpstreamSettings("http://host", key_variable="K")

    assert None is read_key(UpstreamSettings("http://host"), {}, "a/b")
    assert "from-a-variable" == read_key(in_variable, {"K": "from-a-variable"}, "a/b")
    assert "from-a-file" == read_key(UpstreamSettings("http://host", key_file=str(file)), {}, "a/b")
    for missing in (in_variable, UpstreamSettings("http://host", key_file=str(wrong))):
        with pytest.raises(OperatorError, match="there is no key") as caught:
            read_key(missing, {}, "a/b")
        assert "two" not in caught.value.message


def test_a_request_is_sent_again_only_when_no_connection_was_made() -> None:
    """A server that comes up a moment later is reached; a call that was cut off is not made again (P10)."""
    server = UpstreamServer()
    url, port = server.url, server.port
    server.close()
    back: list[UpstreamServer] = []

    def come_back() -> None:
        time.sleep(0.05)
        back.append(UpstreamServer(port))

    async def scenario() -> str:
        chat = UpstreamChat("a/b", UpstreamSettings(url), None, timeout_s=10)
        try:
            coming = threading.Thread(target=come_back)
            coming.start()
            answer = await chat.complete(REQUEST, lambda _: None)
            coming.join()
            cut = ChatRequest(model="a/b", messages=(Message("user", "[up:cut]"),))
            with pytest.raises(ModelUnavailable):
                await chat.complete(cut, lambda _: None)
            return answer.choices[0].text or ""
        finally:
            await chat.close()

    try:
        assert "Hello." == asyncio.run(scenario())
        assert [None, None] == back[0].seen.authorizations
    finally:
        back[0].close()


@pytest.mark.parametrize(("count", "form"), [(MANY_INPUTS, "float"), (MANY_INPUTS + 1, "base64")])
def test_numbers_of_many_inputs_are_asked_for_in_the_short_form(count: int, form: str) -> None:
    """2,048 vectors of 3,072 numbers would be too long for us, and the upstream's work for nothing (P3)."""
    server = UpstreamServer()

    async def embedded() -> Embeddings:
        engine = UpstreamEmbeddings("a/b", UpstreamSettings(server.url), None, timeout_s=60)
        try:
            return await engine.embed(EmbeddingRequest(model="a/b", input=["x"] * count))
        finally:
            await engine.close()

    made = asyncio.run(embedded())
    server.close()

    assert form == server.seen.bodies[0]["encoding_format"]
    assert [[number, 0.5, -2.0] for number in range(count)] == [
        msgspec.json.decode(one) for one in made.vectors
    ]
