// The FLAC encoder: what goes in comes out, whatever it is.
import { describe, expect, it } from 'vitest'
import { BLOCK, encodeFlac, utf8Number } from '../src/lib/flac.ts'
import { decodeFlac } from './flac_decoder.ts'

const RATE = 16000

/** Numbers from 0 to 1 that are the same in every run. */
function dice(seed: number): () => number {
  return () => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0
    return seed / 2 ** 32
  }
}

const made = (length: number, at: (i: number) => number): Int16Array => Int16Array.from({ length }, (_, i) => at(i))
const file = (samples: Int16Array, rate = RATE): Uint8Array => Buffer.concat(encodeFlac(samples, rate))

const random = dice(7)
const SOUNDS: Record<string, Int16Array> = {
  silence: made(10_000, () => 0),
  'one sample': made(1, () => -5),
  'two samples': Int16Array.of(3, -4),
  'a constant': made(BLOCK, () => -32768),
  'a ramp': made(BLOCK * 2, (i) => i - BLOCK),
  'a tone': made(30_001, (i) => Math.round(12_000 * Math.sin(i / 9))),
  'quiet noise': made(9999, () => Math.round((random() - 0.5) * 40)),
  'full noise': made(9000, () => Math.floor(random() * 65536) - 32768),
  'the extremes in turn': made(BLOCK + 17, (i) => (i % 2 ? 32767 : -32768)),
  'silence and a click': made(BLOCK * 3, (i) => (i === 5000 ? 32767 : 0)),
  'speech-like bursts': made(50_000, (i) => Math.round(Math.sin(i / 11) * Math.exp(-((i % 4000) / 900)) * 20_000 + (random() - 0.5) * 30)),
}

describe('FLAC', () => {
  for (const [name, samples] of Object.entries(SOUNDS)) {
    it(`gives back ${name}, every sample`, () => {
      const decoded = decodeFlac(file(samples))

      expect(decoded.rate).toBe(RATE)
      expect(Buffer.from(decoded.samples.buffer).equals(Buffer.from(samples.buffer))).toBe(true)
    })
  }

  it('is never much larger than the samples, and half of them for what sounds like speech', () => {
    const [noise, speech] = [SOUNDS['full noise']!, SOUNDS['speech-like bursts']!]

    expect(file(noise).length).toBeLessThan(noise.length * 2 + 200)
    expect(file(speech).length).toBeLessThan(speech.length * 2 * 0.55)
  })

  it('numbers frames beyond one byte', () => {
    expect([0, 127, 128, 2047, 2048, 65535, 65536].map((n) => Buffer.from(utf8Number(n)).toString('hex'))).toEqual([
      '00', '7f', 'c280', 'dfbf', 'e0a080', 'efbfbf', 'f0908080',
    ])
  })

  it('tells how far it is, to the end', () => {
    const heard: number[] = []
    encodeFlac(made(BLOCK * 600, (i) => i % 100), RATE, (done) => heard.push(done))

    expect(heard.at(-1)).toBe(BLOCK * 600)
    expect(heard.length).toBeGreaterThan(2)
  })
})
