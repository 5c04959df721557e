// How long something will still take, from how far it has come since it was first seen.

const MIN_SEEN_S = 2
const MIN_STEP = 0.02

/** Watches one share from 0 to 1 by this machine's own clock. */
export class Estimate {
  #first: { share: number; atMs: number } | null = null

  /** The seconds that are left, to judge by the pace so far; null until there is something to judge by. */
  leftS(share: number, nowMs: number): number | null {
    if (this.#first === null || share < this.#first.share) this.#first = { share, atMs: nowMs }
    const seenS = (nowMs - this.#first.atMs) / 1000
    const step = share - this.#first.share
    if (seenS < MIN_SEEN_S || step < MIN_STEP || share >= 1) return null
    return (seenS / step) * (1 - share)
  }
}
