// Finds characters that cannot be spoken before a text is submitted: the rule of docs/speech.md, "Other scripts".
// The table is made by scripts/unspoken_table.py, and tenuto_client has the same one.
import table from './unspoken.json'

type Ranges = [start: number, end: number][]
const SHOWN = 20
const SPOKEN = rangesOf(table.spoken)
const SILENT = rangesOf(table.silent)

/**
 * What becomes of a text: the characters that are left out, once each, whether anything is spoken at all, and whether more
 * is lost than spoken.
 */
export function unspoken(text: string): { leftOut: string; isSilent: boolean; isMostlyLost: boolean; shown: string } {
  const leftOut = new Set<string>()
  let [spoken, lost] = [0, 0]
  for (const char of text.normalize('NFC')) {
    if (isIn(SPOKEN, char)) spoken += 1
    else if (!isIn(SILENT, char)) {
      leftOut.add(char)
      lost += 1
    }
  }
  const letters = [...leftOut]
  const shown = letters.slice(0, SHOWN).join(' ') + (letters.length > SHOWN ? ' …' : '')
  return { leftOut: letters.join(''), isSilent: spoken === 0, isMostlyLost: lost >= spoken, shown }
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
