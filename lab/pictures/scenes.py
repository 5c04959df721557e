"""What each picture shows: the page, and what somebody has done there when it is taken."""

from collections.abc import Callable
from dataclasses import dataclass

from playwright.sync_api import FilePayload

from features.studio.browser.browser import Person

TEXT = {
    "zh": "保持音，是把一个音唱满它的时值。\n她在银<行|HANG2>门口等了很久，直到<乐|YUE4>声停下。",
    "en": "A tenuto is a note that is held for its full value.\nNothing is cut short, nothing is doubled.",
}
PROMPT = {"zh": "蓝色湖面上的一轮红日", "en": "A red sun above a blue lake"}
WORK = [
    ("speech", {"text": "今天下午三点开会，请大家准时参加。", "lang": "zh"}),
    ("speech", {"text": "Hold the note for its full value. Nothing is cut short.", "lang": "en"}),
    ("image", {"prompt": "a red circle above a blue square"}),
    ("image", {"prompt": "一座山，山上有月亮"}),
    ("image", {"prompt": "three green triangles in a row"}),
]
JOB_MS = 240_000


def language_of(somebody: Person) -> str:
    """zh or en, as the page is now."""
    return "zh" if somebody.page.evaluate("document.documentElement.lang").startswith("zh") else "en"


def nothing(somebody: Person) -> None:
    """The page as it opens."""


def speak(somebody: Person) -> None:
    """A text is spoken and its waveform is there; sliders are open."""
    page, language = somebody.page, language_of(somebody)
    page.locator("#text").fill(TEXT[language])
    unfold_settings(somebody)
    page.locator("input[name=emotion][value=vector]").check(force=True)
    page.locator(".sliders input").first.fill("0.6")
    page.locator(".sliders input").nth(6).fill("0.2")
    page.locator(".work .send button").click()
    page.locator(".result .state.succeeded").wait_for(timeout=JOB_MS)
    page.locator(".live").wait_for(state="detached", timeout=JOB_MS)
    page.locator(".waveform .round:not([disabled])").wait_for()
    page.evaluate("window.scrollTo(0, 0)")


def unfold_settings(somebody: Person) -> None:
    """On a narrow screen the settings of speech are folded."""
    folded = somebody.page.locator(".settings > details:not([open]) > summary")
    if folded.count():
        folded.click()


def recognise(somebody: Person) -> None:
    """A recording was recognised, both transcripts are there."""
    page = somebody.page
    recording: FilePayload = {"name": "meeting.wav", "mimeType": "audio/wav", "buffer": _recording(somebody)}
    page.locator("input[type=file]").set_input_files(recording)
    page.locator("form .send button").click()
    page.locator(".transcripts ol li").first.wait_for(timeout=JOB_MS)


def _recording(somebody: Person) -> bytes:
    """Something that was spoken in the language of the page."""
    spoken = somebody.ask("GET", "/web/v1/jobs?kind=speech&state=succeeded")[1]["data"]
    wanted = WORK[0 if language_of(somebody) == "zh" else 1][1]["text"]
    for job in spoken:
        asked = somebody.ask("GET", f"/web/v1/jobs/{job['id']}/request")[1]
        if asked["parameters"]["text"] == wanted:
            path = f"/web/v1/artifacts/{job['artifacts'][0]['id']}/content"
            return somebody.page.request.get(somebody.url + path).body()
    raise LookupError(wanted)


def draw(somebody: Person) -> None:
    """A prompt is written; what was drawn before is below."""
    somebody.page.locator("#prompt").fill(PROMPT[language_of(somebody)])
    somebody.page.locator(".gallery img").first.wait_for()


def talk(somebody: Person) -> None:
    """A question was asked and answered."""
    page = somebody.page
    page.locator("#say").fill({"zh": "什么是保持音？", "en": "What is a tenuto?"}[language_of(somebody)])
    page.locator("#say").press("Enter")
    page.locator(".turn.assistant footer").wait_for(timeout=JOB_MS)


def make_key(somebody: Person) -> None:
    """A key was made and is shown, this once."""
    page = somebody.page
    page.locator("form input").first.fill(
        {"zh": "有声书脚本", "en": "audiobook script"}[language_of(somebody)]
    )
    page.locator("form button").last.click()
    page.locator(".secret code").wait_for()


def make_webhook(somebody: Person) -> None:
    """A webhook was made, its secret is shown, this once, and what was sent to it."""
    page = somebody.page
    page.locator("form input[type=url]").fill("http://127.0.0.1:9/tenuto")
    page.locator("form button").last.click()
    page.locator(".secret code").wait_for()
    page.locator("article.hook .actions button").nth(1).click()
    page.locator("tbody tr .state").first.wait_for()


def manage(somebody: Person) -> None:
    """What can be done with an account is open."""
    somebody.page.locator("tbody button").first.click()
    somebody.page.locator("section.panel").wait_for()


@dataclass(frozen=True)
class Scene:
    """A picture: at which address, and what is done there first."""

    address: str
    set_up: Callable[[Person], None] = nothing
    is_for_visitors: bool = False

    def path(self, somebody: Person) -> str:
        """The address; that of the newest job where it says so."""
        if "JOB" not in self.address:
            return self.address
        somebody.open("/")
        newest = somebody.ask("GET", "/web/v1/jobs?kind=speech&state=succeeded&limit=1")[1]["data"][0]["id"]
        return self.address.replace("JOB", newest)


SCENES = {
    "login": Scene("/login", is_for_visitors=True),
    "register": Scene("/register", is_for_visitors=True),
    "setup": Scene("/setup#secret", is_for_visitors=True),
    "home": Scene("/"),
    "speech": Scene("/speech", speak),
    "voices": Scene("/voices"),
    "recognition": Scene("/recognition", recognise),
    "images": Scene("/images", draw),
    "chat": Scene("/chat", talk),
    "jobs": Scene("/jobs"),
    "job": Scene("/jobs/JOB"),
    "keys": Scene("/keys", make_key),
    "webhooks": Scene("/webhooks", make_webhook),
    "usage": Scene("/usage"),
    "settings": Scene("/settings"),
    "accounts": Scene("/operator/accounts", manage),
    "models": Scene("/operator/models"),
    "queue": Scene("/operator/queue"),
    "statistics": Scene("/operator/statistics"),
    "log": Scene("/operator/log"),
    "recovery": Scene("/operator/recovery"),
    "missing": Scene("/nowhere"),
}


def act_out(somebody: Person) -> None:
    """Some work of every kind, done."""
    models = {one["kind"]: one["id"] for one in reversed(somebody.ask("GET", "/web/v1/models")[1]["data"])}
    for kind, parameters in WORK:
        state = somebody.finish(somebody.submit(models[kind], parameters))
        assert state == "succeeded", (kind, state)
