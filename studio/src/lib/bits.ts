// Writing bits, most significant first, and the two checksums of FLAC (RFC 9639).

/** A growing row of bits. */
export class BitWriter {
  #bytes = new Uint8Array(16384)
  #length = 0
  #held = 0
  #count = 0

  /** The lowest `width` bits of a value, at most 24 of them; those above are dropped. */
  write(value: number, width: number): void {
    this.#held = (this.#held << width) | (value & ((1 << width) - 1))
    this.#count += width
    while (this.#count >= 8) {
      this.#count -= 8
      this.#push((this.#held >>> this.#count) & 0xff)
    }
    this.#held &= (1 << this.#count) - 1
  }

  /** A count of zeros and a one. */
  writeUnary(value: number): void {
    for (; value >= 16; value -= 16) this.write(0, 16)
    this.write(1, value + 1)
  }

  /** Zeros up to the next whole byte. */
  align(): void {
    if (this.#count > 0) this.write(0, 8 - this.#count)
  }

  /** What was written, of whole bytes; it is overwritten by what comes after `clear`. */
  bytes(): Uint8Array {
    return this.#bytes.subarray(0, this.#length)
  }

  clear(): void {
    this.#length = this.#held = this.#count = 0
  }

  #push(byte: number): void {
    if (this.#length === this.#bytes.length) {
      const larger = new Uint8Array(this.#bytes.length * 2)
      larger.set(this.#bytes)
      this.#bytes = larger
    }
    this.#bytes[this.#length++] = byte
  }
}

const CRC8 = table(8, 0x07)
const CRC16 = table(16, 0x8005)

/** Of a frame's header. */
export function crc8(bytes: Uint8Array): number {
  let crc = 0
  for (const byte of bytes) crc = CRC8[crc ^ byte]!
  return crc
}

/** Of a whole frame. */
export function crc16(bytes: Uint8Array): number {
  let crc = 0
  for (const byte of bytes) crc = ((crc << 8) ^ CRC16[(crc >>> 8) ^ byte]!) & 0xffff
  return crc
}

function table(width: number, polynomial: number): Uint16Array {
  const top = 1 << (width - 1)
  return Uint16Array.from({ length: 256 }, (_, byte) => {
    let crc = byte << (width - 8)
    for (let i = 0; i < 8; i++) crc = crc & top ? (crc << 1) ^ polynomial : crc << 1
    return crc & ((1 << width) - 1)
  })
}
