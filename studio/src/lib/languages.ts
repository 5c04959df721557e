// Detects the language of a text: the rule of docs/speech.md, "The language of a text". tenuto_client has the same rule
// and the same table; a test holds both against tests/languages.json.
import table from './languages.json'

type Range = { start: number; end: number; script: string }

const RANGES: Range[] = table.scripts
  .flatMap(({ language, letters }) => letters.split(' ').map((part) => {
    const [start, end] = part.split('-').map((code) => parseInt(code, 16))
    return { start: start!, end: end ?? start!, script: language }
  }))
  .sort((one, other) => one.start - other.start)
const LATIN = table.latin.map(({ language, letters, words }) => ({ language, letters, words: new Set(words.split(' ')) }))

/**
 * The language, as `zh`, `fr` or, where only the script is certain, `cyrillic`; null without letters. It is not
 * necessarily one that a model speaks. The script with the most words decides, a character of Han or kana counting as a
 * word; Latin letters are told apart by their commonest words and by letters such as ñ.
 */
export function detect(text: string): string | null {
  const runs = [...runsOf([...text.slice(0, 2 * table.sample)].slice(0, table.sample).join('').normalize('NFC'))]
  const votes = new Map<string, number>()
  for (const [script] of runs) votes.set(script, (votes.get(script) ?? 0) + 1)
  const [kana, han] = [votes.get('ja') ?? 0, votes.get('zh') ?? 0]
  if (kana > 0 && kana * 10 >= kana + han) {
    votes.set('ja', kana + han)
    votes.delete('zh')
  }
  let script: string | null = null
  for (const { language } of table.scripts) if ((votes.get(language) ?? 0) > (votes.get(script ?? '') ?? 0)) script = language
  return script === 'latin' ? latinOf(runs.flatMap(([one, word]) => (one === 'latin' ? [word] : []))) : script
}

/** English, unless the words of another language are more; one that no model speaks needs more evidence. */
function latinOf(words: string[]): string {
  const points = LATIN.map((one) => words.reduce(
    (sum, word) => sum + Number(one.words.has(word)) + Number([...word].some((letter) => one.letters.includes(letter))), 0,
  ))
  const best = points.indexOf(Math.max(...points))
  const name = LATIN[best]!.language
  if (name === 'en' || name === 'es' || points[best]! >= table.evidence) return name
  const of = (language: string): number => points[LATIN.findIndex((one) => one.language === language)]!
  return of('es') > of('en') ? 'es' : 'en'
}

/** Each word with its script; of scripts without spaces each character. */
function* runsOf(text: string): Generator<[script: string, word: string]> {
  let [script, word] = ['', '']
  for (const char of text.toLowerCase().replaceAll('\u2019', "'")) {
    const found = scriptOf(char)
    const isGrowing = found === script && !table.syllabic.includes(found)
    if (word && (isGrowing || (char === "'" && script === 'latin'))) {
      word += char
      continue
    }
    if (word) yield [script, word.replace(/'+$/, '')]
    ;[script, word] = [found, found ? char : '']
  }
  if (word) yield [script, word.replace(/'+$/, '')]
}

function scriptOf(char: string): string {
  const code = char.codePointAt(0)!
  let [low, high] = [0, RANGES.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if (RANGES[middle]!.end < code) low = middle + 1
    else high = middle
  }
  const range = RANGES[low]
  return range && range.start <= code ? range.script : ''
}
