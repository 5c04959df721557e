// Runs on the audio thread: hands every block of the microphone's first channel to the page, and its peak.
// It is a file of its own because the pages allow no script that is made on the fly.
class Recorder extends AudioWorkletProcessor {
  process(inputs) {
    const channel = inputs[0]?.[0]
    if (channel) this.port.postMessage(channel.slice())
    return true
  }
}

registerProcessor('recorder', Recorder)
