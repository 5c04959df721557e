// What a model writes: read block by block as it comes, and no link but to a page or an address of mail.
import { describe, expect, it } from 'vitest'
import { conversationsOf, emptyConversation, markdownOf, matching, titleOf } from '../src/lib/conversations.svelte.ts'
import { Blocks, plainText, safeLink } from '../src/lib/markdown.ts'

const TEXT = [
  '# A head', 'Words, *soft* and **loud**, in\ntwo lines.', '```python\nx = 1\n\n\ny = 2\n```', '| a | b |\n|---|--:|\n| 1 | 2 |',
  '1. one\n2. two\n\n   still two\n\n3. three', '- [x] done', '$$\na^2\n$$', '\\[ b \\]', '> quoted', '<div>no</div>', 'The end.',
].join('\n\n')

describe('blocks', () => {
  const shapes = (blocks: readonly { type: string; raw: string }[]): string[] => blocks.filter((one) => one.type !== 'space').map((one) => `${one.type} ${one.raw.trim()}`)

  it('are the same however they come', () => {
    const whole = shapes(new Blocks().read(TEXT))
    for (const size of [1, 7, 40]) {
      const growing = new Blocks()
      let read: ReturnType<Blocks['read']> = []
      for (let at = size; at < TEXT.length + size; at += size) read = growing.read(TEXT.slice(0, at))

      expect(shapes(read)).toEqual(whole)
    }
    expect(whole.map((one) => one.split(' ')[0])).toEqual(['heading', 'paragraph', 'code', 'table', 'list', 'list', 'formula', 'formula', 'blockquote', 'html', 'paragraph'])
  })

  it('that came before stay the same objects', () => {
    const growing = new Blocks()
    const first = growing.read(TEXT)[0]

    expect(growing.read(`${TEXT} More.`)[0]).toBe(first)
  })

  it('begin anew with another text', () => {
    const blocks = new Blocks()
    blocks.read(TEXT)

    expect(shapes(blocks.read('Other.'))).toEqual(['paragraph Other.'])
  })
})

describe('formulas', () => {
  it('are told from prices', () => {
    const kinds = (text: string): string[] => (new Blocks().read(text)[0] as unknown as { tokens: { type: string }[] }).tokens.map((one) => one.type)

    expect(kinds('It costs $5 and $10 today.')).not.toContain('formula')
    expect(['Let $x^2$ be.', 'Let \\(x\\) be.', 'Let $$x$$ be.'].map((text) => kinds(text).includes('formula'))).toEqual([true, true, true])
  })
})

describe('links', () => {
  it('lead to pages and mail alone', () => {
    expect(['https://example.org/a?b', 'mailto:a@example.org'].map(safeLink)).toEqual(['https://example.org/a?b', 'mailto:a@example.org'])
    expect(['javascript:alert(1)', ' JaVaScript:x', 'data:text/html,x', '/keys', '//example.org', 'file:///etc', ''].map(safeLink)).toEqual(Array(7).fill(null))
  })
})

describe('plain text', () => {
  it('has its references resolved, and others left', () => {
    expect(plainText('a &amp; b &lt;c&gt; &#20013;&#x6587; &unknown; &#99999999;')).toBe('a & b <c> 中文 &unknown; &#99999999;')
  })
})

describe('conversations', () => {
  const talk = { ...emptyConversation(), title: 'Cats', model: 'a/b', system: 'Be kind.', turns: [{ role: 'user', content: 'Compare.' }, { role: 'assistant', content: 'Both purr.' }] as const }

  it('are called by the beginning of the first message', () => {
    expect([titleOf('  a\n b '), [...titleOf('字'.repeat(80))].length]).toEqual(['a b', 60])
  })

  it('are found by every word in them, and exported', () => {
    const all = [{ ...talk, turns: [...talk.turns] }]

    expect([matching(all, 'PURR cats').length, matching(all, 'purr dogs').length]).toEqual([1, 0])
    expect(markdownOf(all[0]!, { user: 'You', assistant: 'Model', system: 'System' })).toBe('# Cats\n\na/b\n\n## System\n\nBe kind.\n\n## You\n\nCompare.\n\n## Model\n\nBoth purr.\n')
  })

  it('of one account are not those of another', () => {
    expect(conversationsOf('account_a')).not.toBe(conversationsOf('account_b'))
  })
})
