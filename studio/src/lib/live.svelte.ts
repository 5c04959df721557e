// Lists that follow what happens elsewhere: read again when something has happened, or again and again without a stream.
import { isFollowing, onChange } from './changes.ts'

const SOON_MS = 2000
const SELDOM_MS = 30_000
const SLOWER = 1.5
// Progress has no event of its own.
const PROGRESS_MS = 5000
// Many events at once, as of a batch, are one reason to read; and the next reading waits this long.
const TOGETHER_MS = 150
const APART_MS = 1000

/**
 * Calls `refresh`, which says whether anything changed, when a job of the account has changed; without a stream of
 * events, as `polled` does. Call it while a page is created.
 */
export function live(refresh: () => Promise<boolean>, isMoving: () => boolean): void {
  reread(refresh, isMoving, true)
}

/** Calls `refresh` again and again: while `isMoving`, or after a change, soon; else less and less often. */
export function polled(refresh: () => Promise<boolean>, isMoving: () => boolean): void {
  reread(refresh, isMoving, false)
}

/** Nothing is asked for while the page is hidden; what it missed is read when it is shown again. */
function reread(refresh: () => Promise<boolean>, isMoving: () => boolean, isJobs: boolean): void {
  $effect(() => {
    let wait = SOON_MS
    let timer: ReturnType<typeof setTimeout> | undefined
    let dueAt = Infinity
    let readAt = -Infinity
    let isReading = false
    let isOver = false

    function plan(ms: number): void {
      clearTimeout(timer)
      dueAt = Date.now() + ms
      timer = ms < Infinity ? setTimeout(turn, ms) : undefined
    }

    async function turn(): Promise<void> {
      dueAt = Infinity
      if (document.hidden || isReading) return
      isReading = true
      const hasChanged = await refresh().catch(() => null)
      isReading = false
      readAt = Date.now()
      if (isOver || document.hidden) return
      if (dueAt < Infinity) plan(APART_MS)
      else if (isJobs && isFollowing() && hasChanged !== null) plan(isMoving() ? PROGRESS_MS : Infinity)
      else {
        wait = hasChanged || isMoving() ? SOON_MS : Math.min(wait * SLOWER, SELDOM_MS)
        plan(wait)
      }
    }

    function notice(): void {
      const next = Math.max(TOGETHER_MS, readAt + APART_MS - Date.now())
      if (isReading) dueAt = 0
      else if (!document.hidden && dueAt > Date.now() + next) plan(next)
    }

    function look(): void {
      wait = SOON_MS
      plan(document.hidden ? Infinity : 0)
    }

    plan(wait)
    const stop = isJobs ? onChange(notice) : undefined
    document.addEventListener('visibilitychange', look)
    return () => {
      isOver = true
      clearTimeout(timer)
      stop?.()
      document.removeEventListener('visibilitychange', look)
    }
  })
}
