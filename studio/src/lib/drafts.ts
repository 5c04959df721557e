// Unsent text: a step to another page and back, a reload, or a session that ends meanwhile, loses nothing of it. It is
// kept as long as the tab is open. Each account finds its own alone.
import { session } from './session.svelte.ts'

// Where storage is forbidden it is kept until the page is loaded again.
const kept = new Map<string, string>()

/** What was last kept under a name, and the way to keep what follows. Call it while a page is made. */
export function draft<T>(name: string): { last: T | null; keep: (value: T | null) => void } {
  const place = `tenuto.draft ${session()?.account?.id} ${name}`
  const last = stored(place)
  return { last: last === null ? null : (JSON.parse(last) as T), keep: (value) => (value === null ? forget(place) : store(place, JSON.stringify(value))) }
}

function stored(place: string): string | null {
  try {
    return sessionStorage.getItem(place) ?? kept.get(place) ?? null
  } catch {
    return kept.get(place) ?? null
  }
}

function forget(place: string): void {
  kept.delete(place)
  try {
    sessionStorage.removeItem(place)
  } catch {
    return
  }
}

function store(place: string, text: string): void {
  kept.set(place, text)
  try {
    sessionStorage.setItem(place, text)
  } catch {
    return
  }
}
