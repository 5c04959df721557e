// Requests to the service that the page came from. The browser sends the session's cookie; there is no key here.
import { WebStore } from 'tenuto/browser.ts'
import { refusal, ServiceUnreachable, TenutoError } from 'tenuto/errors.ts'
import { SYSTEM_CLOCK, type Link } from 'tenuto/exchange.ts'
import { Journal, MemoryStore, type JournalStore } from 'tenuto/journal.ts'
import { readJson, writeJson } from 'tenuto/json.ts'
import { retryAfterS } from 'tenuto/pacing.ts'
import { Sha256 } from 'tenuto/sha256.ts'
import { at } from './place.ts'

export { freshKey } from 'tenuto/exchange.ts'
export { readJson, writeJson }
/** Why a request failed, as the service says it; `code` is `service_unreachable` where no answer came. */
export { TenutoError as Problem }

/** What the client for JavaScript needs to know of this service. Keys of submissions in doubt live as long as the tab. */
export const link: Link = {
  baseUrl: at(''), apiPath: '/web/v1', apiKey: null, fetch: watched, timeoutS: 60, maxRetries: 3, maxBackoffS: 5,
  journal: new Journal(journalStore()), clock: SYSTEM_CLOCK, sha256: () => new Sha256(),
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
  const answer = await watched(at(path), init as RequestInit).catch((error: unknown) => {
    if (options.signal?.aborted) throw error
    throw new ServiceUnreachable(String(error))
  })
  if (!answer.ok) throw problemOf(answer.status, answer.headers, await answer.text())
  return answer
}

/** What a bad answer says; of one that is not the service's own, its status. */
export function problemOf(status: number, headers: Pick<Headers, 'get'>, text: string): TenutoError {
  return refusal(status, parsed(text), headers.get('x-request-id'), retryAfterS(headers))
}

async function watched(...request: Parameters<typeof fetch>): Promise<Response> {
  const answer = await fetch(...request)
  // The session has ended, here or elsewhere: the app asks for the password again.
  if (answer.status === 401) window.dispatchEvent(new CustomEvent('signed-out'))
  return answer
}

/** Where storage is forbidden they live until the page is loaded again. */
function journalStore(): JournalStore {
  try {
    return new WebStore('tenuto.journal.', sessionStorage)
  } catch {
    return new MemoryStore()
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
