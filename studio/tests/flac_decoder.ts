// A small FLAC decoder written from RFC 9639 for the tests alone, so that the encoder is not judged by its own idea
// of the format. It takes what the encoder may write and refuses everything else; checksums are checked.
import { createHash } from 'node:crypto'

export type Decoded = { rate: number; samples: Int16Array }

/** The samples of a mono 16-bit FLAC; throws where anything is not as the format has it. */
export function decodeFlac(bytes: Uint8Array): Decoded {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  must(view.getUint32(0) === 0x664c6143, 'starts with fLaC')
  must(bytes[4] === 0x80 && view.getUint32(4) === 0x80000022, 'has one block of metadata, STREAMINFO')
  const total = (bytes[21]! & 15) * 2 ** 32 + view.getUint32(22)
  const rate = (bytes[18]! << 12) | (bytes[19]! << 4) | (bytes[20]! >> 4)
  must(((bytes[20]! >> 1) & 7) === 0 && (((bytes[20]! & 1) << 4) | (bytes[21]! >> 4)) === 15, 'is mono with 16 bits')
  const samples: number[] = []
  let at = 42
  for (let number = 0; at < bytes.length; number++) {
    const reader = new Bits(bytes, at)
    samples.push(...frame(reader, number, rate, view.getUint16(8)))
    at = reader.byte
  }
  must(samples.length === total, 'has as many samples as it says')
  const out = Int16Array.from(samples)
  const md5 = createHash('md5').update(new Uint8Array(out.buffer)).digest('hex')
  must(md5 === Buffer.from(bytes.subarray(26, 42)).toString('hex'), 'has the samples of its MD5')
  return { rate, samples: out }
}

function frame(reader: Bits, number: number, rate: number, usual: number): number[] {
  const start = reader.byte
  must(reader.read(16) === 0xfff8, 'frame begins with its sync code and a fixed block size')
  const sizeCode = reader.read(4)
  const rateCode = reader.read(4)
  must(rateCode === 0 || ({ 4: 8000, 5: 16000, 7: 24000, 10: 48000 } as Record<number, number>)[rateCode] === rate, 'frame has the rate')
  must(reader.read(4) === 0 && reader.read(3) === 4 && reader.read(1) === 0, 'frame is mono, 16 bits')
  must(codedNumber(reader) === number, 'frames are numbered')
  const size = sizeCode === 12 ? 4096 : reader.read(16) + 1
  must(sizeCode === 12 || sizeCode === 7, 'block size code')
  must(size <= usual, 'no block is larger than STREAMINFO says')
  must(crc(reader.bytes.subarray(start, reader.byte), 8, 0x07) === reader.read(8), 'CRC-8')
  const samples = subframe(reader, size)
  reader.align()
  must(crc(reader.bytes.subarray(start, reader.byte), 16, 0x8005) === reader.read(16), 'CRC-16')
  return samples
}

function codedNumber(reader: Bits): number {
  const first = reader.read(8)
  if (first < 0x80) return first
  const more = Math.clz32(~(first << 24)) - 1
  let value = first & (0x3f >> more)
  for (let i = 0; i < more; i++) {
    const next = reader.read(8)
    must(next >> 6 === 2, 'continuation byte')
    value = value * 64 + (next & 63)
  }
  return value
}

function subframe(reader: Bits, size: number): number[] {
  must(reader.read(1) === 0, 'padding bit')
  const type = reader.read(6)
  must(reader.read(1) === 0, 'no wasted bits')
  if (type === 0) return Array<number>(size).fill(reader.signed(16))
  if (type === 1) return Array.from({ length: size }, () => reader.signed(16))
  must(type >= 8 && type <= 12, 'fixed predictor')
  const order = type - 8
  const samples = Array.from({ length: order }, () => reader.signed(16))
  for (const rest of residual(reader, size, order)) {
    const [a = 0, b = 0, c = 0, d = 0] = [samples.at(-1), samples.at(-2), samples.at(-3), samples.at(-4)]
    samples.push(rest + [0, a, 2 * a - b, 3 * a - 3 * b + c, 4 * a - 6 * b + 4 * c - d][order]!)
  }
  return samples
}

function* residual(reader: Bits, size: number, order: number): Generator<number> {
  must(reader.read(2) === 0, 'Rice codes with 4-bit parameters')
  const partition = reader.read(4)
  must(size % 2 ** partition === 0, 'partitions are of one size')
  for (let i = 0; i < 2 ** partition; i++) {
    const k = reader.read(4)
    must(k < 15, 'no escape code')
    for (let n = size / 2 ** partition - (i === 0 ? order : 0); n > 0; n--) {
      let value = 0
      while (reader.read(1) === 0) value += 2 ** k
      value += reader.read(k)
      yield value % 2 === 0 ? value / 2 : -(value + 1) / 2
    }
  }
}

class Bits {
  #bit: number

  constructor(readonly bytes: Uint8Array, byte: number) {
    this.#bit = byte * 8
  }

  get byte(): number {
    must(this.#bit % 8 === 0, 'is at a whole byte')
    return this.#bit / 8
  }

  read(width: number): number {
    let value = 0
    for (let i = 0; i < width; i++, this.#bit++) value = value * 2 + ((this.bytes[this.#bit >> 3]! >> (7 - (this.#bit & 7))) & 1)
    return value
  }

  signed(width: number): number {
    const value = this.read(width)
    return value >= 2 ** (width - 1) ? value - 2 ** width : value
  }

  align(): void {
    while (this.#bit % 8) must(this.read(1) === 0, 'padding is zero')
  }
}

function crc(bytes: Uint8Array, width: number, polynomial: number): number {
  let value = 0
  for (const byte of bytes) {
    value ^= byte << (width - 8)
    for (let i = 0; i < 8; i++) value = ((value << 1) ^ (value & (1 << (width - 1)) ? polynomial : 0)) & (2 ** width - 1)
  }
  return value
}

function must(isSo: boolean, what: string): void {
  if (!isSo) throw new Error(`not so: ${what}`)
}
