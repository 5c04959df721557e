"""What really sounds: a tap beside the loudspeaker of a page, and when each segment was asked for and begun.

It takes the samples that the browser's audio thread renders, so a gap or a changed sample between two
segments shows, whoever put it there.
"""

import base64
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from playwright.sync_api import Page

Samples = NDArray[np.int16]

_WORKLET = """
class Tap extends AudioWorkletProcessor {
  process(inputs) {
    if (inputs[0][0]) this.port.postMessage([currentFrame, inputs[0][0].slice()])
    return true
  }
}
registerProcessor('tap', Tap)
"""

_SCRIPT = """
(() => {
  const address = URL.createObjectURL(new Blob([%s], {type: "text/javascript"}))
  window.heard = {rate: 0, blocks: [], begun: [], asked: []}
  const Real = window.AudioContext
  window.AudioContext = class extends Real {
    constructor(options) {
      super(options)
      this.tapping = this.audioWorklet.addModule(address).then(() => {
        this.tap = new AudioWorkletNode(this, 'tap')
        this.tap.connect(this.destination)
        this.tap.port.onmessage = ({data}) => window.heard.blocks.push(data)
      }).catch(() => undefined)  // a context that was closed before, as for decoding
    }
  }
  const connect = AudioNode.prototype.connect
  AudioNode.prototype.connect = function (to, ...rest) {
    if (this instanceof AudioBufferSourceNode && to === this.context.destination) {
      window.heard.rate = this.context.sampleRate
      connect.call(this, this.context.tap)
    }
    return connect.call(this, to, ...rest)
  }
  const start = AudioBufferSourceNode.prototype.start
  AudioBufferSourceNode.prototype.start = function (when, ...rest) {
    const {currentTime, sampleRate} = this.context
    window.heard.begun.push({
      frame: Math.round(when * sampleRate),
      length: this.buffer.length,
      now: Math.round(currentTime * sampleRate),
      sounds_at: performance.now() + (when - currentTime) * 1000,
    })
    return start.call(this, when, ...rest)
  }
  const plain = window.fetch
  window.fetch = async (address, options) => {
    const asked_at = performance.now()
    const answer = await plain(address, options)
    if (String(address).endsWith('/audio-segments')) {
      const {data} = await answer.clone().json()
      window.heard.asked.push({asked_at, segments: data.length})
    }
    return answer
  }
})()
"""

_READ = """() => {
  const {rate, blocks, begun, asked} = window.heard
  const first = Math.min(...blocks.map(([frame]) => frame))
  const last = Math.max(...blocks.map(([frame, samples]) => frame + samples.length))
  const whole = new Int16Array(last - first)
  for (const [frame, samples] of blocks) {
    samples.forEach((x, i) => { whole[frame - first + i] = Math.round(x * 32768) })
  }
  let text = ''
  for (const byte of new Uint8Array(whole.buffer)) text += String.fromCharCode(byte)
  return {rate, first, begun, asked, samples: btoa(text)}
}"""


@dataclass(frozen=True)
class Begun:
    """A segment as the page started it: at which frame, how long, and what time it was then."""

    frame: int
    length: int
    now: int


@dataclass(frozen=True)
class Heard:
    """All that sounded, from the frame `first` of the page's audio clock on."""

    rate: int
    first: int
    samples: Samples
    begun: list[Begun]
    first_sound_ms: float
    """From the last listing that was still empty, so no later than the first segment, to its first sound."""

    def of(self, segment: Begun) -> Samples:
        """What sounded while a segment was due."""
        start = segment.frame - self.first
        return self.samples[start : start + segment.length]


def tap(page: Page) -> None:
    """Put the tap in, before the page is opened; its policy must be off, for it forbids such scripts."""
    page.add_init_script(_SCRIPT % json.dumps(_WORKLET))


def heard(page: Page) -> Heard:
    """What has sounded so far."""
    told: dict[str, Any] = page.evaluate(_READ)
    empty = [one["asked_at"] for one in told["asked"] if one["segments"] == 0]
    return Heard(
        rate=told["rate"],
        first=told["first"],
        samples=np.frombuffer(base64.b64decode(told["samples"]), dtype="<i2"),
        begun=[Begun(one["frame"], one["length"], one["now"]) for one in told["begun"]],
        first_sound_ms=told["begun"][0]["sounds_at"] - max(empty, default=told["asked"][0]["asked_at"]),
    )
