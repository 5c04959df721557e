"""Home Assistant's part, in an environment of its own: speaks and transcribes through wyoming_openai.

Starts wyoming_openai with our address, calls it as Home Assistant does, with the `wyoming` package, and
prints what came.
"""

import asyncio
import json
import os
import socket
import sys
from typing import Any

from wyoming.asr import Transcribe, Transcript
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncTcpClient
from wyoming.event import Event
from wyoming.info import Describe, Info
from wyoming.tts import Synthesize, SynthesizeChunk, SynthesizeStart, SynthesizeStop, SynthesizeVoice

STARTED_S = 60
CALL_S = 120


async def main() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address, key = os.environ["ADDRESS"], os.environ["KEY"]
    # fmt: off
    arguments = [
        "--uri", f"tcp://127.0.0.1:{port}", "--languages", "en",
        "--stt-openai-url", address, "--stt-openai-key", key, "--stt-models", "whisper-1",
        "--tts-openai-url", address, "--tts-openai-key", key, "--tts-models", "tts-1", "gpt-4o-mini-tts",
        "--tts-voices", "alloy", "nova", "--tts-streaming-models", "gpt-4o-mini-tts",
    ]
    # fmt: on
    program = await asyncio.create_subprocess_exec(sys.executable, "-m", "wyoming_openai", *arguments)
    try:
        print(json.dumps(await calls(port)))
    finally:
        program.terminate()
        await program.wait()


async def calls(port: int) -> dict[str, Any]:
    info = Info.from_event((await talk(port, [Describe().event()], "info"))[-1])
    voices = [voice.name for program in info.tts for voice in program.voices]
    whole = Synthesize(os.environ["SENTENCE"], SynthesizeVoice(name="alloy (tts-1)")).event()
    spoken = await talk(port, [whole], "audio-stop")
    streamed = await talk(
        port,
        [
            SynthesizeStart(voice=SynthesizeVoice(name="nova (gpt-4o-mini-tts)")).event(),
            *(SynthesizeChunk(f"{word} ").event() for word in os.environ["SENTENCE"].split()),
            SynthesizeStop().event(),
        ],
        "synthesize-stopped",
    )
    start = AudioStart.from_event(next(event for event in spoken if AudioStart.is_type(event.type)))
    sound = pcm(spoken)
    recording = [
        Transcribe(name="whisper-1", language="en").event(),
        AudioStart(rate=start.rate, width=start.width, channels=start.channels).event(),
        AudioChunk(rate=start.rate, width=start.width, channels=start.channels, audio=sound).event(),
        AudioStop().event(),
    ]
    transcript = Transcript.from_event((await talk(port, recording, "transcript"))[-1])
    return {
        "voices": voices,
        "form": [start.rate, start.width, start.channels],
        "seconds": [len(each) / start.rate / start.width for each in (sound, pcm(streamed))],
        "text": transcript.text,
    }


async def talk(port: int, events: list[Event], last: str) -> list[Event]:
    """What is answered to these events, up to the first of the type `last`."""
    client = AsyncTcpClient("127.0.0.1", port)
    await connected(client)
    try:
        answers: list[Event] = []
        async with asyncio.timeout(CALL_S):
            for event in events:
                await client.write_event(event)
            while not answers or answers[-1].type != last:
                event_read = await client.read_event()
                assert event_read is not None, "wyoming_openai has closed the connection"
                assert event_read.type != "error", event_read.data
                answers.append(event_read)
        return answers
    finally:
        await client.disconnect()


async def connected(client: AsyncTcpClient) -> None:
    """Connects as soon as wyoming_openai listens."""
    async with asyncio.timeout(STARTED_S):
        while True:
            try:
                await client.connect()
            except ConnectionRefusedError:
                await asyncio.sleep(0.1)
            else:
                return


def pcm(events: list[Event]) -> bytes:
    """The sound of all chunks."""
    return b"".join(AudioChunk.from_event(event).audio for event in events if AudioChunk.is_type(event.type))


if __name__ == "__main__":
    asyncio.run(main())
