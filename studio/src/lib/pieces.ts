// Cuts a text that is longer than one job takes into pieces, at the ends of sentences where there are any.
import { utf8Length } from './bytes.ts'
import { unspoken } from './unspoken.ts'

const SENTENCE = /[^.!?。！？…\n]*(?:[.!?。！？…\n]+["'”’」』）)]*\s*|$)/gu
const CLAUSE = /[^,;:，、；：\s]*(?:[,;:，、；：\s]+|$)/gu
// Readings such as <行|HANG2> stay whole.
const ATOM = /<[^<>\n]{1,26}>|./gsu
const WORD = /[\p{L}\p{N}]/u

/**
 * The pieces, none longer than `maxBytes` of UTF-8 nor with white space at its ends; together they are the text, but for pieces
 * of which nothing can be spoken: their jobs would fail.
 */
export function cut(text: string, maxBytes: number): string[] {
  const pieces = gathered(text.trim(), maxBytes, [SENTENCE, CLAUSE, ATOM]).map((piece) => piece.trim()).filter((piece) => piece !== '')
  const spoken = pieces.filter((piece) => WORD.test(piece) || !unspoken(piece).isSilent)
  return spoken.length > 0 ? spoken : pieces.slice(0, 1)
}

/** As many parts in each piece as fit; a part that is too long by itself is cut more finely. */
function gathered(text: string, maxBytes: number, [pattern, ...finer]: RegExp[]): string[] {
  if (utf8Length(text.trim()) <= maxBytes || pattern === undefined) return [text]
  const pieces: string[] = []
  let piece = ''
  for (const [part] of text.matchAll(pattern)) {
    if (utf8Length((piece + part).trim()) <= maxBytes) {
      piece += part
      continue
    }
    if (piece !== '') pieces.push(piece)
    const inside = gathered(part, maxBytes, finer)
    pieces.push(...inside.slice(0, -1))
    piece = inside.at(-1) ?? ''
  }
  return piece === '' ? pieces : [...pieces, piece]
}
