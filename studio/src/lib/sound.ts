// Sound files that a person brings: decoded by the browser, made into what the service takes.
import type { Asked, Told } from '../workers/messages.ts'
import { readWav, toFloat32, toInt16, writeWav, type Wav } from './wav.ts'
import { lengthOf } from './whole.ts'

export const RECOGNITION_RATE = 16000
const VOICE_RATE = 48000
// A longer recording is not shown to cut a part out of it.
const MOST_TO_CUT_S = 600
// Decoders differ by this much at the ends, for each of a few joined files.
const EDGES_S = 0.5
// Channels whose mean has less than this share of the loudest one's power cancel each other out.
const CANCELLED = 0.01

export type Progress = (done: number, total: number) => void
export type Prepared = { file: Blob; sha256: string }

/** Why a file cannot be used; the word is the end of a message's name. */
export class Unusable extends Error {
  constructor(readonly reason: 'undecodable' | 'unreadable' | 'short' | 'long' | 'cut', readonly seconds = 0) {
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
  const length = lengthOf(bytes)
  const wav = readWav(bytes)
  if (length.isWhole && wav?.channels === 1 && wav.rate === rate && wav.samples.length > 0) return toFloat32(wav.samples)
  // An offline context decodes straight to its own rate.
  const context = new OfflineAudioContext(1, 1, rate)
  const sound = await context.decodeAudioData(bytes).catch(() => {
    throw new Unusable('undecodable')
  })
  if (!length.isWhole || (length.seconds ?? 0) > sound.duration + EDGES_S) throw new Unusable('cut', sound.duration)
  return mixed(Array.from({ length: sound.numberOfChannels }, (_, channel) => sound.getChannelData(channel)))
}

/** The mean of the channels, or the loudest one where they cancel each other out. */
export function mixed(channels: Float32Array[]): Float32Array {
  const [first] = channels
  if (!first || channels.length === 1) return first ?? new Float32Array()
  const mean = new Float32Array(first.length)
  for (const channel of channels) for (let i = 0; i < mean.length; i++) mean[i] = mean[i]! + (channel[i] ?? 0) / channels.length
  const powers = channels.map(powerOf)
  const most = Math.max(...powers)
  return powerOf(mean) < CANCELLED * most ? channels[powers.indexOf(most)]! : mean
}

function powerOf(samples: Float32Array): number {
  let sum = 0
  for (const sample of samples) sum += sample * sample
  return sum
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
  const bytes = await bytesOf(file)
  const wav = readWav(bytes)
  const isGood = lengthOf(bytes).isWhole && wav !== null && wav.samples.length > 0 && wav.channels >= 1 && wav.channels <= 2 && wav.rate >= 8000 && wav.rate <= 192_000
  const samples = isGood ? wav.samples : toInt16(await decode(file, VOICE_RATE))
  const seconds = isGood ? samples.length / wav.channels / wav.rate : samples.length / VOICE_RATE
  if (seconds < 1) throw new Unusable('short', seconds)
  if (seconds > MOST_TO_CUT_S) throw new Unusable('long', seconds)
  if (isGood) return { file, wav }
  const made = writeWav(samples, VOICE_RATE)
  return { file: new Blob([made], { type: 'audio/wav' }), wav: readWav(made.buffer)! }
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
