// How long to wait before asking again: the contract's rules for clients. Knows no network.

export const DEFAULT_WAIT_S = 3
export const MIN_WAIT_S = 1
export const GIVE_UP_S = 2 * 3600
const MAX_HOLD_S = 30
// By how much two clocks may differ about the same seconds.
const CLOCK_STEP_S = 0.05
const SEGMENT_POLL_MS = 700
const SEGMENT_PAUSE_MS = 500

type Named = Pick<Headers, 'get'>

/** The seconds that `Retry-After` asks for, a number or an HTTP date; null when it is missing or unreadable. */
export function retryAfterS(headers: Named, now: number = Date.now()): number | null {
  const text = (headers.get('Retry-After') ?? '').trim()
  if (/^\d{1,9}(\.\d+)?$/.test(text)) return Number(text)
  const until = moment(text)
  // Held against the `Date` of the same answer: this machine's clock may be off.
  return until === null ? null : Math.max(0, (until - (moment(headers.get('Date') ?? '') ?? now)) / 1000)
}

/** Seconds to wait before the next read or try: three by default, at least one. */
export function waitS(asked: number | null): number {
  return Math.max(MIN_WAIT_S, asked ?? DEFAULT_WAIT_S)
}

/** For how many whole seconds the service is asked to hold a read back, in place of a pause here. */
export function holdS(wait: number): number {
  return Math.min(MAX_HOLD_S, Math.ceil(wait))
}

/** For how many seconds an answer was held back: all that were asked for, where the service confirms it, or none. */
export function heldS(headers: Named, asked: number, took: number): number {
  const applied = headers.get('Preference-Applied')?.trim().toLowerCase() === `wait=${asked}`
  return applied && took >= asked - CLOCK_STEP_S ? asked : 0
}

/** When the segments may be listed again: every 0.5 to 1 s, and never right behind an answer that took long. */
export function nextListing(askedAt: number, answeredAt: number): number {
  return Math.max(askedAt + SEGMENT_POLL_MS, answeredAt + SEGMENT_PAUSE_MS)
}

function moment(text: string): number | null {
  const at = /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)/.test(text.trim()) ? Date.parse(text) : NaN
  return Number.isNaN(at) ? null : at
}
