// Lists that follow what happens elsewhere: read again while the page is visible, seldom while nothing changes.

const SOON_MS = 2000
const SELDOM_MS = 30_000
const SLOWER = 1.5

/**
 * Calls `refresh` again and again; it says whether anything changed. While `isMoving`, or after a change, soon; else less
 * and less often. Nothing is asked for while the page is hidden. Call it while a page is created.
 */
export function live(refresh: () => Promise<boolean>, isMoving: () => boolean): void {
  $effect(() => {
    let wait = SOON_MS
    let timer: ReturnType<typeof setTimeout> | undefined
    let isOver = false

    async function turn(): Promise<void> {
      if (document.hidden) return
      const hasChanged = await refresh().catch(() => false)
      if (isOver || document.hidden) return
      wait = hasChanged || isMoving() ? SOON_MS : Math.min(wait * SLOWER, SELDOM_MS)
      timer = setTimeout(turn, wait)
    }

    function look(): void {
      clearTimeout(timer)
      wait = SOON_MS
      if (!document.hidden) timer = setTimeout(turn, 0)
    }

    timer = setTimeout(turn, wait)
    document.addEventListener('visibilitychange', look)
    return () => {
      isOver = true
      clearTimeout(timer)
      document.removeEventListener('visibilitychange', look)
    }
  })
}
