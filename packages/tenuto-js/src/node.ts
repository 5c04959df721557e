// The client for Node: the address and the key from the environment or `tenuto login`, a journal on disk, results as
// files, and Node's own SHA-256.
import { createHash } from 'node:crypto'
import { constants } from 'node:fs'
import { mkdir, open, readdir, readFile, rename, rm, stat, type FileHandle } from 'node:fs/promises'
import * as fs from 'node:fs'
import { homedir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { checkedUrl, Client, type Options } from './client.ts'
import { InvalidSetting, NotConfigured } from './errors.ts'
import { contentOf, fetchInto, type Downloading } from './downloads.ts'
import { freshKey, type Hash } from './exchange.ts'
import { Job } from './jobs.ts'
import type { Held, JournalStore } from './journal.ts'

export * from './index.ts'

const DEFAULT_URL = 'http://127.0.0.1:8080'

/** A job whose result can become a file. */
export class FileJob extends Job {
  /**
   * Waits, then saves the result under this path: complete and checked, or not at all. A failed download is retried; the
   * job is not. Throws what `wait` does, ContentMismatch, InvalidSetting, and the system's errors.
   */
  async download(path: string, how: Downloading = {}): Promise<string> {
    await checkTarget(path)
    const artifact = await this.artifact(how)
    const partial = join(dirname(path), `${partialOf(path, this.id)}${me()}-${freshKey()}.part`)
    const file = await open(partial, 'w')
    try {
      await fetchInto(this.link, contentOf(artifact), artifact, new FileSink(file), how)
      await file.sync()
      await file.close()
      await rename(partial, path)
      await removePartials(path, this.id)
      await this.forget()
      return path
    } catch (error) {
      await file.close().catch(() => undefined)
      await rm(partial, { force: true })
      throw error
    }
  }
}

/** Throws if a rename to this path would replace a device, a pipe or a folder. */
async function checkTarget(path: string): Promise<void> {
  const about = await stat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null
    throw error
  })
  if (about && !about.isFile()) throw new InvalidSetting(`${path} is not a regular file`)
}

/** How a temporary file begins: hashed, since the path's own name may be as long as a name can be. */
function partialOf(path: string, jobId: string): string {
  return `.${createHash('sha256').update(`${basename(path)}/${jobId}`).digest('hex').slice(0, 16)}.`
}

/** Removes what killed downloads of this job to this path left. */
async function removePartials(path: string, jobId: string): Promise<void> {
  const start = partialOf(path, jobId)
  for (const name of await readdir(dirname(path))) {
    const isLeft = name.startsWith(start) && name.endsWith('.part') && !isAlive(name.slice(start.length, -'.part'.length))
    if (isLeft) await rm(join(dirname(path), name), { force: true })
  }
}

class FileSink {
  readonly #file: FileHandle
  #at = 0

  constructor(file: FileHandle) {
    this.#file = file
  }

  async write(block: Uint8Array): Promise<void> {
    for (let done = 0; done < block.length; ) {
      const { bytesWritten } = await this.#file.write(block, done, block.length - done, this.#at)
      done += bytesWritten
      this.#at += bytesWritten
    }
  }

  async startOver(): Promise<void> {
    await this.#file.truncate(0)
    this.#at = 0
  }
}

/**
 * A Tenuto service. The address and the key are those given, or of TENUTO_BASE_URL and TENUTO_API_KEY, or what
 * `tenuto login` saved. Jobs are noted in a journal on disk before they are sent, so that a program that was killed can
 * `resume` them; `journal` is another folder or store, or null for none. Throws NotConfigured, InvalidSetting.
 */
export class Tenuto extends Client<FileJob> {
  constructor(options: Omit<Options, 'journal'> & { journal?: JournalStore | string | null } = {}) {
    const { journal = journalFolder() } = options
    const store = typeof journal === 'string' ? new FileStore(journal) : journal
    super({ sha256: nodeHash, fetch: unlimitedFetch, ...options, ...credentials(options), journal: store }, (...made) => new FileJob(...made))
  }
}

/** A file as a recording for `recognition.create`, named as it is on the disk; read as it is sent, where Node can. */
export async function fromFile(path: string): Promise<File | Blob> {
  const openAsBlob = (fs as { openAsBlob?: (path: string) => Promise<Blob> }).openAsBlob
  const content = openAsBlob ? await openAsBlob(path) : new Blob([new Uint8Array(await readFile(path))])
  return Object.defineProperty(content, 'name', { value: basename(path) })
}

/**
 * Keeps a journal in a folder, a file for each entry, whose name says which process holds it: taking it over is one
 * rename, of which only one process succeeds. A process that has died holds nothing. Processes of several machines or
 * containers need a folder each.
 */
export class FileStore implements JournalStore {
  readonly #folder: string

  constructor(folder: string) {
    this.#folder = folder
  }

  async create(name: string, text: string): Promise<Held> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 })
    const path = this.#path(name, me())
    await this.#write(path, text)
    return this.#held(name, path, text)
  }

  async names(): Promise<string[]> {
    return (await this.#files()).map((file) => file.name)
  }

  async hold(name: string, orOwn = false): Promise<Held | null> {
    const file = (await this.#files()).find((one) => one.name === name)
    if (file === undefined || (isAlive(file.holder) && !(orOwn && file.holder === me()))) return null
    const path = this.#path(name, me())
    try {
      await rename(this.#path(name, file.holder), path)
      return this.#held(name, path, await readFile(path, 'utf-8'))
    } catch (error) {
      // Another process was first.
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
      throw error
    }
  }

  #held(name: string, path: string, text: string): Held {
    return {
      text,
      write: (next) => this.#write(path, next),
      remove: () => rm(path, { force: true }),
      release: () => rename(path, this.#path(name, NOBODY)),
    }
  }

  #path(name: string, holder: string): string {
    return join(this.#folder, `${name}.${holder}.json`)
  }

  async #files(): Promise<{ name: string; holder: string }[]> {
    const names = await readdir(this.#folder).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return []
      throw error
    })
    return names.flatMap((file) => {
      const parts = /^([^.]+)\.([^.]+)\.json$/.exec(file)
      return parts ? [{ name: parts[1]!, holder: parts[2]! }] : []
    })
  }

  /** Whole and on the disk, or not at all. */
  async #write(path: string, text: string): Promise<void> {
    const temporary = `${path}.new`
    const file = await open(temporary, 'w', 0o600)
    try {
      await file.writeFile(text)
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(temporary, path)
    // Windows cannot sync a folder, and needs it not.
    if (process.platform === 'win32') return
    const folder = await open(this.#folder, constants.O_RDONLY)
    await folder.sync().finally(() => folder.close())
  }
}

const NOBODY = '0-0'

function me(): string {
  return `${process.pid}-${startOf(process.pid)}`
}

/** Whether the process that holds an entry still runs; another one may have its number by now. */
function isAlive(holder: string): boolean {
  const [pid, start] = holder.split('-')
  if (holder === NOBODY) return false
  try {
    process.kill(Number(pid), 0)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') return false
  }
  return start === startOf(Number(pid))
}

/** When a process began, as Linux counts; elsewhere a number alone must do. */
function startOf(pid: number): string {
  try {
    const stat = fs.readFileSync(`/proc/${pid}/stat`, 'utf-8')
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? '0'
  } catch {
    return '0'
  }
}

// Where Node's fetch, which is undici, keeps what sends its requests; a proxy that a program sets stands there, too.
const DISPATCHER = Symbol.for('undici.globalDispatcher.1')
type Dispatcher = { dispatch: (options: object, ...handlers: unknown[]) => boolean }

/**
 * Node's fetch without its own limits of 300 s for the head of an answer and for each pause in its body: the client limits
 * every request itself, and a chat may take longer. Where there is nothing to ask for that, it is fetch as it is.
 */
function unlimitedFetch(...[address, init]: Parameters<typeof fetch>): Promise<Response> {
  // The first use of Response loads undici.
  const usual = Response && (globalThis as { [DISPATCHER]?: Dispatcher })[DISPATCHER]
  if (usual === undefined) return fetch(address, init)
  const dispatcher: Dispatcher = {
    dispatch: (options, ...handlers) => usual.dispatch({ ...options, headersTimeout: 0, bodyTimeout: 0 }, ...handlers),
  }
  return fetch(address, { ...init, dispatcher } as RequestInit)
}

function nodeHash(): Hash {
  const hash = createHash('sha256')
  return { update: (bytes) => hash.update(bytes), hex: () => hash.digest('hex') }
}

function journalFolder(): string {
  const { TENUTO_JOURNAL, XDG_STATE_HOME } = process.env
  // Not the folder of the Python client: each has its own way to hold an entry.
  return join(TENUTO_JOURNAL || join(XDG_STATE_HOME || join(homedir(), '.local', 'state'), 'tenuto', 'journal'), 'js')
}

type Saved = { current?: string; keys?: Record<string, string> }

function credentials(options: { baseUrl?: string; apiKey?: string | null }): { baseUrl: string; apiKey: string | null } {
  const { TENUTO_BASE_URL, TENUTO_API_KEY } = process.env
  const isGiven = options.apiKey !== undefined
  const saved = (options.baseUrl ?? TENUTO_BASE_URL) && (isGiven || TENUTO_API_KEY) ? {} : savedLogins()
  const baseUrl = checkedUrl(options.baseUrl || TENUTO_BASE_URL || saved.current || DEFAULT_URL)
  // A saved key is only ever sent to the address that it was saved for.
  const apiKey = isGiven ? options.apiKey! : TENUTO_API_KEY || saved.keys?.[baseUrl]
  if (apiKey === undefined) throw new NotConfigured(`no key for ${baseUrl}: run \`tenuto login\` or set TENUTO_API_KEY`)
  return { baseUrl, apiKey }
}

function savedLogins(): Saved {
  const file = join(process.env.XDG_CONFIG_HOME || join(homedir(), '.config'), 'tenuto', 'credentials.json')
  try {
    return JSON.parse(fs.readFileSync(file, 'utf-8')) as Saved
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {}
    throw new InvalidSetting(`${file} cannot be read; remove it and run \`tenuto login\``)
  }
}
