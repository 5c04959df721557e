// Finds characters that cannot be spoken before a text is submitted: the rule of docs/speech.md, "Other scripts".
// The table is made by scripts/unspoken_table.py, and tenuto_client has the same one.
import table from './unspoken.json'

type Ranges = [start: number, end: number][]
const SHOWN = 20
const SPOKEN = rangesOf(table.spoken)
const SILENT = rangesOf(table.silent)

/** What becomes of a text: the characters that are left out, once each, and whether anything is spoken at all. */
export function unspoken(text: string): { leftOut: string; isSilent: boolean; shown: string } {
  const leftOut = new Set<string>()
  let isSilent = true
  for (const char of text.normalize('NFC')) {
    if (isIn(SPOKEN, char)) isSilent = false
    else if (!isIn(SILENT, char)) leftOut.add(char)
  }
  const letters = [...leftOut]
  return { leftOut: letters.join(''), isSilent, shown: letters.slice(0, SHOWN).join(' ') + (letters.length > SHOWN ? ' …' : '') }
}

function isIn(ranges: Ranges, char: string): boolean {
  const code = char.codePointAt(0)!
  let [low, high] = [0, ranges.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if (ranges[middle]![1] < code) low = middle + 1
    else high = middle
  }
  return low < ranges.length && ranges[low]![0] <= code
}

function rangesOf(text: string): Ranges {
  return text.split(' ').map((part) => {
    const [start, end] = part.split('-').map((code) => parseInt(code, 16))
    return [start!, end ?? start!]
  })
}
