// Markdown as tokens: what a model writes becomes elements one by one, and never markup of its own. Formulas are
// tokens too. A text that grows is read from its last blocks on, so that a long answer stays as quick as a short one.
import { Marked, type Token, type TokenizerExtension } from 'marked'

export type { Token, Tokens } from 'marked'
export type Formula = { type: 'formula'; raw: string; text: string; isBlock: boolean }

const BLOCK = /^ {0,3}(?:\$\$([^]+?)\$\$|\\\[([^]+?)\\\])[ \t]*(?:\n|$)/
const INLINE = /^(?:\$\$([^$\n]+)\$\$|\$(?![\s$])((?:\\[^\n]|[^\\$\n])+?)(?<!\s)\$(?!\d)|\\\(([^\n]+?)\\\))/
const LINKS = ['https:', 'http:', 'mailto:']
const NAMED: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0' }
// The last of them may still change: a list goes on below a line that looked like a paragraph at first.
const OPEN_BLOCKS = 2

const marked = new Marked({ gfm: true, breaks: true, extensions: undefined })
marked.use({ extensions: [formula('block', BLOCK, /^ {0,3}(?:\$\$|\\\[)/m), formula('inline', INLINE, /\$|\\\(/)] })

function formula(level: 'block' | 'inline', whole: RegExp, begin: RegExp): TokenizerExtension {
  return {
    name: `formula-${level}`,
    level,
    start: (text) => {
      const at = text.search(begin)
      return at < 0 ? undefined : at
    },
    tokenizer: (text) => {
      const found = whole.exec(text)
      if (!found) return undefined
      const source = found.slice(1).find((group) => group !== undefined) ?? ''
      return { type: 'formula', raw: found[0], text: source.trim(), isBlock: level === 'block' } satisfies Formula
    },
  }
}

/** The blocks of a text. Give it the same text, longer, and only its end is read again. */
export class Blocks {
  #text = ''
  #settled: Token[] = []
  #length = 0

  read(text: string): readonly Token[] {
    const plain = text.replace(/\r\n?/g, '\n')
    if (!plain.startsWith(this.#text)) {
      this.#settled = []
      this.#length = 0
    }
    this.#text = plain
    const fresh = marked.lexer(plain.slice(this.#length))
    const blocks = fresh.map((block, i) => (block.type === 'space' ? -1 : i)).filter((i) => i >= 0)
    const firstOpen = blocks.at(-OPEN_BLOCKS) ?? 0
    for (const block of fresh.slice(0, firstOpen)) {
      this.#settled.push(block)
      this.#length += block.raw.length
    }
    return [...this.#settled, ...fresh.slice(firstOpen)]
  }
}

/** Where a link may lead: to a page or an address of mail, in full. Null: it is shown as text. */
export function safeLink(href: string): string | null {
  try {
    const url = new URL(href)
    return LINKS.includes(url.protocol) ? url.href : null
  } catch {
    return null
  }
}

/** A text with its character references resolved, as a text node needs it. */
export function plainText(text: string): string {
  return text.replace(/&(?:(amp|lt|gt|quot|apos|nbsp)|#(\d{1,7})|#x([0-9a-f]{1,6}));/gi, (whole, name: string, decimal: string, hex: string) => {
    if (name) return NAMED[name.toLowerCase()] ?? whole
    const code = decimal ? Number(decimal) : Number.parseInt(hex, 16)
    return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : whole
  })
}
