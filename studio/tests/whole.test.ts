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
const number = (value: number): number[] => [value >>> 24, (value >> 16) & 255, (value >> 8) & 255, value & 255]
const box = (name: string, ...content: number[][]): number[] => [...number(content.flat().length + 8), ...text(name), ...content.flat()]
/** A track of 20 seconds with 1000 ticks each, of which an edit list may show a part, in half seconds. */
const track = (kind: string, ...edits: number[][]): number[] =>
  box('trak', box('tkhd', zeros(12), number(1)), ...edits, box('mdia', box('mdhd', zeros(12), number(1000), number(20_000)), box('hdlr', zeros(8), text(kind))))
const edit = (halves: number, from: number): number[] => [...number(halves), ...number(from), ...zeros(4)]
const film = (...tracks: number[][]): number[] => [...box('ftyp', zeros(4)), ...box('moov', box('mvhd', zeros(12), number(2)), ...tracks)]

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

  it('of telephones and browsers is as long as its heads say, up to the drift of clocks', () => {
    const part = box('edts', box('elst', zeros(4), number(2), edit(9, -1), edit(10, 4000)))
    const moof = box('moof', box('traf', box('tfhd', [0, 0, 0, 8], number(1), number(500)), box('trun', zeros(4), number(50))))
    for (const [mp4, seconds] of [[film(track('vide'), track('soun')), 20], [film(track('soun', part)), 5], [[...film(track('soun')), ...moof, ...moof], 50]] as const) {
      expect(lengthOf(join([...mp4]))).toEqual({ isWhole: true, seconds: expect.closeTo(0.99 * seconds, 6) })
    }
    expect(lengthOf(join(film(track('vide')))).seconds).toBeNull()
    const block = (time: number): number[] => [0xa3, 0x84, 0x82, 0, time, 0]
    const tracks = [0x16, 0x54, 0xae, 0x6b, 0x90, 0xae, 0x86, 0xd7, 0x81, 1, 0x83, 0x81, 1, 0xae, 0x86, 0xd7, 0x81, 2, 0x83, 0x81, 2]
    const clusters = [0, 1].flatMap((n) => [0x1f, 0x43, 0xb6, 0x75, 0x95, 0xe7, 0x81, 100 * n, ...[0, 40, 80].flatMap(block)])
    const webm = (inside: number[]): ArrayBuffer => join([0x1a, 0x45, 0xdf, 0xa3, 0x81, 0, 0x18, 0x53, 0x80, 0x67, 0x80 | inside.length, ...inside])
    expect(lengthOf(webm([...tracks, ...clusters]))).toEqual({ isWhole: true, seconds: expect.closeTo(0.99 * 0.18, 6) })
    const live = (inside: number[]): ArrayBuffer => join([0x1a, 0x45, 0xdf, 0xa3, 0x81, 0, 0x18, 0x53, 0x80, 0x67, 0xff, ...inside])
    expect(lengthOf(live([...tracks, ...clusters]))).toEqual({ isWhole: true, seconds: expect.closeTo(0.99 * 0.18, 6) })
    for (const form of [webm, live]) expect(lengthOf(form([...tracks, ...clusters.slice(0, 40), ...zeros(12)])).seconds).toBe(Infinity)
  })

  it('of an AAC is counted frame by frame, and of a wide WAV known by its own head', () => {
    const aac = [0xff, 0xf1, 0x50, 0x80, 1, 0x7f, 0xfc, ...zeros(4)]
    expect(lengthOf(join(aac, aac, aac))).toEqual({ isWhole: true, seconds: expect.closeTo((3 * 1024) / 44_100, 6) })
    for (const end of [aac.slice(0, -1), [1, 2, 3, 4, 5, 6, 7]]) expect(lengthOf(join(aac, end)).isWhole).toBe(false)
    const rest = [...text('fmt '), 16, ...zeros(19), ...text('data'), 255, 255, 255, 255, ...zeros(100)]
    const wide = join(text('RF64'), [255, 255, 255, 255], text('WAVEds64'), [28, ...zeros(3)], zeros(8), [100], zeros(19), rest)
    expect(lengthOf(wide).isWhole).toBe(true)
    for (const partly of [wide.slice(0, -60), join([...new Uint8Array(wide)], [...new Uint8Array(wide)])]) expect(lengthOf(partly).isWhole).toBe(false)
  })

  it('whose length was reserved, and nothing else tells it, has not arrived', () => {
    const moof = box('moof', box('traf'))
    for (const content of [frames(5), [...film(track('soun')), ...moof]]) {
      expect(lengthOf(join(content, zeros(60_000))).isWhole).toBe(true)
      expect(lengthOf(join(content, zeros(70_000))).isWhole).toBe(false)
    }
    expect(lengthOf(join([...writeWav(new Int16Array(1000), 16_000)], zeros(70_000))).isWhole).toBe(true)
  })

  it('whose channels cancel each other out is heard', () => {
    const one = Float32Array.from([0.5, -0.25, 0.125])
    expect(mixed([one, one.map((sample) => -sample)])).toEqual(one)
    expect(mixed([one, new Float32Array(3)])).toEqual(one.map((sample) => sample / 2))
  })
})
