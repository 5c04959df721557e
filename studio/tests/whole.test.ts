// A cut file is known by its own heads, and the length of one that is whole is counted.
import { describe, expect, it } from 'vitest'
import { mixed } from '../src/lib/sound.ts'
import { writeWav } from '../src/lib/wav.ts'
import { lengthOf } from '../src/lib/whole.ts'

const join = (...pieces: number[][]): ArrayBuffer => Uint8Array.from(pieces.flat()).buffer
const text = (letters: string): number[] => [...letters].map((letter) => letter.charCodeAt(0))
const zeros = (count: number): number[] => Array<number>(count).fill(0)
/** 64 kbit/s at 44.1 kHz, one channel: 208 bytes for 1152 samples. */
const frame = [0xff, 0xfb, 0x50, 0xc0, ...zeros(204)]
const frames = (count: number): number[] => Array.from({ length: count }, () => frame).flat()
const page = (flags: number, samples: number, body: number[]): number[] =>
  [...text('OggS'), 0, flags, samples & 255, samples >> 8, ...zeros(6), 7, ...zeros(11), 1, body.length, ...body]
const opus = [...page(2, 0, [...text('OpusHead'), 1, 1, 56, 1, ...zeros(7)]), ...page(0, 24_000 + 312, zeros(50))]

describe('a sound file', () => {
  it('is as long as its frames and links, however many files were joined', () => {
    const mp3 = join([...text('ID3'), 4, 0, 0, 0, 0, 0, 5, ...zeros(5)], frames(100), frames(50), [...text('TAG'), ...zeros(125)])
    expect(lengthOf(mp3)).toEqual({ isWhole: true, seconds: expect.closeTo((150 * 1152) / 44_100, 6) })
    expect(lengthOf(join(opus, opus))).toEqual({ isWhole: true, seconds: expect.closeTo(1, 6) })
  })

  it('that is cut off is known', () => {
    const wav = writeWav(new Int16Array(1000), 16_000).buffer
    const mp4 = join([0, 0, 0, 16, ...text('ftypM4A '), ...zeros(4)], [0, 0, 0, 50, ...text('mdat'), ...zeros(42)])
    const webm = join([0x1a, 0x45, 0xdf, 0xa3, 0x81, 0], [0x18, 0x53, 0x80, 0x67, 1, ...Array<number>(7).fill(255)], [0x1f, 0x43, 0xb6, 0x75, 0xff], [0xa3, 1, 0, 0, 0, 0, 0, 0, 16, ...zeros(16)])
    for (const whole of [wav, mp4, webm, join(frames(5)), join(opus)]) {
      expect(lengthOf(whole).isWhole).toBe(true)
      expect(lengthOf(whole.slice(0, -3)).isWhole && lengthOf(whole.slice(0, -100)).isWhole).toBe(false)
    }
  })

  it('holds one run of samples, and other chunks behind it', () => {
    const wav = [...writeWav(new Int16Array(1000).map((_, at) => at), 16_000)]
    const stale = [...wav]
    stale[41] = 1
    for (const end of [[...text('LIST'), 4, 0, 0, 0, 1, 2, 3, 4], zeros(40), [...text('TAG'), ...zeros(125)], []]) {
      expect(lengthOf(join(wav, end)).isWhole).toBe(true)
    }
    for (const partly of [join(wav, wav), join(stale), join(wav, wav.slice(36))]) expect(lengthOf(partly).isWhole).toBe(false)
  })

  it('without a length is read to its end', () => {
    const streamed = writeWav(new Int16Array(1000), 16_000)
    streamed.set([255, 255, 255, 255], 40)
    expect(lengthOf(streamed.buffer).isWhole).toBe(true)
  })

  it('is whole with the tags and padding of other programs', () => {
    const tag = [...text('TAG'), ...zeros(125)]
    const webm = [0x1a, 0x45, 0xdf, 0xa3, 0x81, 0, 0x18, 0x53, 0x80, 0x67, 0x81, 0]
    for (const end of [[...text('TAG+'), ...zeros(223), ...tag], [...text('LYRICSBEGINwordsLYRICSEND'), ...tag], Array<number>(300).fill(0xaa), [13, 10]]) {
      expect(lengthOf(join(frames(5), end)).isWhole).toBe(true)
    }
    expect(lengthOf(join(webm, zeros(100))).isWhole).toBe(true)
    expect(lengthOf(join(frames(5), text('LYRICSBEGIN'), frames(5))).isWhole).toBe(false)
  })

  it('whose channels cancel each other out is heard', () => {
    const one = Float32Array.from([0.5, -0.25, 0.125])
    expect(mixed([one, one.map((sample) => -sample)])).toEqual(one)
    expect(mixed([one, new Float32Array(3)])).toEqual(one.map((sample) => sample / 2))
  })
})
