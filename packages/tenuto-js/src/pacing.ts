// How long to wait: the contract's rules for `Retry-After`, and the backoff after a lost answer. Knows no network.

/** If `Retry-After` is missing or cannot be parsed. */
export const DEFAULT_WAIT_S = 3
export const MIN_WAIT_S = 1
export const MAX_BACKOFF_S = 16
/** How long to wait for a job, and how long to retry a request; the job itself continues. */
export const GIVE_UP_S = 2 * 3600
const MAX_HOLD_S = 30
// By how much two clocks may differ about the same interval.
const CLOCK_STEP_S = 0.05
const SEGMENT_POLL_MS = 700
const SEGMENT_PAUSE_MS = 500

type Named = Pick<Headers, 'get'>

/** The seconds that `Retry-After` asks for, a number or an HTTP date; null when it is missing or unreadable. */
export function retryAfterS(headers: Named, now: number = Date.now()): number | null {
  const text = (headers.get('Retry-After') ?? '').trim()
  if (/^\d{1,9}(\.\d+)?$/.test(text)) return Number(text)
  const until = moment(text)
  // Compared with the `Date` of the same answer: this machine's clock may be wrong.
  return until === null ? null : Math.max(0, (until - (moment(headers.get('Date') ?? '') ?? now)) / 1000)
}

/** Seconds to wait before the next read or try: three by default, at least one. */
export function waitS(asked: number | null): number {
  return Math.max(MIN_WAIT_S, asked ?? DEFAULT_WAIT_S)
}

/** Seconds to wait after the answer was lost for the `tries`-th time: 1, 2, 4, 8, 16. */
export function backoffS(tries: number, most = MAX_BACKOFF_S): number {
  return Math.min(most, MIN_WAIT_S * 2 ** (tries - 1))
}

/** For how many whole seconds the service is asked to hold a read back, in place of a pause here: at most 30. */
export function holdS(wait: number, leftS: number = Infinity): number {
  return Math.max(0, Math.min(MAX_HOLD_S, Math.ceil(wait), Math.floor(leftS)))
}

/** For how many seconds an answer was held back: all that were asked for, if the service confirms it, or none. */
export function heldS(headers: Named, asked: number, took: number): number {
  const applied = headers.get('Preference-Applied')?.trim().toLowerCase() === `wait=${asked}`
  return applied && took >= asked - CLOCK_STEP_S ? asked : 0
}

/** When the segments may be listed again: every 0.5 to 1 s, and never right behind an answer that took long. */
export function nextListing(askedAt: number, answeredAt: number): number {
  return Math.max(askedAt + SEGMENT_POLL_MS, answeredAt + SEGMENT_PAUSE_MS)
}

/** Some milliseconds, cut short by the signal, whose reason is then thrown. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => (clearTimeout(timer), reject(signal?.reason))
    if (signal?.aborted) return reject(signal.reason)
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop)
      resolve()
    }, ms)
    signal?.addEventListener('abort', stop, { once: true })
  })
}

function moment(text: string): number | null {
  const at = /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)/.test(text.trim()) ? Date.parse(text) : NaN
  return Number.isNaN(at) ? null : at
}
