// How long the sound of an MP4 or a WebM is by its own heads: a browser decodes up to the first damage, and ends there as
// if nothing were missing. Sources: ISO/IEC 14496-12; RFC 9559.

type Spans = (start: number, end: number, name: string) => void

const TRACK_ENTRY = 0xae
const BLOCK_GROUP = 0xa0
const SEGMENT = 0x18538067
const CLUSTER = 0x1f43b675
const PARENTS = [SEGMENT, 0x1549a966, 0x1654ae6b, TRACK_ENTRY, CLUSTER, BLOCK_GROUP]
const BLOCKS = [0xa3, 0xa1]
const MOST_ID_BYTES = 4

/** Of its first track of sound, without what its edit list leaves out; null where it does not say. */
export function mp4Seconds(bytes: Uint8Array, view: DataView): number | null {
  const track = { id: 0, scale: 0, length: 0, shown: 0, movie: 0, each: 0, sent: 0, isSound: false }
  let found = { ...track }
  let used = 0
  const at32 = (at: number): number => (at + 4 <= bytes.length ? view.getUint32(at) : 0)
  const at64 = (at: number): number => at32(at) * 2 ** 32 + at32(at + 4)
  const isLong = (at: number): boolean => bytes[at] === 1
  const see: Spans = (at, end, name) => {
    const flags = at32(at) & 0xffffff
    if (['moov', 'mdia', 'edts', 'mvex', 'moof', 'traf'].includes(name)) boxes(bytes, at, end, see)
    if (name === 'mvhd') track.movie = at32(at + (isLong(at) ? 20 : 12))
    if (name === 'trak') {
      Object.assign(track, { id: 0, scale: 0, length: 0, shown: 0, isSound: false })
      boxes(bytes, at, end, see)
      if (track.isSound && !found.isSound) found = { ...track }
    }
    if (name === 'tkhd') track.id = at32(at + (isLong(at) ? 20 : 12))
    if (name === 'hdlr' && at32(at + 8) === 0x736f756e) track.isSound = true
    if (name === 'mdhd') {
      track.scale = at32(at + (isLong(at) ? 20 : 12))
      track.length = isLong(at) ? at64(at + 24) : at32(at + 16)
    }
    if (name === 'elst') {
      const size = isLong(at) ? 20 : 12
      for (let entry = at + 8, left = at32(at + 4); left > 0 && entry + size <= end; entry += size, left--) {
        // An empty edit is a pause before the sound, which no decoder has to give.
        if (at32(entry + size - 8) !== 0xffffffff) track.shown += isLong(at) ? at64(entry) : at32(entry)
      }
    }
    if (name === 'trex' && at32(at + 4) === found.id) found.each = at32(at + 12)
    if (name === 'tfhd') {
      used = at32(at + 4) === found.id ? found.each : -1
      if (used >= 0 && flags & 8) used = at32(at + 8 + (flags & 1 ? 8 : 0) + (flags & 2 ? 4 : 0))
    }
    if (name === 'trun' && used >= 0) {
      const size = 4 * [0x100, 0x200, 0x400, 0x800].filter((flag) => flags & flag).length
      const first = at + 8 + (flags & 1 ? 4 : 0) + (flags & 4 ? 4 : 0)
      for (let n = 0, count = Math.min(at32(at + 4), 1e6); n < count; n++) found.sent += flags & 0x100 ? at32(first + n * size) : used
    }
  }
  boxes(bytes, 0, bytes.length, see)
  if (!found.isSound || found.scale === 0) return null
  const whole = Math.max(found.length < 0xffffffff ? found.length : 0, found.sent) / found.scale
  return found.shown > 0 && found.movie > 0 ? Math.min(whole, found.shown / found.movie) : whole
}

function boxes(bytes: Uint8Array, start: number, end: number, see: Spans): void {
  const view = new DataView(bytes.buffer)
  for (let at = start; at + 8 <= end; ) {
    let size = view.getUint32(at)
    const head = size === 1 && at + 16 <= end ? 16 : 8
    if (head === 16) size = Number(view.getBigUint64(at + 8))
    if (size < head || at + size > end) return
    see(at + head, at + size, String.fromCharCode(...bytes.subarray(at + 4, at + 8)))
    at += size
  }
}

/**
 * By the times of the blocks of its first track of sound; null where there is none. Blocks that were never written do not
 * count. Damage between the elements makes it infinite.
 */
export function webmSeconds(bytes: Uint8Array): number | null {
  let [scale, cluster, sound, inside] = [1_000_000, 0, 0, 0]
  let entry = { number: 0, isSound: false }
  const times: number[] = []
  for (let at = 0; at < bytes.length; ) {
    const id = idOf(bytes, at)
    const length = numberOf(bytes, at + id.size)
    const isNone = id.size === 0 || length.size === 0
    const isOpen = length.value >= 2 ** Math.min(53, 7 * length.size) - 1
    const from = at + id.size + length.size
    if (at < inside && (isNone || (!isOpen && from + length.value > inside))) return Infinity
    if (isNone) break
    at = from
    const end = isOpen ? bytes.length : Math.min(bytes.length, at + length.value)
    // A live recording's segment has no length, but its clusters may have one.
    if ((id.value === SEGMENT || id.value === CLUSTER) && !isOpen) inside = Math.max(inside, end)
    const value = end - at <= 8 ? bytes.subarray(at, end).reduce((sum, byte) => sum * 256 + byte, 0) : 0
    if (id.value === 0x2ad7b1) scale = value
    if (id.value === 0xe7) cluster = value
    if (id.value === TRACK_ENTRY) entry = { number: 0, isSound: false }
    if (id.value === 0xd7) entry.number = value
    if (id.value === 0x83 && value === 2) entry.isSound = true
    if (sound === 0 && entry.isSound) sound = entry.number
    if (BLOCKS.includes(id.value)) {
      const track = numberOf(bytes, at)
      const place = at + track.size
      if (track.value === sound && place + 2 <= end) times.push(cluster + (((bytes[place]! << 8) | bytes[place + 1]!) << 16 >> 16))
    }
    if (!PARENTS.includes(id.value)) at = end
  }
  const steps = times.slice(1).map((time, n) => time - times[n]!)
  const usual = steps.toSorted((one, other) => one - other)[steps.length >> 1]
  if (usual === undefined) return null
  return (Math.min(times.at(-1)! - times[0]!, steps.length * usual) * scale) / 1e9
}

function idOf(bytes: Uint8Array, at: number): { size: number; value: number } {
  const size = Math.clz32(bytes[at] ?? 0) - 23
  if (size > MOST_ID_BYTES || at + size > bytes.length) return { size: 0, value: 0 }
  return { size, value: bytes.subarray(at, at + size).reduce((sum, byte) => sum * 256 + byte, 0) }
}

function numberOf(bytes: Uint8Array, at: number): { size: number; value: number } {
  const size = Math.clz32(bytes[at] ?? 0) - 23
  if (size > 8 || at + size > bytes.length) return { size: 0, value: 0 }
  return { size, value: bytes.subarray(at + 1, at + size).reduce((sum, byte) => sum * 256 + byte, bytes[at]! & (255 >> size)) }
}
