// Conversations, kept in this browser alone, in a database for each account: nobody else who signs in here finds them.
// Where the account does not want that, or the browser forbids it, they last until the page is loaded again.
import type { ChatUsage, Turn } from './chat.ts'
import { freshKey } from './http.ts'

export type Said = Turn & { usage?: ChatUsage; reason?: string }
export type Conversation = {
  id: string
  title: string
  model: string
  system: string
  temperature: number | null
  maxTokens: number | null
  turns: Said[]
  createdAt: number
  changedAt: number
}
/** Turns that another tab has stored, and where they belong. */
export type Added = { at: number; turns: Said[] }

const NONE: Added = { at: 0, turns: [] }
const STORE = 'conversations'
const TITLE_CHARACTERS = 60
const opened = new Map<string, Conversations>()

/** The conversations of an account. */
export function conversationsOf(account: string): Conversations {
  const known = opened.get(account) ?? new Conversations(account)
  opened.set(account, known)
  return known
}

/** A conversation without a word. */
export function emptyConversation(): Conversation {
  const now = Date.now()
  return { id: freshKey(), title: '', model: '', system: '', temperature: null, maxTokens: null, turns: [], createdAt: now, changedAt: now }
}

/** What a conversation is called until it gets a name: the beginning of the first message. */
export function titleOf(words: string): string {
  const line = words.trim().replace(/\s+/g, ' ')
  return [...line].length > TITLE_CHARACTERS ? `${[...line].slice(0, TITLE_CHARACTERS - 1).join('')}…` : line
}

/** Those in whose title or messages each of the words occurs. */
export function matching(all: readonly Conversation[], query: string): Conversation[] {
  const words = query.toLowerCase().split(/\s+/).filter((word) => word !== '')
  return all.filter((one) => {
    const text = [one.title, ...one.turns.map((turn) => turn.content)].join('\n').toLowerCase()
    return words.every((word) => text.includes(word))
  })
}

/** A conversation as a page of Markdown. */
export function markdownOf(one: Conversation, names: { user: string; assistant: string; system: string }): string {
  const system = one.system.trim() === '' ? [] : [`## ${names.system}\n\n${one.system.trim()}`]
  const turns = one.turns.map((turn) => `## ${names[turn.role]}\n\n${turn.content.trim()}`)
  return `${[`# ${one.title}`, one.model, ...system, ...turns].filter((part) => part !== '').join('\n\n')}\n`
}

/** What is stored of a conversation beyond the turns that it has in common with this copy of it. */
function addedTo(turns: readonly Said[], stored: readonly Said[]): Added {
  const isCommon = (turn: Said, i: number): boolean => turns[i]?.role === turn.role && turns[i].content === turn.content
  const at = stored.findIndex((turn, i) => !isCommon(turn, i))
  return at < 0 ? NONE : { at, turns: stored.slice(at) }
}

/** All conversations of one account, the last changed first. */
export class Conversations {
  list = $state.raw<readonly Conversation[]>([])
  isRead = $state(false)
  isKept = $state(true)
  problem = $state.raw<unknown>(null)
  #name: string
  #off: string

  constructor(account: string) {
    this.#name = `tenuto.chats.${account}`
    this.#off = `tenuto.chats.off.${account}`
    this.isKept = !isSet(this.#off)
  }

  /** Reads what is stored; what another tab has changed, too. */
  async read(): Promise<void> {
    if (this.isKept) {
      await this.#try(async () => {
        const stored = await this.#ask<Conversation[]>('readonly', (store) => store.getAll())
        this.list = stored.sort((one, other) => other.changedAt - one.changedAt)
      })
    }
    this.isRead = true
  }

  find(id: string): Conversation | undefined {
    return this.list.find((one) => one.id === id)
  }

  /** A conversation as another tab has stored it since this copy of it; null where none has. */
  async newer({ id, changedAt }: Conversation): Promise<Conversation | null> {
    let stored: Conversation | undefined
    if (this.isKept) await this.#try(async () => void (stored = await this.#ask('readonly', (store) => store.get(id))))
    return stored && stored.changedAt > changedAt ? stored : null
  }

  /**
   * Keeps a conversation as it is now; `since` is the moment at which it was last read or kept. Turns that another tab has
   * stored after it stay: they are put into it, and returned.
   */
  async keep(changed: Conversation, since = changed.changedAt): Promise<Added> {
    let added = NONE
    this.#show(changed)
    const join = (stored: Conversation | undefined): Conversation => {
      if (stored && stored.changedAt > since) added = addedTo(changed.turns, stored.turns)
      return { ...changed, turns: changed.turns.toSpliced(added.at, 0, ...added.turns) }
    }
    if (this.isKept) {
      await this.#try(() => this.#ask('readwrite', (store) => {
        const stored: IDBRequest<Conversation | undefined> = store.get(changed.id)
        stored.onsuccess = () => void store.put(join(stored.result))
        return stored
      }))
    }
    if (added.turns.length > 0) this.#show(join(undefined))
    return added
  }

  async remove(id: string): Promise<void> {
    this.list = this.list.filter((one) => one.id !== id)
    await this.#try(() => this.#ask('readwrite', (store) => store.delete(id)))
  }

  async removeAll(): Promise<void> {
    this.list = []
    await this.#try(() => this.#ask('readwrite', (store) => store.clear()))
  }

  /** Whether they are to be kept. Without it what is stored is deleted, and what is open stays until the page is left. */
  async want(isKept: boolean): Promise<void> {
    this.isKept = isKept
    set(this.#off, !isKept)
    if (!isKept) return this.#try(() => this.#ask('readwrite', (store) => store.clear()))
    for (const one of this.list) await this.#try(() => this.#ask('readwrite', (store) => store.put(one)))
  }

  #show(changed: Conversation): void {
    const others = this.list.filter((one) => one.id !== changed.id)
    this.list = [changed, ...others].sort((one, other) => other.changedAt - one.changedAt)
  }

  async #try(act: () => Promise<unknown>): Promise<void> {
    try {
      await act()
      this.problem = null
    } catch (error) {
      this.problem = error
    }
  }

  async #ask<T>(mode: IDBTransactionMode, act: (store: IDBObjectStore) => { readonly result: unknown }): Promise<T> {
    const database = await open(this.#name)
    try {
      const change = database.transaction(STORE, mode)
      const request = act(change.objectStore(STORE))
      await new Promise<void>((resolve, reject) => {
        change.oncomplete = () => resolve()
        change.onabort = change.onerror = () => reject(change.error)
      })
      return request.result as T
    } finally {
      database.close()
    }
  }
}

function open(name: string): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(name, 1)
    request.onupgradeneeded = () => request.result.createObjectStore(STORE, { keyPath: 'id' })
    request.onsuccess = () => resolve(request.result)
    request.onerror = () => reject(request.error)
  })
}

function isSet(name: string): boolean {
  try {
    return localStorage.getItem(name) !== null
  } catch {
    return false
  }
}

function set(name: string, wanted: boolean): void {
  try {
    if (wanted) localStorage.setItem(name, '1')
    else localStorage.removeItem(name)
  } catch {
    return
  }
}
