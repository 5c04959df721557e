// Downloads that give exactly the announced bytes or fail: size, SHA-256 and media type are checked while they arrive.
// An interrupted download resumes; one that does not match starts over. No job is ever submitted again.
import { ContentMismatch, Refused, ServiceUnreachable } from './errors.ts'
import { call, pathOf, type Calling, type Hash, type Link } from './exchange.ts'
import { backoffS } from './pacing.ts'
import type { Artifact } from './types.ts'

/** What a download must be. */
export type Expected = { id: string; media_type: string; size_bytes: number; sha256: string }

/** Where the bytes go. */
export interface Sink {
  write(block: Uint8Array): void | Promise<void>
  /** Discards what was written. */
  startOver(): void | Promise<void>
}

/** How a download is made. */
export type Downloading = {
  signal?: AbortSignal | undefined
  /** Called with the bytes received so far and the total. */
  onBytes?: (received: number, total: number) => void
}

// The store has not caught up with the database, or the range does not exist: a later try may succeed.
const RETRIED = [404, 416]

/** Where the bytes of an artifact are. */
export function contentOf(artifact: Pick<Artifact, 'id'>): string {
  return pathOf('artifacts', artifact.id, 'content')
}

/** Downloads into a sink until the content matches. Throws ContentMismatch and what `call` does. */
export async function fetchInto(link: Link, path: string, expected: Expected, sink: Sink, how: Downloading = {}): Promise<void> {
  const download = new Download(link, expected, sink, how)
  let fault = ''
  for (let tried = 0; tried <= link.maxRetries; tried++) {
    if (tried > 0) await link.clock.sleep(backoffS(tried, link.maxBackoffS) * 1000, how.signal)
    const isLast = tried === link.maxRetries
    try {
      await download.more(path)
    } catch (error) {
      if (isLast || !isRetried(error)) throw error
      if (error instanceof Refused) await download.startOver()
      continue
    }
    const mismatch = download.fault()
    if (mismatch === null) return
    fault = mismatch
    await download.startOver()
  }
  throw new ContentMismatch(`${expected.id} did not match what was announced, ${link.maxRetries + 1} times: ${fault}`)
}

/** A download into memory. */
export async function load(link: Link, path: string, expected: Expected, how: Downloading = {}): Promise<Uint8Array<ArrayBuffer>> {
  const content = new Uint8Array(expected.size_bytes)
  let at = 0
  const write = (block: Uint8Array): void => (content.set(block, at), void (at += block.length))
  await fetchInto(link, path, expected, { write, startOver: () => void (at = 0) }, how)
  return content
}

/**
 * The bytes as they arrive. What was read cannot be taken back, so the stream fails with ContentMismatch before its end
 * if the whole is not what was announced: use nothing of it until it has ended.
 */
export function stream(
  link: Link, path: string, expected: Expected, how: Downloading = {}, atEnd: () => Promise<void> = async () => undefined,
): ReadableStream<Uint8Array> {
  const left = new AbortController()
  const signal = joined(left, how.signal)
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>()
  const writer = writable.getWriter()
  const startOver = (): never => {
    throw new ContentMismatch(`${expected.id} is not what was announced`)
  }
  writer.closed.catch(() => left.abort())
  fetchInto(link, path, expected, { write: (block) => writer.write(block), startOver }, { ...how, signal }).then(
    () => atEnd().then(() => writer.close()), (error: unknown) => writer.abort(error),
  ).catch(() => undefined)
  return readable
}

/** One download over several connections. */
class Download {
  #received = 0
  #mediaType = ''
  #hash: Hash
  readonly #link: Link
  readonly #expected: Expected
  readonly #sink: Sink
  readonly #how: Downloading

  constructor(link: Link, expected: Expected, sink: Sink, how: Downloading) {
    this.#link = link
    this.#expected = expected
    this.#sink = sink
    this.#how = how
    this.#hash = link.sha256()
  }

  /** What is missing, or as much of it as one connection gives. */
  more(path: string): Promise<void> {
    const headers: Record<string, string> = this.#received ? { Range: `bytes=${this.#received}-` } : {}
    const calling: Calling = { signal: this.#how.signal, isSink: true }
    return call(this.#link, { method: 'GET', path, headers }, (answer, alive) => this.#take(answer, alive), calling)
  }

  /** What does not match, once everything has arrived; null if everything does. */
  fault(): string | null {
    const { media_type, size_bytes, sha256 } = this.#expected
    if (this.#mediaType !== media_type) return `it is ${this.#mediaType || 'of no media type'}, not ${media_type}`
    if (this.#received !== size_bytes) return `it has ${this.#received} bytes, not ${size_bytes}`
    return this.#hash.hex() === sha256 ? null : 'its SHA-256 is different'
  }

  async startOver(): Promise<void> {
    if (this.#received > 0) await this.#sink.startOver()
    this.#received = 0
    this.#hash = this.#link.sha256()
  }

  async #take(answer: Response, alive: () => void): Promise<void> {
    this.#mediaType = (answer.headers.get('content-type') ?? '').split(';')[0]!.trim().toLowerCase()
    if (answer.status !== 206 && this.#received > 0) await this.startOver()
    const reader = answer.body?.getReader()
    for (;;) {
      const { value, done } = (await reader?.read()) ?? { value: undefined, done: true }
      if (done) return
      alive()
      this.#received += value!.length
      // Already wrong: it must not fill the memory or the disk.
      if (this.#received > this.#expected.size_bytes) return void (await reader?.cancel())
      this.#hash.update(value!)
      await this.#sink.write(value!)
      this.#how.onBytes?.(this.#received, this.#expected.size_bytes)
    }
  }
}

function isRetried(error: unknown): boolean {
  return error instanceof ServiceUnreachable || (error instanceof Refused && RETRIED.includes(error.status))
}

/** A signal for either; AbortSignal.any is younger than the browsers and Nodes that this runs in. */
function joined(own: AbortController, outer?: AbortSignal): AbortSignal {
  if (outer?.aborted) own.abort(outer.reason)
  outer?.addEventListener('abort', () => own.abort(outer.reason), { once: true })
  return own.signal
}
