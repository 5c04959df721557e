// MD5 in parts (RFC 1321): a FLAC contains the MD5 of its samples, so that a decoder can tell that nothing was lost.
// It protects against accidents, never against people.
import { Blocks } from 'tenuto/blocks.ts'

const SHIFTS = [7, 12, 17, 22, 5, 9, 14, 20, 4, 11, 16, 23, 6, 10, 15, 21]
const SINES = Int32Array.from({ length: 64 }, (_, i) => Math.floor(2 ** 32 * Math.abs(Math.sin(i + 1))) | 0)

/** A hash that is fed block by block; `digest` ends it with its 16 bytes. */
export class Md5 {
  #state = Int32Array.from([0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476])
  #blocks = new Blocks((bytes, at) => this.#block(bytes, at))

  update(bytes: Uint8Array): this {
    this.#blocks.add(bytes)
    return this
  }

  digest(): Uint8Array {
    this.#blocks.end(true)
    const out = new DataView(new ArrayBuffer(16))
    this.#state.forEach((word, i) => out.setInt32(i * 4, word, true))
    return new Uint8Array(out.buffer)
  }

  #block(bytes: Uint8Array, at: number): void {
    const words = new Int32Array(16)
    for (let i = 0; i < 16; i++, at += 4) {
      words[i] = bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)
    }
    let [a, b, c, d] = this.#state as unknown as [number, number, number, number]
    for (let i = 0; i < 64; i++) {
      let mixed: number
      let index: number
      if (i < 16) [mixed, index] = [(b & c) | (~b & d), i]
      else if (i < 32) [mixed, index] = [(d & b) | (~d & c), (5 * i + 1) % 16]
      else if (i < 48) [mixed, index] = [b ^ c ^ d, (3 * i + 5) % 16]
      else [mixed, index] = [c ^ (b | ~d), (7 * i) % 16]
      const sum = (a + mixed + SINES[i]! + words[index]!) | 0
      const by = SHIFTS[(i >> 4) * 4 + (i % 4)]!
      a = d
      d = c
      c = b
      b = (b + ((sum << by) | (sum >>> (32 - by)))) | 0
    }
    const next = [a, b, c, d]
    for (let i = 0; i < 4; i++) this.#state[i] = (this.#state[i]! + next[i]!) | 0
  }
}
