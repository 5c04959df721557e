// What MD5 and SHA-256 share: bytes that come in pieces are worked on in blocks of 64, and at the end their length follows.

const BLOCK = 64

/** Cuts a stream of bytes into blocks; `work` is called with the bytes and where in them its block begins. */
export class Blocks {
  #pending = new Uint8Array(BLOCK)
  #length = 0
  readonly #work: (bytes: Uint8Array, at: number) => void

  constructor(work: (bytes: Uint8Array, at: number) => void) {
    this.#work = work
  }

  add(bytes: Uint8Array): void {
    let at = 0
    const held = this.#length % BLOCK
    this.#length += bytes.length
    if (held > 0) {
      at = Math.min(BLOCK - held, bytes.length)
      this.#pending.set(bytes.subarray(0, at), held)
      if (held + at < BLOCK) return
      this.#work(this.#pending, 0)
    }
    for (; at + BLOCK <= bytes.length; at += BLOCK) this.#work(bytes, at)
    this.#pending.set(bytes.subarray(at))
  }

  /** The end: a bit, nothing up to a block's last 8 bytes, and there the number of bits that came. */
  end(isLittleEndian: boolean): void {
    const bits = BigInt(this.#length) * 8n
    const tail = new Uint8Array(9 + ((119 - (this.#length % BLOCK)) % BLOCK))
    tail[0] = 0x80
    new DataView(tail.buffer).setBigUint64(tail.length - 8, bits, isLittleEndian)
    this.add(tail)
  }
}
