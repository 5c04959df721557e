// Lists that come in pages, newest first; more is added below when it is asked for.
import { call } from './http.ts'
import { isPassing } from './jobs.ts'
import { rereadWhile } from './load.svelte.ts'
import type { Page } from './types.ts'

/** A list at an address that takes `after`. */
export class Pages<T> {
  items = $state.raw<T[]>([])
  problem = $state.raw<unknown>(null)
  isBusy = $state(false)
  isRead = $state(false)
  #next = $state<string | undefined>(undefined)
  #path: () => string
  #turn = 0
  #reading: Promise<void> | null = null

  constructor(path: () => string) {
    this.#path = path
  }

  get hasMore(): boolean {
    return this.#next !== undefined
  }

  /** From the start. */
  async again(): Promise<void> {
    await (this.#reading = this.#read(null))
  }

  /** The next page, below what is there. */
  async more(): Promise<void> {
    if (this.#next !== undefined) await (this.#reading = this.#read(this.#next))
  }

  /**
   * The first page again, laid over what is there: what is new comes on top, what changed is replaced, and what "more" has
   * added stays. Says whether anything changed. Of records whose ids sort by time.
   */
  async refresh(idOf: (item: T) => string): Promise<boolean> {
    // What is being read may have been answered before the change.
    await this.#reading
    if (this.isBusy || !this.isRead) return false
    const turn = this.#turn
    const page = await call<Page<T>>('GET', this.#path())
    if (turn !== this.#turn) return false
    const last = page.data.at(-1)
    const old = this.items
    // More came than a page holds: what is between is not known, so it starts again from here.
    const isTorn = last !== undefined && old.length > 0 && idOf(old[0]!) < idOf(last)
    const rest = last === undefined || page.next_cursor === undefined || isTorn ? [] : old.filter((item) => idOf(item) < idOf(last))
    // What "more" has added is the same where so much of it is left: a long list is not compared as a whole.
    const head = old.slice(0, old.length - rest.length)
    if (JSON.stringify(page.data) === JSON.stringify(head)) return false
    this.items = [...page.data, ...rest]
    if (rest.length === 0) this.#next = page.next_cursor
    return true
  }

  /** One of them is another one now. */
  replace(item: T, idOf: (item: T) => string): void {
    this.items = this.items.map((one) => (idOf(one) === idOf(item) ? item : one))
  }

  async #read(after: string | null): Promise<void> {
    const turn = ++this.#turn
    const path = this.#path()
    const joint = path.includes('?') ? '&' : '?'
    this.isBusy = true
    try {
      const page = await call<Page<T>>('GET', after ? `${path}${joint}after=${encodeURIComponent(after)}` : path)
      // Somebody changed a filter meanwhile: this is the answer to another question.
      if (turn !== this.#turn) return
      this.items = after ? [...this.items, ...page.data] : page.data
      this.#next = page.next_cursor
      this.isRead = true
      this.problem = null
    } catch (problem) {
      if (turn === this.#turn) this.problem = problem
    } finally {
      if (turn === this.#turn) this.isBusy = false
    }
  }
}

/** A list that is read now and whenever its address changes. Call it while a page is created. */
export function paged<T>(path: () => string): Pages<T> {
  const found = new Pages<T>(path)
  $effect(() => {
    path()
    void found.again()
  })
  // Only while nothing is shown: reading it from the start would take away what "more" has added.
  rereadWhile(found, () => !found.isRead && isPassing(found.problem))
  return found
}
