// One take of the microphone: its samples, how loud it is and how long it lasts. Needs HTTPS or the same machine.
import recorder from '../worklets/recorder.js?url'
import { toInt16, writeWav } from './wav.ts'

export const MAX_S = 15
export const MIN_S = 1

/** Whether this page may hear at all: browsers give the microphone to secure pages only. */
export function canRecord(): boolean {
  return window.isSecureContext && navigator.mediaDevices !== undefined && 'AudioWorkletNode' in window
}

/** The microphones, by name once one of them was allowed. */
export async function microphones(): Promise<MediaDeviceInfo[]> {
  return (await navigator.mediaDevices.enumerateDevices()).filter((device) => device.kind === 'audioinput')
}

/** A take that runs from `start` until `stop`, or until it is as long as a voice may be. */
export class Take {
  seconds = $state(0)
  level = $state(0)
  isRunning = $state(false)
  /** Whether it was ended, by a click or by its length; before that the browser may still be asking. */
  isOver = $state(false)
  file = $state.raw<Blob | null>(null)
  #blocks: Float32Array[] = []
  #frames = 0
  #stream: MediaStream | null = null
  #context: AudioContext | null = null
  #isDiscarded = false

  /** Asks for the microphone and listens. What the browser would do to a call (echo, noise, gain) stays off. */
  async start(device: string): Promise<void> {
    const plain = { echoCancellation: false, noiseSuppression: false, autoGainControl: false, channelCount: 1 }
    const audio = { ...plain, ...(device ? { deviceId: { exact: device } } : {}) }
    this.#stream = await navigator.mediaDevices.getUserMedia({ audio })
    // While the browser was asking, the page was left.
    if (this.#isDiscarded) return this.#release()
    this.#context = new AudioContext()
    await this.#context.audioWorklet.addModule(recorder)
    if (this.#isDiscarded) return
    const node = new AudioWorkletNode(this.#context, 'recorder')
    node.port.onmessage = ({ data }: MessageEvent<Float32Array>) => this.#hear(data)
    // Its output is silence; some browsers run only what leads to the loudspeaker.
    this.#context.createMediaStreamSource(this.#stream).connect(node).connect(this.#context.destination)
    this.isRunning = true
  }

  /** Ends the take; `file` is then there if it is long enough. */
  stop(): void {
    if (!this.isRunning) return
    this.isRunning = false
    this.isOver = true
    this.level = 0
    const rate = this.#context?.sampleRate ?? 48000
    this.#release()
    if (this.#frames < MIN_S * rate) return
    const samples = new Float32Array(this.#frames)
    let at = 0
    for (const block of this.#blocks) {
      samples.set(block, at)
      at += block.length
    }
    this.file = new Blob([writeWav(toInt16(samples), rate)], { type: 'audio/wav' })
  }

  /** Lets the microphone go, whatever there is. */
  discard(): void {
    this.#isDiscarded = true
    this.isRunning = false
    this.#release()
  }

  #hear(block: Float32Array): void {
    if (!this.isRunning || this.#context === null) return
    const room = MAX_S * this.#context.sampleRate - this.#frames
    this.#blocks.push(block.subarray(0, room))
    this.#frames += Math.min(block.length, room)
    this.seconds = this.#frames / this.#context.sampleRate
    const peak = block.reduce((most, sample) => Math.max(most, Math.abs(sample)), 0)
    // It rises at once and falls slowly, as the eye expects of a meter.
    this.level = Math.max(peak, this.level * 0.95)
    if (room <= block.length) this.stop()
  }

  #release(): void {
    this.#stream?.getTracks().forEach((track) => track.stop())
    void this.#context?.close().catch(() => undefined)
    this.#stream = null
  }
}
