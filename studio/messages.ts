// What is wrong with the messages of the pages: used by the build, which stops, and by the tests.
import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'

type Messages = Record<string, string>

const ASKED = /\bt\(\s*'([a-z][\w.]*)'/g
const ASKED_BY_PREFIX = /`([a-z][\w.]*\.)\$\{/g
const BLANK = /\{(\w+)\}/g

/** All faults of the Chinese and the English files in `messages` against each other and against the sources, as sentences. */
export function messageFaults(src: string): string[] {
  const [zh, en] = (['zh', 'en'] as const).map(
    (language): Messages => Object.assign({}, ...['', 'webhooks.'].map((part) =>
      JSON.parse(readFileSync(join(src, 'messages', `${part}${language}.json`), 'utf-8')))),
  ) as [Messages, Messages]
  const sources = readdirSync(src, { recursive: true, encoding: 'utf-8' })
    .filter((name) => /\.(svelte|ts)$/.test(name))
    .map((name) => readFileSync(join(src, name), 'utf-8'))
  return [...disagreements(zh, en), ...unknown(sources, zh), ...unused(sources, zh)]
}

/** Where two languages differ in their keys, leave a text empty, or have other blanks to fill. */
export function disagreements(zh: Messages, en: Messages): string[] {
  const faults: string[] = []
  for (const key of new Set([...Object.keys(zh), ...Object.keys(en)])) {
    if (!zh[key]) faults.push(`${key} has no Chinese text`)
    if (!en[key]) faults.push(`${key} has no English text`)
    if (blanks(zh[key]) !== blanks(en[key])) faults.push(`${key} has other blanks in Chinese than in English`)
  }
  return faults
}

function blanks(text = ''): string {
  return [...text.matchAll(BLANK)].map((found) => found[1]).sort().join()
}

function unknown(sources: string[], zh: Messages): string[] {
  const asked = new Set(sources.flatMap((text) => [...text.matchAll(ASKED)].map((found) => found[1] ?? '')))
  return [...asked].filter((key) => !(key in zh)).map((key) => `${key} is asked for and stands nowhere`)
}

function unused(sources: string[], zh: Messages): string[] {
  const all = sources.join('\n')
  const prefixes = [...all.matchAll(ASKED_BY_PREFIX)].map((found) => found[1] ?? '')
  return Object.keys(zh)
    // What a message says where there are no prices is asked for with the message itself.
    .map((key) => (key.endsWith('.free') && key.slice(0, -5) in zh ? key.slice(0, -5) : key))
    .filter((key) => !all.includes(`'${key}'`) && !prefixes.some((prefix) => key.startsWith(prefix)))
    .map((key) => `${key} is never asked for`)
}
