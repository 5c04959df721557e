// Long texts in pieces: none too long, none lost, cut where a reader would breathe.
import { describe, expect, it } from 'vitest'
import { utf8Length } from '../src/lib/bytes.ts'
import { cut } from '../src/lib/pieces.ts'

const bare = (text: string): string => text.replace(/\s/g, '')

describe('pieces', () => {
  it('are the text itself where it is short', () => {
    expect(cut('  Hold it. Then rest. ', 100)).toEqual(['Hold it. Then rest.'])
    expect(cut(' ', 100)).toEqual([])
  })

  it('end with sentences, as many in each as fit', () => {
    expect(cut('Hold it. Then rest! “Again?” Yes.', 20)).toEqual(['Hold it. Then rest!', '“Again?” Yes.'])
    expect(cut('保持音。唱满它。再来一遍！', 24)).toEqual(['保持音。唱满它。', '再来一遍！'])
  })

  it('end with clauses, and then anywhere but inside a reading or a character', () => {
    expect(cut('one, two three', 8)).toEqual(['one, two', 'three'])
    expect(cut('音音<行|HANG2>音', 12)).toEqual(['音音', '<行|HANG2>', '音'])
    expect(cut('𠮷𠮷𠮷', 9)).toEqual(['𠮷𠮷', '𠮷'])
  })

  it('of which nothing can be spoken are left out: their jobs would fail', () => {
    expect(cut('One. Two.\n-----', 10)).toEqual(['One. Two.'])
    expect(cut('-'.repeat(12), 10)).toEqual(['-'.repeat(10)])
    expect(cut('One. Two. Три.', 10)).toEqual(['One. Two.', 'Три.'])
  })

  it('lose nothing and are never too long', () => {
    const text = Array.from({ length: 400 }, (_, i) => `Sentence ${i}, with 一些汉字 and more${'.!?\n'[i % 4]}`).join(' ')
    const pieces = cut(text, 500)

    expect(Math.max(...pieces.map(utf8Length))).toBeLessThanOrEqual(500)
    expect(bare(pieces.join(''))).toBe(bare(text))
    expect(pieces.length).toBeLessThan(2 * utf8Length(text) / 500)
    expect(pieces.every((piece) => piece === piece.trim())).toBe(true)
  })
})
