// The two hashes against Node's own, at every length around a block and however the bytes are cut.
import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { Md5 } from '../src/lib/md5.ts'
import { Sha256 } from 'tenuto/sha256.ts'

const bytes = (length: number): Uint8Array => Uint8Array.from({ length }, (_, i) => (i * 131 + 7) & 255)

describe('hashes', () => {
  it('are those of the standard at lengths around a block', () => {
    for (const length of [0, 1, 55, 56, 57, 63, 64, 65, 119, 120, 127, 128, 129, 10_000]) {
      const whole = bytes(length)

      expect(new Sha256().update(whole).hex()).toBe(createHash('sha256').update(whole).digest('hex'))
      expect(Buffer.from(new Md5().update(whole).digest()).toString('hex')).toBe(createHash('md5').update(whole).digest('hex'))
    }
  })

  it('do not depend on where the bytes are cut', () => {
    const whole = bytes(1000)
    for (const size of [1, 3, 63, 64, 65, 333]) {
      const [sha256, md5] = [new Sha256(), new Md5()]
      for (let at = 0; at < whole.length; at += size) {
        sha256.update(whole.subarray(at, at + size))
        md5.update(whole.subarray(at, at + size))
      }

      expect(sha256.hex()).toBe(createHash('sha256').update(whole).digest('hex'))
      expect(Buffer.from(md5.digest()).toString('hex')).toBe(createHash('md5').update(whole).digest('hex'))
    }
  })
})
