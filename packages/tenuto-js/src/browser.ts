// A journal in the browser's storage, held by the Web Locks API, so that of several pages one resumes a job.
import { JournalError } from './errors.ts'
import type { Held, JournalStore } from './journal.ts'

// Where there are no Web Locks (over plain HTTP), pages do not know of each other, but a key is never used for two jobs.
const heldHere = new Set<string>()

/** Keeps a journal in `localStorage`. It holds what is submitted, in plain text, until the job is finished. */
export class WebStore implements JournalStore {
  readonly #storage: Storage
  readonly #prefix: string

  constructor(prefix = 'tenuto.journal.', storage: Storage = localStorage) {
    this.#prefix = prefix
    this.#storage = storage
  }

  async create(name: string, text: string): Promise<Held> {
    const release = await this.#lock(name)
    if (release === null) throw new JournalError(`the entry ${name} is in use`)
    try {
      this.#storage.setItem(this.#prefix + name, text)
    } catch (error) {
      release()
      throw error
    }
    return this.#held(name, text, release)
  }

  names(): Promise<string[]> {
    const keys = Array.from({ length: this.#storage.length }, (_, i) => this.#storage.key(i) ?? '')
    return Promise.resolve(keys.filter((key) => key.startsWith(this.#prefix)).map((key) => key.slice(this.#prefix.length)))
  }

  async hold(name: string, orOwn = false): Promise<Held | null> {
    const isOwn = orOwn && heldHere.has(this.#prefix + name)
    const release = isOwn ? () => undefined : await this.#lock(name)
    if (release === null) return null
    const text = this.#storage.getItem(this.#prefix + name)
    if (text !== null) return this.#held(name, text, release)
    release()
    return null
  }

  #held(name: string, text: string, release: () => void): Held {
    const key = this.#prefix + name
    return {
      text,
      write: (next) => Promise.resolve(this.#storage.setItem(key, next)),
      remove: () => Promise.resolve((this.#storage.removeItem(key), release())),
      release: () => Promise.resolve(release()),
    }
  }

  /** What ends the lock; null if another program or page has it. */
  #lock(name: string): Promise<(() => void) | null> {
    const key = this.#prefix + name
    if (heldHere.has(key)) return Promise.resolve(null)
    heldHere.add(key)
    const leave = (): void => void heldHere.delete(key)
    if (!globalThis.navigator?.locks) return Promise.resolve(leave)
    return new Promise((resolve, reject) => {
      const locked = navigator.locks.request(key, { ifAvailable: true }, (lock) => {
        if (lock === null) return (leave(), resolve(null))
        return new Promise<void>((end) => resolve(() => (leave(), end())))
      })
      locked.catch((error: unknown) => (leave(), reject(error)))
    })
  }
}
