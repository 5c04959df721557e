// Requests to the service that the page came from. The browser sends the session's cookie; there is no key here.
import { retryAfterS } from './pacing.ts'
import { at } from './place.ts'

export type Fault = { param: string; code: string; message: string }

/** Why a request failed, as the service says it; `code` is `offline` where no answer came. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly requestId: string | null = null,
    readonly details: Fault[] = [],
    readonly retryAfterS: number | null = null,
    /** What a job would hold and what the account has; only where that is too little. */
    readonly balance: { needed: string; available: string } | null = null,
  ) {
    super(message)
  }
}

export type Options = {
  body?: unknown
  raw?: string
  headers?: Record<string, string>
  signal?: AbortSignal
}

/** An answer in JSON, or null where there is none (204). */
export async function call<T>(method: string, path: string, options: Options = {}): Promise<T> {
  const answer = await send(method, path, options)
  return (answer.status === 204 ? null : readJson(await answer.text())) as T
}

/** An answer as it is, once it is known to be a good one. */
export async function send(method: string, path: string, options: Options = {}): Promise<Response> {
  const body = options.raw ?? (options.body === undefined ? undefined : writeJson(options.body))
  const type = body === undefined ? {} : { 'Content-Type': 'application/json' }
  const init = { method, body, signal: options.signal, headers: { ...type, ...options.headers } }
  const answer = await fetch(at(path), init as RequestInit).catch((error: unknown) => {
    if (options.signal?.aborted) throw error
    throw new Problem(0, 'offline', String(error))
  })
  // The session has ended, here or elsewhere: the app asks for the password again.
  if (answer.status === 401) window.dispatchEvent(new CustomEvent('signed-out'))
  if (!answer.ok) throw await problemOf(answer.status, answer.headers, await answer.text())
  return answer
}

/** What a bad answer says; of one that is not the service's own, its status. */
export function problemOf(status: number, headers: Pick<Headers, 'get'>, text: string): Problem {
  const retry = retryAfterS(headers)
  try {
    const { error } = JSON.parse(text)
    return new Problem(status, error.code, error.message, error.request_id, error.details ?? [], retry, error.balance ?? null)
  } catch {
    return new Problem(status, 'no_answer', `HTTP ${status}`, headers.get('x-request-id'), [], retry)
  }
}

// A seed may have 63 bits and JavaScript's numbers hold 53, so a long one is text on this side. Inside a string of
// JSON its quotes would be escaped, so nothing but the key itself can look like this.
const LONG_SEED = /"seed":\s*(\d{16,})/g
const SEED_TEXT = /"seed":"(\d{1,19})"/g

/** JSON, a seed of more digits than a number holds as text. */
export function readJson(text: string): unknown {
  return JSON.parse(text.replace(LONG_SEED, '"seed":"$1"'))
}

/** The other way round: a seed that is text is written as a number. */
export function writeJson(value: unknown): string {
  return JSON.stringify(value).replace(SEED_TEXT, '"seed":$1')
}

/** A name for a new piece of work. Over plain HTTP the browser has no randomUUID. */
export function freshKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  return [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('')
}
