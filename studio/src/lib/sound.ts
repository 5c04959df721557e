// Sound files that a person brings: decoded by the browser, made into what the service takes.
import type { Asked, Told } from '../workers/messages.ts'
import { readWav, toFloat32, toInt16, writeWav, type Wav } from './wav.ts'

export const RECOGNITION_RATE = 16000
const VOICE_RATE = 48000
// A longer recording is not shown to cut a part out of it.
const MOST_TO_CUT_S = 600

export type Progress = (done: number, total: number) => void
export type Prepared = { file: Blob; sha256: string }

/** Why a file cannot be used; the word is the end of a message's name. */
export class Unusable extends Error {
  constructor(readonly reason: 'undecodable' | 'unreadable' | 'short' | 'long', readonly seconds = 0) {
    super(reason)
  }
}

/** Whether a file is a FLAC by its first bytes, whatever it is called. */
export async function isFlac(file: Blob): Promise<boolean> {
  const head = new Uint8Array(await file.slice(0, 4).arrayBuffer())
  return String.fromCharCode(...head) === 'fLaC'
}

/** All bytes of a file. Browsers read no more than about two gigabytes at once, and nothing that is gone from the disk. */
async function bytesOf(file: Blob): Promise<ArrayBuffer> {
  return file.arrayBuffer().catch(() => {
    throw new Unusable('unreadable')
  })
}

/** All channels of any sound the browser knows, mixed into one at this rate. */
export async function decode(file: Blob, rate: number): Promise<Float32Array> {
  const bytes = await bytesOf(file)
  // Browsers divide samples above zero by 32767 and those below by 32768: loud ones would come back changed.
  const wav = readWav(bytes)
  if (wav?.channels === 1 && wav.rate === rate && wav.samples.length > 0) return toFloat32(wav.samples)
  // An offline context decodes straight to its own rate.
  const context = new OfflineAudioContext(1, 1, rate)
  const sound = await context.decodeAudioData(bytes).catch(() => {
    throw new Unusable('undecodable')
  })
  const mixed = sound.getChannelData(0)
  for (let channel = 1; channel < sound.numberOfChannels; channel++) {
    const other = sound.getChannelData(channel)
    for (let i = 0; i < mixed.length; i++) mixed[i] = (mixed[i] ?? 0) + (other[i] ?? 0)
  }
  if (sound.numberOfChannels > 1) for (let i = 0; i < mixed.length; i++) mixed[i] = (mixed[i] ?? 0) / sound.numberOfChannels
  return mixed
}

/** A FLAC of mono samples, and its hash; at the rate that recognition takes, unless another is given. */
export function encode(
  samples: Float32Array, progress: Progress, signal: AbortSignal, rate: number = RECOGNITION_RATE,
): Promise<Prepared> {
  return work({ kind: 'encode', samples, rate }, [samples.buffer], progress, signal)
}

/** The hash of a file, read piece by piece. */
export function hash(file: Blob, progress: Progress, signal: AbortSignal): Promise<Prepared> {
  return work({ kind: 'hash', file }, [], progress, signal)
}

/**
 * A recording in the form that the service takes for a voice: the WAV as it is where it is one, or else decoded. It may be
 * longer than a voice, of which a part is then selected.
 */
export async function asVoice(file: Blob): Promise<{ file: Blob; wav: Wav }> {
  const wav = readWav(await bytesOf(file))
  const isGood = wav !== null && wav.channels >= 1 && wav.channels <= 2 && wav.rate >= 8000 && wav.rate <= 192_000
  const samples = isGood ? wav.samples : toInt16(await decode(file, VOICE_RATE))
  const seconds = isGood ? samples.length / wav.channels / wav.rate : samples.length / VOICE_RATE
  if (seconds < 1) throw new Unusable('short', seconds)
  if (seconds > MOST_TO_CUT_S) throw new Unusable('long', seconds)
  if (isGood) return { file, wav }
  const bytes = writeWav(samples, VOICE_RATE)
  return { file: new Blob([bytes], { type: 'audio/wav' }), wav: readWav(bytes.buffer)! }
}

function work(asked: Asked, moved: Transferable[], progress: Progress, signal: AbortSignal): Promise<Prepared> {
  const worker = new Worker(new URL('../workers/flac.worker.ts', import.meta.url), { type: 'module' })
  return new Promise<Prepared>((resolve, reject) => {
    signal.addEventListener('abort', () => reject(new DOMException('stopped', 'AbortError')))
    worker.onerror = (event) => reject(new Error(event.message))
    worker.onmessage = ({ data }: MessageEvent<Told>) => {
      if (data.kind === 'progress') progress(data.done, data.total)
      else if (data.kind === 'done') resolve(data)
      else reject(new Error(data.message))
    }
    worker.postMessage(asked, moved)
  }).finally(() => worker.terminate())
}
