// What is stored before a job is sent: its idempotency key, its exact body, the address; never the API key. Where it is
// stored is up to a store: a folder in Node (`node.ts`), the browser's storage (`browser.ts`). Knows no
// requests.
import { JournalError } from './errors.ts'
import { freshKey } from './exchange.ts'
import { readJson, writeJson } from './json.ts'

/** A named record that one program holds. */
export interface Held {
  readonly text: string
  /** Replaces the text, whole or not at all; it is durable when this resolves. */
  write(text: string): Promise<void>
  remove(): Promise<void>
  /** Another program may hold it. */
  release(): Promise<void>
}

/** Where a journal keeps its records. A program that dies holds nothing any more. */
export interface JournalStore {
  /** A new record, durable and held when this resolves. */
  create(name: string, text: string): Promise<Held>
  /** All names. */
  names(): Promise<string[]>
  /** The record; null if a program holds it or it is gone. With `orOwn`, also a record that this program holds. */
  hold(name: string, orOwn?: boolean): Promise<Held | null>
}

/** What is known about a submission. */
export type Facts = {
  key: string
  intent: string
  base_url: string
  /** Distinguishes API keys without revealing them. */
  caller: string
  kind: string
  document: object
  /** The exact body; absent before the upload that must come first. */
  body?: string
  upload_key?: string
  input_artifact_id?: string
  /** Absent while it is unknown whether there is a job. */
  operation_id?: string
}

/** One submission, held while it is open. */
export class Entry {
  readonly facts: Facts
  /** False if an earlier program began it. */
  readonly isNew: boolean
  readonly #held: Held

  constructor(held: Held, facts: Facts, isNew: boolean) {
    this.#held = held
    this.facts = facts
    this.isNew = isNew
  }

  /** Adds facts, durably. */
  async note(facts: Partial<Facts>): Promise<void> {
    Object.assign(this.facts, facts)
    await writing(() => this.#held.write(writeJson(this.facts)), '')
  }

  /** Removes the entry: nothing is left to do. */
  finish(): Promise<void> {
    return this.#held.remove()
  }

  /** Lets another program continue it. */
  release(): Promise<void> {
    return this.#held.release()
  }
}

// How long an accepted job stays in the journal: as long as a job may last.
const RETENTION_MS = 14 * 24 * 3600 * 1000
// How often a running program removes older entries.
const SWEEP_MS = 24 * 3600 * 1000

/** The entries of a store. */
export class Journal {
  readonly #store: JournalStore
  #sweptAt = -Infinity

  constructor(store: JournalStore) {
    this.#store = store
  }

  /** A new entry, durable and held when this resolves. After a JournalError nothing may be sent. */
  async begin(facts: Facts, now: number): Promise<Entry> {
    // Names sort by intent and time.
    const name = `${facts.intent}-${now.toString(36).padStart(9, '0')}-${freshKey()}`
    const held = await writing(async () => {
      if (now - this.#sweptAt >= SWEEP_MS) await this.#forgetOldOnes(now)
      return this.#store.create(name, writeJson(facts))
    })
    return new Entry(held, facts, true)
  }

  /** Interrupted entries, oldest first, each held when it comes; of one intent, or all. */
  async *interrupted(intent = ''): AsyncGenerator<Entry> {
    const names = (await writing(() => this.#store.names())).filter((name) => name.startsWith(intent))
    for (const name of names.sort((one, other) => bornAt(one) - bornAt(other))) {
      const entry = await this.#open(name)
      if (entry) yield entry
    }
  }

  async #open(name: string, orOwn = false): Promise<Entry | null> {
    const held = await this.#store.hold(name, orOwn)
    if (held === null) return null
    try {
      return new Entry(held, readJson(held.text) as Facts, false)
    } catch {
      await held.release()
      return null
    }
  }

  /** Removes entries past their retention, also of jobs whose results this program never read, but none in doubt. */
  async #forgetOldOnes(now: number): Promise<void> {
    this.#sweptAt = now
    for (const name of await this.#store.names()) {
      if (bornAt(name) >= now - RETENTION_MS) continue
      const entry = await this.#open(name, true)
      if (entry?.facts.operation_id || (entry && entry.facts.body === undefined)) await entry.finish()
      else await entry?.release()
    }
  }
}

function bornAt(name: string): number {
  return parseInt(name.split('-')[1] ?? '', 36) || 0
}

/** `outcome` is what the error adds for the caller. */
async function writing<T>(work: () => Promise<T>, outcome = ', so nothing was sent'): Promise<T> {
  try {
    return await work()
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw new JournalError(`the journal cannot be written (${why})${outcome}`, 'journal_error', { cause })
  }
}

/** Keeps a journal as long as the page or the program lives: a submission in doubt is continued by the same call. */
export class MemoryStore implements JournalStore {
  readonly #texts = new Map<string, string>()
  readonly #heldNames = new Set<string>()

  create(name: string, text: string): Promise<Held> {
    this.#texts.set(name, text)
    return Promise.resolve(this.#held(name, text))
  }

  names(): Promise<string[]> {
    return Promise.resolve([...this.#texts.keys()])
  }

  hold(name: string, orOwn = false): Promise<Held | null> {
    const text = this.#texts.get(name)
    return Promise.resolve(text === undefined || (this.#heldNames.has(name) && !orOwn) ? null : this.#held(name, text))
  }

  #held(name: string, text: string): Held {
    this.#heldNames.add(name)
    const release = (): Promise<void> => Promise.resolve(void this.#heldNames.delete(name))
    return {
      text,
      write: (next) => Promise.resolve(void this.#texts.set(name, next)),
      remove: () => (this.#texts.delete(name), release()),
      release,
    }
  }
}
