// Two transcripts of one recording, line facing line, with the words in which they differ: single characters in scripts
// without spaces. Marks and capitals are no difference.
import type { Line } from './transcripts.ts'

export type Part = { text: string; isDifferent: boolean }
export type Marked = { line: Line; parts: Part[] }
export type Row = { left: Marked[]; right: Marked[] }

// As the service joins chunks: Thai, Lao, Myanmar, Khmer, kana and Han have no spaces between words.
const SPACELESS = '\\u0e00-\\u0eff\\u1000-\\u109f\\u1780-\\u17ff\\u3040-\\u30ff\\u3400-\\u9fff\\uf900-\\ufaff'
const WORD = new RegExp(`[${SPACELESS}]|[^\\s${SPACELESS}]+`, 'gu')
// What differs in more places has nothing in common worth showing; it also bounds the work.
const MOST_DIFFERENCES = 500
// Long recordings are compared stretch by stretch: from this many words on, a stretch ends where nobody speaks in either.
const STRETCH_WORDS = 200

type Word = { line: number; start: number; end: number; key: string }

/** Rows in the order of time: each line of the first transcript, and those of the second that belong to it most. */
export function compare(first: readonly Line[], second: readonly Line[]): Row[] {
  const [left, right] = marked(first, second)
  const rows = left.map((one) => ({ left: [one], right: [] as Marked[] }))
  const alone: Row[] = []
  for (const one of right) {
    const nearest = mostOverlapping(one.line, first)
    if (nearest === -1) alone.push({ left: [], right: [one] })
    else rows[nearest]!.right.push(one)
  }
  return [...rows, ...alone].sort((a, b) => startOf(a) - startOf(b))
}

/** One transcript alone, as rows without differences. */
export function plainRows(lines: readonly Line[]): Row[] {
  return lines.map((line) => ({ left: [{ line, parts: [{ text: line.text, isDifferent: false }] }], right: [] }))
}

/** How many stretches differ, counted on the side that has more of them. */
export function differences(rows: readonly Row[]): number {
  const on = (side: 'left' | 'right'): number =>
    rows.flatMap((row) => row[side]).reduce((sum, one) => sum + one.parts.filter((part) => part.isDifferent).length, 0)
  return Math.max(on('left'), on('right'))
}

function startOf(row: Row): number {
  return Math.min(...[...row.left, ...row.right].map((one) => one.line.start))
}

function mostOverlapping(line: Line, lines: readonly Line[]): number {
  let [best, most] = [-1, 0]
  lines.forEach((other, i) => {
    const shared = Math.min(line.end, other.end) - Math.max(line.start, other.start)
    if (other.text.trim() !== '' && shared > most) [best, most] = [i, shared]
  })
  return best
}

function marked(first: readonly Line[], second: readonly Line[]): [Marked[], Marked[]] {
  const [one, other] = [wordsOf(first), wordsOf(second)]
  const [oneKept, otherKept] = [new Set<number>(), new Set<number>()]
  let [oneAt, otherAt] = [0, 0]
  for (const end of [...pauses(first, second), Infinity]) {
    const mine = one.slice(oneAt).filter((word) => first[word.line]!.start < end)
    const theirs = other.slice(otherAt).filter((word) => second[word.line]!.start < end)
    if (mine.length + theirs.length < STRETCH_WORDS && end !== Infinity) continue
    const [kept, keptToo] = common(mine.map((word) => word.key), theirs.map((word) => word.key))
    for (const i of kept) oneKept.add(oneAt + i)
    for (const i of keptToo) otherKept.add(otherAt + i)
    oneAt += mine.length
    otherAt += theirs.length
  }
  return [withMarks(first, one, oneKept), withMarks(second, other, otherKept)]
}

/** The moments at which a line of either begins while none goes on. */
function pauses(first: readonly Line[], second: readonly Line[]): number[] {
  const found: number[] = []
  let reached = 0
  for (const line of [...first, ...second].filter((one) => one.text.trim() !== '').sort((a, b) => a.start - b.start)) {
    if (line.start >= reached) found.push(line.start)
    reached = Math.max(reached, line.end)
  }
  return found
}

function wordsOf(lines: readonly Line[]): Word[] {
  return lines.flatMap((line, i) =>
    [...line.text.matchAll(WORD)].flatMap((found) => {
      const key = found[0].toLowerCase().replace(/[^\p{L}\p{N}]/gu, '')
      return key === '' ? [] : [{ line: i, start: found.index, end: found.index + found[0].length, key }]
    }),
  )
}

function withMarks(lines: readonly Line[], words: readonly Word[], kept: ReadonlySet<number>): Marked[] {
  const different: Word[][] = lines.map(() => [])
  words.forEach((word, i) => {
    if (!kept.has(i)) different[word.line]!.push(word)
  })
  return lines.map((line, i) => ({ line, parts: partsOf(line.text, different[i]!) }))
}

/** A text cut where differences begin and end; neighbours are one stretch. */
function partsOf(text: string, words: readonly Word[]): Part[] {
  const parts: Part[] = []
  let at = 0
  for (let i = 0; i < words.length; i++) {
    const { start } = words[i]!
    let { end } = words[i]!
    while (i + 1 < words.length && text.slice(end, words[i + 1]!.start).trim() === '') end = words[++i]!.end
    if (start > at) parts.push({ text: text.slice(at, start), isDifferent: false })
    parts.push({ text: text.slice(start, end), isDifferent: true })
    at = end
  }
  if (at < text.length) parts.push({ text: text.slice(at), isDifferent: false })
  return parts
}

/** Which words of each side are in the longest common sequence (Myers 1986); all of them if there are too many differences. */
function common(one: readonly string[], other: readonly string[]): [Set<number>, Set<number>] {
  const trace: Map<number, number>[] = []
  let reached = new Map<number, number>([[1, 0]])
  for (let distance = 0; distance <= Math.min(one.length + other.length, MOST_DIFFERENCES); distance++) {
    trace.push(new Map(reached))
    for (let diagonal = -distance; diagonal <= distance; diagonal += 2) {
      let x = comesFromAbove(reached, diagonal, distance) ? reached.get(diagonal + 1)! : reached.get(diagonal - 1)! + 1
      while (x < one.length && x - diagonal < other.length && one[x] === other[x - diagonal]) x++
      reached.set(diagonal, x)
      if (x >= one.length && x - diagonal >= other.length) return walkBack(trace, one.length, other.length)
    }
  }
  return [new Set(one.keys()), new Set(other.keys())]
}

function comesFromAbove(reached: Map<number, number>, diagonal: number, distance: number): boolean {
  if (diagonal === -distance) return true
  return diagonal !== distance && reached.get(diagonal - 1)! < reached.get(diagonal + 1)!
}

function walkBack(trace: Map<number, number>[], x: number, y: number): [Set<number>, Set<number>] {
  const [left, right] = [new Set<number>(), new Set<number>()]
  for (let distance = trace.length - 1; distance >= 0; distance--) {
    const reached = trace[distance]!
    const before = comesFromAbove(reached, x - y, distance) ? x - y + 1 : x - y - 1
    const [fromX, fromY] = distance === 0 ? [0, 0] : [reached.get(before)!, reached.get(before)! - before]
    while (x > fromX && y > fromY) {
      left.add(--x)
      right.add(--y)
    }
    ;[x, y] = [fromX, fromY]
  }
  return [left, right]
}
