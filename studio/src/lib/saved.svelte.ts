// Drafts that outlive the page: kept in the browser's storage for each account alone, unless the account's owner turned
// that off here. Where storage is off, forbidden or full, they are kept while the studio is open.
import { session } from './session.svelte.ts'

const WAIT_MS = 300
const open = new Map<string, object>()

/** A draft of the account that is signed in. Call it while a page is made. */
export function saved<T extends object>(name: string): { last: Partial<T> | null; keep: (value: T) => void; clear: () => void } {
  const account = accountId()
  const place = `tenuto.draft.${account}.${name}`
  let waiting: ReturnType<typeof setTimeout> | undefined
  let value: T | null = null

  function write(): void {
    clearTimeout(waiting)
    if (value !== null && savesDrafts()) store(place, JSON.stringify(value))
    value = null
  }

  // The page may be closed, or the account left, before the pause is over.
  $effect(() => {
    window.addEventListener('pagehide', write)
    return () => {
      window.removeEventListener('pagehide', write)
      write()
    }
  })
  return {
    last: (open.get(place) as T | undefined) ?? parsed<T>(read(place)),
    keep(next) {
      value = next
      open.set(place, next)
      clearTimeout(waiting)
      waiting = setTimeout(write, WAIT_MS)
    },
    clear() {
      clearTimeout(waiting)
      value = null
      open.delete(place)
      forget(place)
    },
  }
}

/** Whether this account's drafts are kept in this browser. */
export function savesDrafts(): boolean {
  return read(switchOf(accountId())) !== 'off'
}

/** Turns it on or off; off removes all drafts of the account at once. */
export function saveDrafts(next: boolean): void {
  const account = accountId()
  if (next) return forget(switchOf(account))
  store(switchOf(account), 'off')
  for (const place of placesOf(`tenuto.draft.${account}.`)) forget(place)
}

function accountId(): string {
  return session()?.account?.id ?? ''
}

function switchOf(account: string): string {
  return `tenuto.drafts.${account}`
}

function parsed<T>(text: string | null): Partial<T> | null {
  try {
    const value: unknown = JSON.parse(text ?? 'null')
    return typeof value === 'object' && !Array.isArray(value) ? (value as Partial<T> | null) : null
  } catch {
    return null
  }
}

function read(place: string): string | null {
  try {
    return localStorage.getItem(place)
  } catch {
    return null
  }
}

function store(place: string, text: string): void {
  try {
    localStorage.setItem(place, text)
  } catch {
    return
  }
}

function forget(place: string): void {
  try {
    localStorage.removeItem(place)
  } catch {
    return
  }
}

function placesOf(start: string): string[] {
  try {
    return Object.keys(localStorage).filter((place) => place.startsWith(start))
  } catch {
    return []
  }
}
