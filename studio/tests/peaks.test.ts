// What a waveform is drawn from, and parts of a sound.
import { describe, expect, it } from 'vitest'
import { partOf, peaksOf, secondsOf, wavFile } from '../src/lib/peaks.ts'
import { readWav, wavHead, writeWav } from '../src/lib/wav.ts'

const stereo = readWav(writeWav(Int16Array.from({ length: 8000 }, (_, i) => (i % 2 ? -i : i)), 1000, 2).buffer)!

describe('a sound', () => {
  it('has its seconds, and the loudest sample of each stretch', () => {
    const peaks = peaksOf(stereo)

    expect(secondsOf(stereo)).toBe(4)
    expect(peaks.length).toBe(800)
    expect([peaks[0], peaks[799]]).toEqual([-9 / 32768, -7999 / 32768])
  })

  it('is cut to the sample, in all channels', async () => {
    const part = partOf(stereo, { start: 1, end: 1.5 })
    const file = readWav(await wavFile(part).arrayBuffer())!

    expect([file.rate, file.channels, secondsOf(file)]).toEqual([1000, 2, 0.5])
    expect([...file.samples]).toEqual([...stereo.samples.subarray(2000, 3000)])
  })

  it('is its head and its bytes, so that several are joined without a copy', async () => {
    const joined = new Blob([wavHead(16_000, 1000, 2), stereo.bytes, stereo.bytes])
    const read = readWav(await joined.arrayBuffer())!

    expect([...read.samples]).toEqual([...stereo.samples, ...stereo.samples])
  })
})
