// SHA-256 in parts (FIPS 180-4). The browser's own takes whole buffers only, and none at all over plain HTTP.
import { Blocks } from './blocks.ts'

const ROUND = constants(64, 3)
const START = constants(8, 2)

/** A hash that is fed block by block; `hex` ends it. */
export class Sha256 {
  #state = Int32Array.from(START)
  #words = new Int32Array(64)
  #blocks = new Blocks((bytes, at) => this.#block(bytes, at))

  update(bytes: Uint8Array): this {
    this.#blocks.add(bytes)
    return this
  }

  hex(): string {
    this.#blocks.end(false)
    return [...this.#state].map((word) => (word >>> 0).toString(16).padStart(8, '0')).join('')
  }

  #block(bytes: Uint8Array, at: number): void {
    const w = this.#words
    for (let i = 0; i < 16; i++, at += 4) {
      w[i] = (bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!
    }
    for (let i = 16; i < 64; i++) {
      const [x, y] = [w[i - 15]!, w[i - 2]!]
      const s0 = rotate(x, 7) ^ rotate(x, 18) ^ (x >>> 3)
      const s1 = rotate(y, 17) ^ rotate(y, 19) ^ (y >>> 10)
      w[i] = (w[i - 16]! + s0 + w[i - 7]! + s1) | 0
    }
    const state = this.#state
    let [a, b, c, d, e, f, g, h] = state as unknown as [number, number, number, number, number, number, number, number]
    for (let i = 0; i < 64; i++) {
      const s1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)
      const one = (h + s1 + ((e & f) ^ (~e & g)) + ROUND[i]! + w[i]!) | 0
      const s0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)
      const two = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0
      h = g
      g = f
      f = e
      e = (d + one) | 0
      d = c
      c = b
      b = a
      a = (one + two) | 0
    }
    const next = [a, b, c, d, e, f, g, h]
    for (let i = 0; i < 8; i++) state[i] = (state[i]! + next[i]!) | 0
  }
}

function rotate(word: number, by: number): number {
  return (word >>> by) | (word << (32 - by))
}

/** The first 32 bits of the fractional parts of the roots of the first primes, as the standard defines its constants. */
function constants(count: number, root: 2 | 3): Int32Array {
  const out = new Int32Array(count)
  for (let found = 0, n = 2; found < count; n++) {
    let isPrime = true
    for (let d = 2; d * d <= n; d++) if (n % d === 0) isPrime = false
    if (isPrime) out[found++] = fraction(n, root)
  }
  return out
}

/** By bisection in whole numbers, since a float's 53 bits do not hold 32 of a fraction for sure after a power. */
function fraction(n: number, root: 2 | 3): number {
  const target = BigInt(n) << BigInt(32 * root)
  let low = 0n
  let high = BigInt(n) << 32n
  while (low < high) {
    const middle = (low + high + 1n) / 2n
    if (middle ** BigInt(root) <= target) low = middle
    else high = middle - 1n
  }
  return Number(BigInt.asIntN(32, low))
}
