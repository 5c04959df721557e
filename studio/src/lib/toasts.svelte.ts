// Short messages about what was just done, at the edge of the window. They are read aloud, and leave by themselves.

export type Toast = { id: number; text: string; undo?: () => unknown }

// Long enough to be read twice; longer where something can be undone.
const STAY_MS = 8000
const UNDO_MS = 15_000
// More would cover the page.
const MOST = 4

let list = $state.raw<readonly Toast[]>([])
let last = 0
const timers = new Map<number, ReturnType<typeof setTimeout>>()

/** The messages that are shown now, oldest first. */
export function toasts(): readonly Toast[] {
  return list
}

/** Shows a message. With `undo` it has a button that takes back what was done. */
export function toast(text: string, undo?: () => unknown): void {
  const shown = { id: ++last, text, undo }
  for (const old of list.slice(0, Math.max(0, list.length + 1 - MOST))) dismiss(old.id)
  list = [...list, shown]
  timers.set(shown.id, setTimeout(() => dismiss(shown.id), undo ? UNDO_MS : STAY_MS))
}

/** Keeps all messages while somebody reads or reaches for them. */
export function hold(): void {
  for (const timer of timers.values()) clearTimeout(timer)
  timers.clear()
}

/** Lets them leave again. */
export function release(): void {
  for (const { id } of list) if (!timers.has(id)) timers.set(id, setTimeout(() => dismiss(id), STAY_MS))
}

/** Takes a message away. */
export function dismiss(id: number): void {
  clearTimeout(timers.get(id))
  timers.delete(id)
  list = list.filter((one) => one.id !== id)
}
