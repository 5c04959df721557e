// The moment as the pages show it: it moves on by itself while somebody looks.

const STEP_MS = 20_000

const clock = $state({ now: Date.now() })
let users = 0
let timer: ReturnType<typeof setInterval> | undefined

/** A clock in milliseconds that ticks as long as a part uses it. Call it while the part is created. */
export function ticking(): { readonly now: number } {
  $effect(() => {
    if (users++ === 0) {
      clock.now = Date.now()
      timer = setInterval(() => (clock.now = Date.now()), STEP_MS)
    }
    return () => {
      if (--users === 0) clearInterval(timer)
    }
  })
  return clock
}
