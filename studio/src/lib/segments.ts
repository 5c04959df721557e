// The order and the moments in which segments of a preview are played. Knows no AudioContext and no network:
// it takes the service's list and the time, and returns what to fetch and where to put it.

export type Segment = { segment_id: string; attempt_id: string; sequence: number; duration_ms: number }

/** How long after "now" the first sound begins, so that its start is not missed: a twentieth of a second. */
export const LEAD_S = 0.05

/** The queue of one job. Times are whole frames of the segments' own rate, so that nothing is lost to rounding. */
export class SegmentQueue {
  attempt: string | null = null
  #attempts = new Set<string>()
  #seen = new Set<string>()
  #nextFrame: number | null = null

  /**
   * What is new in a listing, in the order of playing. `restarted` is true when the listing has an attempt that was not
   * there before: all that was queued is then to be dropped, and the earlier attempt is not played again.
   */
  take(listing: readonly Segment[]): { restarted: boolean; fresh: Segment[] } {
    const unknown = listing.map((segment) => segment.attempt_id).filter((id) => !this.#attempts.has(id))
    const restarted = unknown.length > 0 && this.attempt !== null
    if (unknown.length > 0) this.attempt = unknown.sort().at(-1) ?? null
    if (restarted) {
      this.#seen.clear()
      this.#nextFrame = null
    }
    unknown.forEach((id) => this.#attempts.add(id))
    const fresh = listing
      .filter((segment) => segment.attempt_id === this.attempt && !this.#seen.has(segment.segment_id))
      .sort((one, other) => one.sequence - other.sequence)
    fresh.forEach((segment) => this.#seen.add(segment.segment_id))
    return { restarted, fresh }
  }

  /** Another job follows: what it has is played right behind this one's. */
  next(): void {
    this.attempt = null
    this.#attempts.clear()
    this.#seen.clear()
  }

  /** The frame at which the next segment begins: right behind the last one, or soon when that has passed already. */
  place(frames: number, nowFrame: number, rate: number): number {
    const soon = Math.ceil(nowFrame + LEAD_S * rate)
    const start = this.#nextFrame === null || this.#nextFrame < nowFrame ? soon : this.#nextFrame
    this.#nextFrame = start + frames
    return start
  }

  /** The frame behind the last segment; null before the first. */
  get end(): number | null {
    return this.#nextFrame
  }
}
