// What a waveform is drawn from, and parts of a sound by their seconds. Knows no browser.
import { writeWav, type Wav } from './wav.ts'

const PER_SECOND = 200
const MOST = 1_000_000

export type Part = { start: number; end: number }

/** Seconds of a sound. */
export function secondsOf(wav: Wav): number {
  return wav.samples.length / wav.channels / wav.rate
}

/** The loudest sample of each stretch, from -1 to 1 with its sign; at most a million of them, 200 a second if they fit. */
export function peaksOf(wav: Wav): Float32Array {
  const frames = wav.samples.length / wav.channels
  const count = Math.max(1, Math.min(MOST, Math.ceil(secondsOf(wav) * PER_SECOND)))
  const peaks = new Float32Array(count)
  for (let i = 0; i < count; i++) {
    const end = Math.floor(((i + 1) * frames) / count) * wav.channels
    let peak = 0
    for (let at = Math.floor((i * frames) / count) * wav.channels; at < end; at++) {
      if (Math.abs(wav.samples[at]!) > Math.abs(peak)) peak = wav.samples[at]!
    }
    peaks[i] = peak / 32768
  }
  return peaks
}

/** The samples between two seconds, all channels. */
export function partOf(wav: Wav, { start, end }: Part): Wav {
  const [from, to] = [start, end].map((second) => Math.round(second * wav.rate) * wav.channels)
  const samples = wav.samples.slice(from, to)
  return { ...wav, samples, bytes: new Uint8Array(samples.buffer) }
}

/** A sound as a file. */
export function wavFile(wav: Wav): Blob {
  return new Blob([writeWav(wav.samples, wav.rate, wav.channels)], { type: 'audio/wav' })
}
