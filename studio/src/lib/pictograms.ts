// What the model tenuto/pictograms draws: 710 things under their names in five languages. `pictograms.json` is written
// by scripts/pictogram_names.py from the engine's own list.
import things from './pictograms.json'

const LONGEST_WORDS = 4
const HAN_ALONE = /^[\u3400-\u9fff]+$/
const names = new Set(things.flat().map(plain))
// In scripts without spaces, and with endings, a name may stand anywhere; one of a single sign between counts, colours and
// the like alone, since 象 in 抽象 is no elephant.
const joined = [...names].filter((name) => !/^[\x20-\x7e]+$/.test(name) && [...name].length > 1)
const BETWEEN = /[\s\p{P}的和与在上下里中有是一二两三四五六七八九十几只个条匹头辆艘棵朵本座颗片大小红蓝绿黄白黑紫粉]+/u

/** The things under whose names this stands, as a reader of the language calls them; all of them for an empty text. */
export function thingsFor(query: string, language: 'zh' | 'en'): string[] {
  const wanted = plain(query)
  const found = things.filter((all) => all.some((name) => plain(name).includes(wanted)))
  return found.map((all) => (language === 'zh' && all.find((name) => HAN_ALONE.test(name))) || all[0]!)
}

/** Whether anything in a prompt is a name that the model knows; of what it does not know it draws the nearest thing. */
export function knowsAny(prompt: string): boolean {
  const text = plain(prompt)
  if (joined.some((name) => text.includes(name)) || text.split(BETWEEN).some((one) => names.has(one))) return true
  const words = text.split(/[^a-z0-9'-]+/).filter(Boolean)
  return words.some((_, first) =>
    Array.from({ length: LONGEST_WORDS }, (_, more) => words.slice(first, first + more + 1).join(' ')).some(isKnown),
  )
}

function isKnown(phrase: string): boolean {
  const singular = [phrase, phrase.replace(/s$/, ''), phrase.replace(/es$/, ''), phrase.replace(/ies$/, 'y')]
  return singular.some((one) => names.has(one))
}

function plain(text: string): string {
  return text.normalize('NFKC').trim().toLowerCase()
}
