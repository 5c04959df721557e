// What happens to the account's jobs, wherever they came from, by one stream of events for all tabs. Where there is none
// (no shared workers, a proxy that holds it back, too many streams), whoever wants to know has to ask.
import type { News, Wish } from '../workers/changes.worker.ts'
import { at } from './place.ts'
import { session } from './session.svelte.ts'

// The worker repeats every 20 s that it is connected.
const SILENCE_MS = 60_000

type Listener = (jobId: string | null) => void
const listeners = new Set<Listener>()
let port: MessagePort | null = null
let isUp = false
let silence: ReturnType<typeof setTimeout> | undefined

/** Whether changes come by themselves, now. */
export function isFollowing(): boolean {
  return isUp
}

/**
 * Calls the listener with the id of each job that has changed; with null when any may have: `isFollowing` has changed.
 * Nothing is followed while nobody listens. Returns how to stop.
 */
export function onChange(listener: Listener): () => void {
  listeners.add(listener)
  tell()
  return () => {
    listeners.delete(listener)
    tell()
  }
}

/** Until this job has changed, or `ms` milliseconds have passed. */
export function changed(jobId: string, ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = (): void => {
      clearTimeout(timer)
      stop()
      signal.removeEventListener('abort', end)
      if (signal.aborted) reject(signal.reason)
      else resolve()
    }
    const stop = onChange((id) => void ((id === null || id === jobId) && end()))
    const timer = setTimeout(end, ms)
    signal.addEventListener('abort', end, { once: true })
    if (signal.aborted) end()
  })
}

function tell(): void {
  const isWanted = listeners.size > 0 && globalThis.document?.hidden === false
  if (port === null && isWanted) port = connected()
  say(isWanted)
}

function say(isWanted: boolean): void {
  port?.postMessage({ url: at('/web/v1/events'), account: session()?.account?.id, isWanted } satisfies Wish)
}

function connected(): MessagePort | null {
  if (!('SharedWorker' in window)) return null
  try {
    const worker = new SharedWorker(new URL('../workers/changes.worker.ts', import.meta.url), { type: 'module' })
    // It could not be loaded: the service is away, or a newer one.
    worker.onerror = () => ((port = null), follow(false))
    worker.port.onmessage = ({ data }: MessageEvent<News>) => {
      follow(data.isUp)
      if (data.jobId !== undefined) inform(data.jobId)
    }
    document.addEventListener('visibilitychange', tell)
    window.addEventListener('pagehide', () => say(false))
    window.addEventListener('pageshow', tell)
    return worker.port
  } catch {
    return null
  }
}

function follow(now: boolean): void {
  clearTimeout(silence)
  if (now) silence = setTimeout(() => follow(false), SILENCE_MS)
  if (now === isUp) return
  isUp = now
  inform(null)
}

function inform(jobId: string | null): void {
  for (const listener of [...listeners]) listener(jobId)
}
