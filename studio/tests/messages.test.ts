// Chinese and English are equals: what stops the build is found, and now there is nothing.
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { disagreements, messageFaults } from '../messages.ts'

describe('messages', () => {
  it('are complete in both languages, and each is used', () => {
    expect(messageFaults(join(import.meta.dirname, '../src'))).toEqual([])
  })

  it('stop the build when a language lacks one or has other blanks', () => {
    expect(disagreements({ a: '甲', b: '{n} 个' }, { a: 'A', b: 'some', c: 'C' })).toEqual([
      'b has other blanks in Chinese than in English', 'c has no Chinese text',
    ])
  })
})
