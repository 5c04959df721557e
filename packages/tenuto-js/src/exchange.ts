// Sends one request until it is answered: retries, waits and errors, the same for every endpoint. Knows no jobs.
import { refusal, Refused, ServiceUnreachable, UnexpectedAnswer } from './errors.ts'
import { readJson } from './json.ts'
import type { Journal } from './journal.ts'
import { backoffS, GIVE_UP_S, pause, retryAfterS, waitS } from './pacing.ts'

/** Time, replaceable in tests, in milliseconds: the time of day, and since an arbitrary point, which no correction of it changes. */
export type Clock = { now: () => number; monotonic: () => number; sleep: (ms: number, signal?: AbortSignal) => Promise<void> }
export const SYSTEM_CLOCK: Clock = { now: () => Date.now(), monotonic: () => performance.now(), sleep: pause }

/** A hash that is fed block by block. */
export type Hash = { update: (bytes: Uint8Array) => unknown; hex: () => string }

/** The service, the caller, and how often to retry. */
export type Link = {
  /** Without a trailing slash. */
  readonly baseUrl: string
  /** What every path of the API begins with: `/v1`. */
  readonly apiPath: string
  /** Null where a cookie says who calls. */
  readonly apiKey: string | null
  readonly fetch: typeof fetch
  /** How many seconds a request may go without transferring a byte; a body that is sent has longer, by its size. */
  readonly timeoutS: number
  /** How many times a request is sent again before its error is thrown. */
  readonly maxRetries: number
  /** The longest pause after an answer was lost. */
  readonly maxBackoffS: number
  readonly journal: Journal | null
  readonly clock: Clock
  readonly sha256: () => Hash
}

export type Request = {
  method: string
  /** Below `apiPath`; every part is URL-encoded by `pathOf`. */
  path: string
  headers?: Record<string, string>
  body?: string | Blob | Uint8Array<ArrayBuffer>
  query?: Record<string, string | number | undefined | null>
  /** Whether it may be sent again after its answer was lost; true unless it could do something twice. */
  isRepeatable?: boolean
  /** How many seconds to wait for the first byte of the answer, once the body was sent. */
  timeoutS?: number
}

/** How a call is made. */
export type Calling = {
  signal?: AbortSignal | undefined
  patienceS?: number
  maxRetries?: number
  /** What `consume` has taken cannot be taken back: a connection that breaks while it reads is the caller's matter. */
  isSink?: boolean
}

/** The connection broke, or there was none. */
export class Lost extends Error {
  readonly wasSent: boolean

  constructor(cause: unknown, wasSent: boolean) {
    super(cause instanceof Error ? reasonOf(cause) : String(cause), { cause })
    this.wasSent = wasSent
  }
}

/** What reads the body of an answer; `alive` is called with each sign of life. */
export type Consume<T> = (answer: Response, alive: () => void) => Promise<T>

/**
 * Sends a request until the answer is final. After 429 and 503 it waits as `Retry-After` says, after a lost answer it
 * backs off; either way it retries at most `maxRetries` times and for at most `patienceS`. Throws Refused,
 * ServiceUnreachable, and the reason of the signal.
 */
export async function call<T>(link: Link, request: Request, consume: Consume<T>, calling: Calling = {}): Promise<T> {
  const { signal, patienceS = GIVE_UP_S, maxRetries = link.maxRetries } = calling
  const until = link.clock.monotonic() + patienceS * 1000
  let isInDoubt = false
  for (let tried = 0; ; tried++) {
    const isLast = tried === maxRetries
    let wait: number
    try {
      return await attempt(link, request, consume, signal)
    } catch (error) {
      if (error instanceof Lost) {
        isInDoubt ||= error.wasSent
        const mayRepeat = !error.wasSent || ((request.isRepeatable ?? true) && !calling.isSink)
        if (isLast || !mayRepeat) throw new ServiceUnreachable(`${link.baseUrl} did not answer: ${error.message}`, error)
        wait = backoffS(tried + 1, link.maxBackoffS)
      } else if (error instanceof Unfinal) {
        const refused = error.refused
        isInDoubt ||= RETRIED_WHEN_REPEATABLE.includes(refused.status)
        refused.isInDoubt = isInDoubt
        wait = waitS(refused.retryAfterS)
        if (isLast || !error.mayRepeat || link.clock.monotonic() + wait * 1000 > until) throw refused
      } else throw error
    }
    await link.clock.sleep(wait * 1000, signal)
  }
}

/** The JSON of the answer; undefined where it has no body. */
export function ask<T>(link: Link, request: Request, calling: Calling = {}): Promise<T> {
  return call(link, request, (answer) => json<T>(answer), calling)
}

/** The JSON of a good answer. */
export async function json<T>(answer: Response): Promise<T> {
  const text = await answer.text()
  if (answer.status === 204) return undefined as T
  try {
    return readJson(text) as T
  } catch (cause) {
    const requestId = answer.headers.get('x-request-id')
    throw new UnexpectedAnswer('the answer is not JSON: is this the address of a Tenuto service?', { cause, requestId })
  }
}

export type Reader = ReadableStreamDefaultReader<Uint8Array>

/** The next piece of a stream; Lost if the connection broke, or stayed silent past the limit. */
export async function within(seconds: number, reader: Reader): Promise<ReadableStreamReadResult<Uint8Array>> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const silence = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`nothing was transferred for ${seconds} s`)), seconds * 1000)
  })
  try {
    return await Promise.race([reader.read(), silence])
  } catch (error) {
    throw new Lost(error, true)
  } finally {
    clearTimeout(timer)
  }
}

/** A path below the API's, every part of it URL-encoded; a part `.` or `..` would change the path. */
export function pathOf(...parts: string[]): string {
  return '/' + parts.map((part) => (/^\.\.?$/.test(part) ? part.replaceAll('.', '%2E') : encodeURIComponent(part))).join('/')
}

/** A new idempotency key. Over plain HTTP browsers have no randomUUID. */
export function freshKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  return [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** An answer with an error status, and whether the same request may be sent again. */
class Unfinal extends Error {
  readonly refused: Refused
  readonly mayRepeat: boolean

  constructor(refused: Refused, mayRepeat: boolean) {
    super(refused.message)
    this.refused = refused
    this.mayRepeat = mayRepeat
  }
}

// Fetch does not report how much of a body was sent. At this rate the service still waits for a body: see `slow_body_s`.
const SLOWEST_BYTES_PER_S = 65_536

async function attempt<T>(link: Link, request: Request, consume: Consume<T>, signal?: AbortSignal): Promise<T> {
  signal?.throwIfAborted()
  const firstS = (request.timeoutS ?? link.timeoutS) + sizeOf(request.body) / SLOWEST_BYTES_PER_S
  const limit = new Silence(firstS * 1000, link.timeoutS * 1000, signal)
  try {
    const answer = await link.fetch(addressOf(link, request), init(link, request, limit.signal))
    limit.alive()
    if (!answer.ok) throw await unfinal(link, request, answer)
    return await consume(answer, () => limit.alive())
  } catch (error) {
    if (signal?.aborted) throw signal.reason
    throw isBroken(error) || limit.isOver ? new Lost(error, wasSent(error)) : error
  } finally {
    limit.end()
  }
}

function sizeOf(body: Request['body']): number {
  if (typeof body === 'string') return body.length
  return body instanceof Blob ? body.size : (body?.byteLength ?? 0)
}

function addressOf(link: Link, request: Request): string {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(request.query ?? {})) if (value != null) query.set(name, String(value))
  const text = query.toString()
  return link.baseUrl + link.apiPath + request.path + (text ? `?${text}` : '')
}

function init(link: Link, request: Request, signal: AbortSignal): RequestInit {
  const headers: Record<string, string> = { ...request.headers }
  if (link.apiKey !== null) headers.Authorization = `Bearer ${link.apiKey}`
  if (typeof request.body === 'string') headers['Content-Type'] ??= 'application/json'
  // A redirect would take the key, or the work, to another address than the one that was given: it is refused.
  return { method: request.method, headers, body: request.body ?? null, signal, redirect: 'manual' }
}

// Nothing was done, or doing it twice does no harm: the request may be sent again. Where that is unknown, the answer
// says `x-should-retry: false`.
const RETRIED = [429, 503]
// Perhaps done, perhaps not: only repeatable requests are sent again.
const RETRIED_WHEN_REPEATABLE = [408, 500, 502, 504]

async function unfinal(link: Link, request: Request, answer: Response): Promise<Unfinal> {
  const { status, headers } = answer
  const document = parsed(await answer.text())
  const mayRepeat =
    headers.get('x-should-retry') !== 'false' &&
    (RETRIED.includes(status) || ((request.isRepeatable ?? true) && RETRIED_WHEN_REPEATABLE.includes(status)))
  return new Unfinal(refusal(status, document, headers.get('x-request-id'), retryAfterS(headers, link.clock.now())), mayRepeat)
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

/** Ends a request after a time in which not a byte came, or when the caller's signal says so. */
class Silence {
  isOver = false
  readonly #controller = new AbortController()
  readonly #laterMs: number
  readonly #outer: AbortSignal | undefined
  readonly #stop = (): void => this.#controller.abort(this.#outer?.reason)
  #timer: ReturnType<typeof setTimeout>

  constructor(firstMs: number, laterMs: number, outer?: AbortSignal) {
    this.#laterMs = laterMs
    this.#outer = outer
    this.#timer = this.#begin(firstMs)
    outer?.addEventListener('abort', this.#stop, { once: true })
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  alive(): void {
    clearTimeout(this.#timer)
    this.#timer = this.#begin(this.#laterMs)
  }

  end(): void {
    clearTimeout(this.#timer)
    this.#outer?.removeEventListener('abort', this.#stop)
  }

  #begin(ms: number): ReturnType<typeof setTimeout> {
    return setTimeout(() => {
      this.isOver = true
      this.#controller.abort(new Error(`nothing was transferred for ${ms / 1000} s`))
    }, ms)
  }
}

/** Fetch and its bodies report a broken connection as a TypeError, in browsers as in Node. */
function isBroken(error: unknown): boolean {
  return error instanceof TypeError || ['ECONNRESET', 'UND_ERR_SOCKET', 'UND_ERR_ABORTED'].includes(codeOf(error))
}

// Only Node says so; a browser keeps it to itself.
const NEVER_SENT = ['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH', 'UND_ERR_CONNECT_TIMEOUT']

function wasSent(error: unknown): boolean {
  return !NEVER_SENT.includes(codeOf(error))
}

function codeOf(error: unknown): string {
  const inner = (error as { cause?: unknown } | null)?.cause ?? error
  return String((inner as { code?: unknown } | null)?.code ?? '')
}

function reasonOf(error: Error): string {
  return error.cause instanceof Error && error.cause.message ? error.cause.message : error.message
}
