"""What programs written for OpenAI look up: voices, speech models, one model."""

from typing import Any

from tenuto.account.caller import Caller
from tenuto.api.answers import Answer, json_answer
from tenuto.api.call import Call
from tenuto.api.models import describe, reasons
from tenuto.db.database import Transaction
from tenuto.errors import NotFound
from tenuto.features.openai.names import languages_of
from tenuto.features.voices import operations as voices
from tenuto.features.voices.routes import require_synthesis
from tenuto.kind.model import Model


async def list_voices(call: Call) -> Answer:
    """GET /v1/audio/voices: in the formats that Open WebUI and clients of Kokoro-FastAPI read."""

    def find(tx: Transaction, who: Caller) -> list[dict[str, Any]]:
        require_synthesis(call, who)
        return [
            {"id": voice.id, "name": voice.name, "kind": voice.kind, "languages": languages_of(voice)}
            for voice in voices.names(tx, who.account_id)
        ]

    found = await call.read(find)
    return json_answer(200, {"voices": found, "data": [voice["id"] for voice in found]})


async def list_models(call: Call) -> Answer:
    """GET /v1/audio/models: the speech models."""

    def find(tx: Transaction, who: Caller) -> list[dict[str, Any]]:
        return [{"id": model.name} for model in _visible(call, who) if model.kind == "speech"]

    return json_answer(200, {"models": await call.read(find)})


async def show_model(call: Call) -> Answer:
    """GET /v1/models/{id}: an entry of the list. The slash in the id may be sent as it is, or as %2F."""

    def find(tx: Transaction, who: Caller) -> dict[str, Any]:
        wanted = "/".join(call.scope["path_params"].values()).replace("%2F", "/")
        model = next((model for model in _visible(call, who) if model.name == wanted), None)
        if model is None:
            raise NotFound("There is no such model; GET /v1/models lists those that this key may use.")
        return describe(model, reasons(call.service, tx, [model])[model.name])

    return json_answer(200, await call.read(find))


def _visible(call: Call, who: Caller) -> list[Model]:
    return [model for model in call.service.models.values() if who.may_use(model.name)]
