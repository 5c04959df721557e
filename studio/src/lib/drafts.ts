// Unsent text, kept only while the studio is open: a step to another page and back, or a
// session that ends meanwhile, loses nothing of it. Each account finds its own alone.
import { session } from './session.svelte.ts'

const kept = new Map<string, unknown>()

/** What was last kept under a name, and the way to keep what follows. Call it while a page is made. */
export function draft<T>(name: string): { last: T | null; keep: (value: T) => void } {
  const place = `${session()?.account?.id} ${name}`
  return { last: (kept.get(place) as T | undefined) ?? null, keep: (value) => void kept.set(place, value) }
}
