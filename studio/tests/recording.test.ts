// What is said of a recording before it becomes a voice.
import { describe, expect, it } from 'vitest'
import { findings, measure, normalised } from '../src/lib/recording.ts'
import type { Wav } from '../src/lib/wav.ts'

const RATE = 16_000
/** Words of half a second and pauses of as long, which fade by 60 dB in so many seconds, over noise. */
function recording({ seconds = 6, level = 0.2, noise = 0.0003, fadeS = 0.1 } = {}): Wav {
  let seed = 1
  const random = (): number => ((seed = (seed * 16807) % 2147483647) / 2147483647) * 2 - 1
  const samples = Int16Array.from({ length: seconds * RATE }, (_, i) => {
    const at = (i / RATE) % 1
    const envelope = at < 0.5 ? 1 : 10 ** ((-3 * (at - 0.5)) / fadeS)
    const sample = envelope * level * Math.SQRT2 * Math.sin(i / 9) + noise * random()
    return Math.max(-32768, Math.min(32767, Math.round(sample * 32768)))
  })
  return { rate: RATE, channels: 1, samples, bytes: new Uint8Array(samples.buffer) }
}
const poor = (wav: Wav): string[] => findings(measure(wav)).filter((one) => one.verdict === 'poor').map((one) => one.topic)

describe('a recording', () => {
  it('that is good has nothing against it', () => {
    expect(poor(recording())).toEqual([])
  })

  it('is told what is wrong with it, one thing at a time', () => {
    expect(poor(recording({ seconds: 2 }))).toEqual(['length'])
    expect(poor(recording({ level: 0.005, noise: 0.00001 }))).toEqual(['level'])
    expect(poor(recording({ level: 0.9 }))).toEqual(['clipping'])
    expect(poor(recording({ noise: 0.06 }))).toEqual(['noise'])
    expect(poor(recording({ fadeS: 0.9, noise: 0.001 }))).toEqual(['echo'])
  })

  it('is measured in decibels', () => {
    const { speechDb, noiseDb, seconds, echoS } = measure(recording({ fadeS: 0.3 }))

    expect(seconds).toBe(6)
    expect(speechDb).toBeCloseTo(-14.4, 0)
    expect(noiseDb).toBeLessThan(-60)
    expect(echoS).toBeGreaterThan(0.2)
    expect(echoS).toBeLessThan(0.4)
  })

  it('of silence or of one tone is told as such and breaks nothing', () => {
    const silence = { ...recording({ seconds: 3 }), samples: new Int16Array(3 * RATE) }

    expect(poor(silence)).toContain('level')
    expect(findings(measure({ ...silence, samples: silence.samples.map(() => 3000) })).find((one) => one.topic === 'noise')?.verdict).toBe('unknown')
  })

  it('is made as loud as speech usually is, and never clips', () => {
    const loud = measure(normalised(recording({ level: 0.02, noise: 0.00001 })))
    const spiky = recording({ level: 0.02 })
    spiky.samples[100] = 20_000

    expect(loud.speechDb).toBeCloseTo(-20, 0)
    expect(measure(normalised(spiky)).peakDb).toBeCloseTo(-1, 1)
  })
})
