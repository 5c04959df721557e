// Whether all of a sound file has arrived, and how long it is by its own frames and pages: browsers decode a cut file as
// far as it goes, and of joined ones perhaps the first. The service and the command look for the same (decision 0072).
import { mp4Seconds, webmSeconds } from './promised.ts'

/** `seconds` is null where only decoding tells. */
export type Length = { isWhole: boolean; seconds: number | null }

const OPEN = 0x7fff0000
// Some writers count the head as samples.
const TOLERATED = 44
// Programs that download reserve a file's length before its sound arrives.
const MOST_PADDING_BYTES = 1 << 16
const EBML = 0x1a45dfa3
const SEGMENT = 0x18538067
const CLUSTER = 0x1f43b675
const MP3_RATES = [[11025, 12000, 8000], [], [22050, 24000, 16000], [44100, 48000, 32000]]
const KBITS_1 = [
  [], [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
  [0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384],
  [0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448],
]
const KBITS_2 = [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160]
const ADTS_RATES = [96000, 88200, 64000, 48000, 44100, 32000, 24000, 22050, 16000, 12000, 11025, 8000, 7350]
// Clocks of telephones drift against the samples that they count.
const CLOCKS = 0.99
const KBITS_2_I = [0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256]

export function lengthOf(buffer: ArrayBuffer): Length {
  const bytes = new Uint8Array(buffer)
  const view = new DataView(buffer)
  const start = afterTag(bytes, 0)
  const mark = word(bytes, start)
  if (mark === 'RIFF' || mark === 'RF64') return { isWhole: isWholeWav(bytes, view), seconds: null }
  if (mark === 'OggS') return ogg(bytes, view)
  if (word(bytes, 4) === 'ftyp') return { isWhole: isWholeMp4(bytes, view), seconds: drifted(mp4Seconds(bytes, view)) }
  if (bytes.length > 4 && view.getUint32(0) === EBML) return { isWhole: isWholeWebm(bytes), seconds: drifted(webmSeconds(bytes)) }
  if (isAdts(bytes, start)) return adts(bytes, start)
  if (frameAt(bytes, start)) return mp3(bytes, view, start)
  return { isWhole: true, seconds: null }
}

function drifted(seconds: number | null): number | null {
  return seconds === null ? null : CLOCKS * seconds
}

/** With the samples of one `data` chunk, behind which nothing stands but other chunks, tags and padding. */
function isWholeWav(bytes: Uint8Array, view: DataView): boolean {
  let hasSamples = false
  let wide = 0
  for (let at = 12; at < bytes.length; ) {
    if (hasSamples && (isPadding(bytes, at) || afterTag(bytes, at) > at)) return true
    if (at + 8 > bytes.length || (hasSamples && !isChunk(bytes, view, at))) return false
    let size = view.getUint32(at + 4, true)
    if (word(bytes, at) === 'ds64' && at + 24 <= bytes.length) wide = Number(view.getBigUint64(at + 16, true))
    if (word(bytes, at) === 'data') {
      if (size === 0xffffffff && wide > 0) size = wide
      if (size >= OPEN) return true
      if (at + 8 + size > bytes.length) return at + 8 + size <= bytes.length + TOLERATED
      hasSamples = true
    }
    const end = at + 8 + size
    // An odd length without the byte that makes it even is a common fault.
    at = end + (size % 2 && !isChunk(bytes, view, end) ? 1 : 0)
  }
  return hasSamples
}

function isChunk(bytes: Uint8Array, view: DataView, at: number): boolean {
  const isNamed = /^[ -~]{4}$/.test(word(bytes, at)) && !['RIFF', 'data'].includes(word(bytes, at))
  return isNamed && at + 8 <= bytes.length && at + 8 + view.getUint32(at + 4, true) <= bytes.length
}

/** The samples of all links, by the last page of each; the mark of the end is left out by many recorders. */
function ogg(bytes: Uint8Array, view: DataView): Length {
  let [seconds, rate, skip, last, serial] = [0, 0, 0, 0, -1]
  let at = 0
  let [isBegun, isCaptured] = [false, false]
  for (; word(bytes, at) === 'OggS' && at + 27 <= bytes.length; ) {
    const count = bytes[at + 26]!
    const body = at + 27 + count
    const end = body + bytes.subarray(at + 27, body).reduce((sum, size) => sum + size, 0)
    if (end > bytes.length) return { isWhole: false, seconds: null }
    if (bytes[at + 5]! & 2) {
      if (isBegun) {
        seconds += rate ? Math.max(0, last - skip) / rate : 0
        rate = skip = last = 0
        isBegun = false
      }
      const isOpus = word(bytes, body) === 'Opus'
      if (rate === 0 && (isOpus || word(bytes, body + 1) === 'vorb')) {
        serial = view.getUint32(at + 14, true)
        rate = isOpus ? 48000 : view.getUint32(body + 12, true)
        skip = isOpus ? view.getUint16(body + 10, true) : 0
      }
    } else isBegun = true
    if (view.getUint32(at + 14, true) === serial && view.getUint32(at + 10, true) !== 0xffffffff) {
      const samples = view.getUint32(at + 6, true) + view.getUint32(at + 10, true) * 2 ** 32
      // A broadcast that was joined late counts from its own beginning.
      if (last === 0 && samples > 60 * rate && rate > 0) isCaptured = true
      last = samples
    }
    at = end
  }
  seconds += rate ? Math.max(0, last - skip) / rate : 0
  return { isWhole: isLittle(bytes, at), seconds: isCaptured ? null : seconds }
}

function isWholeMp4(bytes: Uint8Array, view: DataView): boolean {
  let isFilled = isPadding
  for (let at = 0; at < bytes.length; ) {
    if (at + 8 > bytes.length) return at > 0 && isFilled(bytes, at)
    if (word(bytes, at + 4) === 'moof') isFilled = isLittle
    if (at > 0 && word(bytes, at + 4) === 'ftyp') return false
    let size = view.getUint32(at)
    if (size === 0 && word(bytes, at + 4) !== '\0\0\0\0') return true
    if (size === 1 && at + 16 <= bytes.length) size = Number(view.getBigUint64(at + 8))
    if (size < 8 || at + size > bytes.length) return isFilled(bytes, at)
    at += size
  }
  return true
}

/** A browser's own recordings have segments and clusters without a length, whose content is walked. */
function isWholeWebm(bytes: Uint8Array): boolean {
  for (let at = 0; at < bytes.length; ) {
    const name = number(bytes, at)
    const length = name && number(bytes, at + name.size, true)
    if (!name || !length) return at > 0 && isLittle(bytes, at)
    if (at > 0 && name.value === EBML) return false
    at += name.size + length.size
    // All ones mean that the length is unknown; eight bytes of them are more than a number holds.
    if (length.value >= 2 ** Math.min(53, 7 * length.size) - 1) {
      if (name.value !== SEGMENT && name.value !== CLUSTER) return true
      continue
    }
    if (at + length.value > bytes.length) return false
    at += length.value
  }
  return true
}

/** A number of variable length, with the mark of its length unless it is a length itself. */
function number(bytes: Uint8Array, at: number, isLength = false): { size: number; value: number } | null {
  const first = bytes[at]
  if (!first) return null
  const size = Math.clz32(first) - 23
  if (at + size > bytes.length) return null
  const start = isLength ? first & (255 >> size) : first
  return { size, value: bytes.subarray(at + 1, at + size).reduce((sum, byte) => sum * 256 + byte, start) }
}

function isAdts(bytes: Uint8Array, at: number): boolean {
  return at + 7 <= bytes.length && bytes[at] === 0xff && (bytes[at + 1]! & 0xf6) === 0xf0
}

/** The frames of an AAC without a container, counted. */
function adts(bytes: Uint8Array, start: number): Length {
  let seconds = 0
  let at = start
  while (isAdts(bytes, at)) {
    const [, , third, fourth, fifth, sixth, seventh] = bytes.subarray(at, at + 7)
    const size = ((fourth! & 3) << 11) | (fifth! << 3) | (sixth! >> 5)
    const rate = ADTS_RATES[(third! >> 2) & 15]
    if (!rate || size < 7 || at + size > bytes.length) return { isWhole: false, seconds }
    seconds += (1024 * ((seventh! & 3) + 1)) / rate
    at += size
  }
  return { isWhole: isLittle(bytes, at), seconds }
}

/** The frames, counted; what is between them must be tags or zeros. */
function mp3(bytes: Uint8Array, view: DataView, start: number): Length {
  let [seconds, promised, counted] = [0, 0, 0]
  let isWhole = true
  for (let at = start; at < bytes.length; ) {
    const frame = frameAt(bytes, at)
    if (!frame) {
      const after = afterTag(bytes, at)
      if (after === at && (promised ? isPadding(bytes, at) : isLittle(bytes, at))) break
      if (after === at) return { isWhole: false, seconds }
      at = after
      continue
    }
    if (at + frame.size > bytes.length) return { isWhole: false, seconds }
    const tag = frame.tagAt.map((place) => at + place).find((place) => ['Xing', 'Info'].includes(word(bytes, place)))
    if (tag !== undefined) {
      isWhole &&= promised <= counted + 1
      promised = bytes[tag + 7]! & 1 ? view.getUint32(tag + 8) : 0
      counted = 0
    } else {
      seconds += frame.samples / frame.rate
      counted += 1
    }
    at += frame.size
  }
  return { isWhole: isWhole && promised <= counted + 1, seconds }
}

type Frame = { size: number; samples: number; rate: number; tagAt: number[] }

function frameAt(bytes: Uint8Array, at: number): Frame | null {
  const [first, second, third, fourth] = bytes.subarray(at, at + 4)
  if (fourth === undefined || first !== 0xff || second! < 0xe0) return null
  const version = (second! >> 3) & 3
  const layer = (second! >> 1) & 3
  const rate = MP3_RATES[version]?.[(third! >> 2) & 3]
  const kbits = (version === 3 ? KBITS_1[layer]! : layer === 3 ? KBITS_2_I : KBITS_2)[third! >> 4]
  if (!rate || !kbits || layer === 0) return null
  const padding = (third! >> 1) & 1
  if (layer === 3) return { size: (Math.floor((12000 * kbits) / rate) + padding) * 4, samples: 384, rate, tagAt: [] }
  const samples = layer === 1 && version !== 3 ? 576 : 1152
  const isMono = fourth >> 6 === 3
  const side = version === 3 ? (isMono ? 17 : 32) : isMono ? 9 : 17
  return { size: Math.floor((samples * 125 * kbits) / rate) + padding, samples, rate, tagAt: [4 + side, 6 + side] }
}

function afterTag(bytes: Uint8Array, at: number): number {
  const head = bytes.subarray(at, at + 32)
  const mark = word(bytes, at)
  if (mark.startsWith('ID3')) return at + 10 + head[6]! * 2 ** 21 + head[7]! * 2 ** 14 + head[8]! * 128 + head[9]!
  if (mark === 'TAG+') return at + 227
  if (mark.startsWith('TAG')) return at + 128
  if (mark === 'LYRI') return at + lyrics(bytes.subarray(at))
  if (mark === 'APET' && head.length === 32) {
    return at + new DataView(head.slice().buffer).getUint32(12, true) + (head[23]! & 0x80 ? 32 : 0)
  }
  return at
}

/** How long old or new lyrics are, with the mark of their end; they stand at the end, and are a few kilobytes. */
function lyrics(bytes: Uint8Array): number {
  const end = /^LYRICSBEGIN[^]*?LYRICS(200|END)/.exec(new TextDecoder('latin1').decode(bytes.subarray(0, 1 << 20)))
  return end ? end[0].length : 0
}

/** As `isPadding`, behind sound whose length nothing tells: much of it stands for sound that has not arrived. */
function isLittle(bytes: Uint8Array, at: number): boolean {
  return bytes.length - at <= MOST_PADDING_BYTES && isPadding(bytes, at)
}

/** Encoders fill up files with one byte again and again; some programs add a line end. */
function isPadding(bytes: Uint8Array, at: number): boolean {
  const after = afterTag(bytes, at)
  if (after > at) return after >= bytes.length
  const rest = bytes.subarray(at)
  return rest.every((byte) => byte === rest[0]) || rest.every((byte) => byte === 10 || byte === 13)
}

function word(bytes: Uint8Array, at: number): string {
  return String.fromCharCode(...bytes.subarray(at, at + 4))
}
