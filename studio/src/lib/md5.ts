// MD5 in parts (RFC 1321): a FLAC carries that of its samples, and whoever decodes it can tell that nothing was lost.
// It protects against accidents, never against people.

const SHIFTS = [7, 12, 17, 22, 5, 9, 14, 20, 4, 11, 16, 23, 6, 10, 15, 21]
const SINES = Int32Array.from({ length: 64 }, (_, i) => Math.floor(2 ** 32 * Math.abs(Math.sin(i + 1))) | 0)

/** A hash that is fed block by block; `digest` ends it with its 16 bytes. */
export class Md5 {
  #state = Int32Array.from([0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476])
  #pending = new Uint8Array(64)
  #length = 0

  update(bytes: Uint8Array): this {
    let at = 0
    const held = this.#length % 64
    this.#length += bytes.length
    if (held > 0) {
      at = Math.min(64 - held, bytes.length)
      this.#pending.set(bytes.subarray(0, at), held)
      if (held + at < 64) return this
      this.#block(this.#pending, 0)
    }
    for (; at + 64 <= bytes.length; at += 64) this.#block(bytes, at)
    this.#pending.set(bytes.subarray(at))
    return this
  }

  digest(): Uint8Array {
    const bits = this.#length * 8
    const tail = new Uint8Array(9 + ((119 - (this.#length % 64)) % 64))
    tail[0] = 0x80
    const view = new DataView(tail.buffer)
    view.setUint32(tail.length - 8, bits >>> 0, true)
    view.setUint32(tail.length - 4, Math.floor(bits / 2 ** 32), true)
    this.update(tail)
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
