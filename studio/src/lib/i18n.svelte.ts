// The language of the pages. One language is loaded at a time; the build refuses a key that only one of them has.
import type zh from '../messages/zh.json'
import type webhooks from '../messages/webhooks.zh.json'

export type Language = 'zh' | 'en'
export type Key = keyof typeof zh | keyof typeof webhooks
type Messages = Record<Key, string>
type Loaders = Record<Language, () => Promise<{ default: Partial<Messages> }>>

const REMEMBERED = 'tenuto.language'
const loaders: Loaders[] = [{ zh: () => import('../messages/zh.json'), en: () => import('../messages/en.json') }]

let messages = $state.raw<Messages>({} as Messages)
let current = $state<Language>('zh')
let isPriceless = $state(false)
let wanted: Language = 'zh'
let turns = 0

/** The language of the pages now. */
export function language(): Language {
  return current
}

/** Loads a language and shows it everywhere; the browser remembers it. The last call wins, however long each loads. */
export async function speak(next: Language): Promise<void> {
  wanted = next
  const turn = ++turns
  const parts = await Promise.all(loaders.map((part) => part[next]()))
  if (turn !== turns) return
  messages = Object.assign({}, ...parts.map((part) => part.default))
  current = next
  document.documentElement.lang = next === 'zh' ? 'zh-Hans' : 'en'
  remember(next)
}

/** Messages that one page alone needs, loaded when it is opened. */
export async function also(part: Loaders): Promise<void> {
  loaders.push(part)
  await speak(wanted)
}

/** The language to begin with: the one chosen last, or else Chinese if the browser prefers it at all. */
export function firstLanguage(): Language {
  const chosen = remembered()
  if (chosen === 'zh' || chosen === 'en') return chosen
  return navigator.languages.some((name) => name.startsWith('zh')) ? 'zh' : 'en'
}

/** Where nothing has a price, a message that speaks of money is replaced by the one named `KEY.free`, if there is one. */
export function withoutPrices(is: boolean): void {
  isPriceless = is
}

/** The text of a message, its blanks filled: `{n}` with `values.n`. */
export function t(key: Key, values: Record<string, string | number> = {}): string {
  const text = (isPriceless && messages[`${key}.free` as Key]) || (messages[key] ?? '')
  return text.replace(/\{(\w+)\}/g, (blank, name: string) => String(values[name] ?? blank))
}

/** Whether there is such a message, for names that come from the service. */
export function isKey(key: string): key is Key {
  return key in messages
}

/** For Intl: Chinese of the mainland, or English. */
export function locale(): string {
  return current === 'zh' ? 'zh-CN' : 'en-GB'
}

// Storage may be forbidden; the pages then forget the choice and work all the same.
function remembered(): string | null {
  try {
    return localStorage.getItem(REMEMBERED)
  } catch {
    return null
  }
}

function remember(next: Language): void {
  try {
    localStorage.setItem(REMEMBERED, next)
  } catch {
    return
  }
}
