// Something that a page reads from the service: not there yet, there, or not to be had.
import { call, Problem } from './http.ts'
import { isPassing, isStopped } from './jobs.ts'
import type { Page } from './types.ts'

// Of one list; more would be no help in a field that one chooses from.
const MOST_PAGES = 20
const REREAD_MS = 5000

/** What was read from an address. `again` reads it again and keeps showing the old, a failure too, until the new is there. */
export class Loaded<T> {
  data = $state.raw<T | null>(null)
  problem = $state.raw<unknown>(null)
  isBusy = $state(false)
  #path: () => string
  #turn = 0
  #reading: Promise<void> | null = null

  constructor(path: () => string) {
    this.#path = path
  }

  again(): Promise<void> {
    return (this.#reading = this.#again())
  }

  async #again(): Promise<void> {
    const turn = ++this.#turn
    this.isBusy = true
    try {
      const data = await call<T>('GET', this.#path())
      // The address became another one meanwhile: this is the answer to an older question.
      if (turn !== this.#turn) return
      this.data = data
      this.problem = null
    } catch (problem) {
      if (turn === this.#turn && !isStopped(problem)) this.problem = problem
    } finally {
      if (turn === this.#turn) this.isBusy = false
    }
  }

  /** Reads it again without a word about failures; says whether anything changed. */
  async refresh(): Promise<boolean> {
    // What is being read may have been answered before the change.
    await this.#reading
    if (this.isBusy || this.data === null) return false
    const turn = this.#turn
    const data = await call<T>('GET', this.#path())
    if (turn !== this.#turn || JSON.stringify(data) === JSON.stringify(this.data)) return false
    this.data = data
    return true
  }
}

/** Reads an address now and whenever it changes. Call it while a page is created. */
export function loaded<T>(path: () => string): Loaded<T> {
  const found = new Loaded<T>(path)
  $effect(() => {
    path()
    void found.again()
  })
  rereadWhile(found, () => isPassing(found.problem))
  return found
}

/**
 * Reads it again every few seconds while this holds, or as seldom as a refusal asks for: a model or a service that is away
 * comes back by itself.
 */
export function rereadWhile(found: { again: () => Promise<void>; problem: unknown }, holds: () => boolean): void {
  $effect(() => {
    if (!holds()) return
    const asked = found.problem instanceof Problem ? (found.problem.retryAfterS ?? 0) * 1000 : 0
    const timer = setInterval(() => void found.again(), Math.max(REREAD_MS, asked))
    return () => clearInterval(timer)
  })
}

/** All items of a list that comes in pages of 100. */
export async function whole<T>(path: string): Promise<T[]> {
  const items: T[] = []
  let after = ''
  for (let turned = 0; turned < MOST_PAGES; turned++) {
    const page = await call<Page<T>>('GET', `${path}?limit=100${after && `&after=${encodeURIComponent(after)}`}`)
    items.push(...page.data)
    if (page.next_cursor === undefined) break
    after = page.next_cursor
  }
  return items
}
