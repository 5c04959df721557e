"""The routes for programs written for OpenAI."""

from tenuto.api.call import Routes
from tenuto.config import Settings
from tenuto.features.openai import embeddings, images, lists, responses, speech, transcriptions
from tenuto.features.openai.settings import OpenAISettings

OPENAI_PATHS = ("/v1/audio/", "/v1/images/", "/v1/embeddings", "/v1/responses")
"""Prefixes of paths that exist only for programs written for OpenAI; a setting turns them off."""
_ROUTES: Routes = {
    "/v1/models/{model}": {"GET": lists.show_model},
    "/v1/models/{owner}/{model}": {"GET": lists.show_model},
    "/v1/audio/speech": {"POST": speech.create},
    "/v1/audio/transcriptions": {"POST": transcriptions.create},
    "/v1/audio/translations": {"POST": transcriptions.refuse_translation},
    "/v1/images/generations": {"POST": images.create},
    "/v1/embeddings": {"POST": embeddings.create},
    "/v1/responses": {"POST": responses.create},
    "/v1/audio/voices": {"GET": lists.list_voices},
    "/v1/audio/models": {"GET": lists.list_models},
}


def routes(settings: Settings) -> Routes:
    """Those that the settings leave on."""
    is_on = settings.of(OpenAISettings).openai_routes == "on"
    return {path: methods for path, methods in _ROUTES.items() if is_on or not path.startswith(OPENAI_PATHS)}
