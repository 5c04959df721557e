// How good a recording is for a voice, as far as its samples tell, and making it louder. Knows no browser.
import type { Wav } from './wav.ts'

const FRAME_S = 0.02
// Samples this near to the end of the range, several in a row, were cut off.
const FULL = 0.985
const CLIPPED_RUN = 3
const TARGET_DB = -20
const MOST_PEAK_DB = -1
const FLOOR_DB = -90

export type Quality = {
  seconds: number
  /** Of the loudest sample. */
  peakDb: number
  /** Of the parts in which somebody speaks; of all where nothing is quieter. */
  speechDb: number
  /** Of the quietest tenth. */
  noiseDb: number
  /** Places where the wave was cut off. */
  clipped: number
  /** The share of the time in which somebody speaks, from 0 to 1. */
  speechShare: number
  /** Seconds in which the sound fades by 60 dB, roughly; null where no pause shows it. */
  echoS: number | null
}

export type Finding = { topic: 'length' | 'level' | 'clipping' | 'noise' | 'echo'; verdict: 'good' | 'poor' | 'unknown'; value: string }

/** Measures the samples; channels are taken one after the other as they lie. */
export function measure(wav: Wav): Quality {
  const { samples, channels, rate } = wav
  const levels = levelsOf(samples, Math.max(1, Math.round(FRAME_S * rate)) * channels)
  const sorted = [...levels].sort((one, other) => one - other)
  const at = (share: number): number => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? FLOOR_DB
  const [noiseDb, loudDb] = [at(0.1), at(0.95)]
  const limit = Math.max(loudDb - 25, (noiseDb + loudDb) / 2)
  const spoken = levels.filter((level) => level >= limit)
  const power = spoken.reduce((sum, level) => sum + 10 ** (level / 10), 0) / Math.max(1, spoken.length)
  return {
    seconds: samples.length / channels / rate, peakDb: decibels(peakOf(samples)), speechDb: power > 0 ? 10 * Math.log10(power) : FLOOR_DB,
    noiseDb, clipped: clippedIn(samples, channels), speechShare: spoken.length / Math.max(1, levels.length),
    echoS: echoOf(levels, loudDb, noiseDb),
  }
}

/** What to say of it, one finding for each topic. */
export function findings(quality: Quality): Finding[] {
  const { seconds, speechDb, peakDb, noiseDb, clipped, echoS } = quality
  const distance = speechDb - noiseDb
  const isFlat = quality.speechShare > 0.97
  return [
    { topic: 'length', verdict: seconds >= 3 && seconds <= 15 ? 'good' : 'poor', value: seconds.toFixed(1) },
    { topic: 'level', verdict: speechDb >= -35 && peakDb >= -20 ? 'good' : 'poor', value: speechDb.toFixed(0) },
    { topic: 'clipping', verdict: clipped === 0 ? 'good' : 'poor', value: String(clipped) },
    { topic: 'noise', verdict: isFlat ? 'unknown' : distance >= 25 ? 'good' : 'poor', value: distance.toFixed(0) },
    { topic: 'echo', verdict: echoS === null ? 'unknown' : echoS <= 0.6 ? 'good' : 'poor', value: (echoS ?? 0).toFixed(1) },
  ]
}

/** The same, as loud as speech usually is, unless its peaks forbid it. */
export function normalised(wav: Wav): Wav {
  const { speechDb, peakDb } = measure(wav)
  const gain = 10 ** (Math.min(TARGET_DB - speechDb, MOST_PEAK_DB - peakDb) / 20)
  const samples = wav.samples.map((sample) => Math.max(-32768, Math.min(32767, Math.round(sample * gain))))
  return { ...wav, samples, bytes: new Uint8Array(samples.buffer) }
}

function levelsOf(samples: Int16Array, frame: number): number[] {
  const levels: number[] = []
  for (let start = 0; start + frame <= samples.length; start += frame) {
    let sum = 0
    for (let at = start; at < start + frame; at++) sum += (samples[at]! / 32768) ** 2
    levels.push(decibels(Math.sqrt(sum / frame)))
  }
  return levels
}

function decibels(amplitude: number): number {
  return amplitude > 0 ? Math.max(FLOOR_DB, 20 * Math.log10(amplitude)) : FLOOR_DB
}

function peakOf(samples: Int16Array): number {
  return samples.reduce((most, sample) => Math.max(most, Math.abs(sample)), 0) / 32768
}

/** Runs of samples at the end of the range, counted for each channel alone. */
function clippedIn(samples: Int16Array, channels: number): number {
  let found = 0
  for (let channel = 0; channel < channels; channel++) {
    let run = 0
    for (let at = channel; at < samples.length; at += channels) {
      run = Math.abs(samples[at]!) >= FULL * 32768 ? run + 1 : 0
      if (run === CLIPPED_RUN) found += 1
    }
  }
  return found
}

/** From how fast the sound falls where speech stops: the middle of all such places, told for 60 dB. */
function echoOf(levels: number[], loudDb: number, noiseDb: number): number | null {
  const [high, low] = [loudDb - 8, Math.max(loudDb - 28, noiseDb + 6)]
  if (high - low < 12) return null
  const slopes: number[] = []
  for (let at = 1; at < levels.length; at++) {
    if (levels[at - 1]! < high || levels[at]! >= high) continue
    const end = levels.findIndex((level, i) => i >= at && (level <= low || level > high))
    if (end !== -1 && levels[end]! <= low) slopes.push(((end - at + 1) * FRAME_S * 60) / (levels[at - 1]! - levels[end]!))
  }
  if (slopes.length < 2) return null
  return slopes.sort((one, other) => one - other)[Math.floor(slopes.length / 2)] ?? null
}
