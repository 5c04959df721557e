// Something that a page reads from the service: not there yet, there, or not to be had.
import { call } from './http.ts'
import { isStopped } from './jobs.ts'

/** What was read from an address. `again` reads it anew and keeps showing the old until the new is there. */
export class Loaded<T> {
  data = $state.raw<T | null>(null)
  problem = $state.raw<unknown>(null)
  isBusy = $state(false)
  #path: () => string

  constructor(path: () => string) {
    this.#path = path
  }

  async again(): Promise<void> {
    this.isBusy = true
    this.problem = null
    await call<T>('GET', this.#path()).then(
      (data) => (this.data = data),
      (problem: unknown) => (this.problem = isStopped(problem) ? null : problem),
    )
    this.isBusy = false
  }
}

/** Reads an address now, and anew whenever it becomes another one. Call it while a page is made. */
export function loaded<T>(path: () => string): Loaded<T> {
  const found = new Loaded<T>(path)
  $effect(() => {
    path()
    void found.again()
  })
  return found
}
