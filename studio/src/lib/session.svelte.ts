// Who is signed in. The cookie is the service's and out of reach here; this is only what it says of itself.
import { call } from './http.ts'
import { withoutPrices } from './i18n.svelte.ts'
import type { Session } from './types.ts'

let current = $state.raw<Session | null>(null)
let isOver = $state(false)

/** The session, null until it was read. */
export function session(): Session | null {
  return current
}

/** Whether the operator wants no prices: then nothing costs anything, and no page shows money. */
export function isFree(): boolean {
  return current?.prices === 'free'
}

/** Whether the operator allows webhooks. */
export function hasWebhooks(): boolean {
  return current?.webhooks === true
}

/** Whether a session on this page expired, rather than being logged out. */
export function hasEnded(): boolean {
  return isOver
}

/** Reads the session again. */
export async function readSession(): Promise<void> {
  const before = current
  current = await call<Session>('GET', '/web/session')
  withoutPrices(isFree())
  isOver = current.account === null && (isOver || Boolean(before?.account))
}

/**
 * A part of the studio that is loaded when it is needed. It cannot be had where the service is away, or is a newer one, whose
 * parts have other names: then the page is loaded again.
 */
export async function later<T>(load: () => Promise<T>): Promise<T> {
  const build = current?.build
  try {
    return await load()
  } catch (error) {
    await readSession()
    if (current?.build !== build) location.reload()
    throw error
  }
}

/** Signs in through one of the doors: log in, register, set up, accept an invitation. */
export async function enter(door: string, body: Record<string, unknown>): Promise<void> {
  current = await call<Session>('POST', `/web/${door}`, { body })
  withoutPrices(isFree())
  isOver = false
}

/** Ends the session here and at the service. */
export async function leave(): Promise<void> {
  await call('POST', '/web/logout')
  await readSession()
  isOver = false
}
