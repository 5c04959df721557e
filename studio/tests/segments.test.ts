// The queue of a preview: in order, each once, without a gap, and empty again when another attempt begins.
import { describe, expect, it } from 'vitest'
import { LEAD_S, SegmentQueue, type Segment } from '../src/lib/segments.ts'

const RATE = 24000
const segment = (attempt: string, sequence: number): Segment => ({
  segment_id: `${attempt}-${sequence}`, attempt_id: attempt, sequence, duration_ms: 1000,
})

describe('the queue', () => {
  it('takes each segment once, in order, however it is listed', () => {
    const queue = new SegmentQueue()
    queue.take([segment('a', 0)])
    const { restarted, fresh } = queue.take([segment('a', 2), segment('a', 0), segment('a', 1)])

    expect(restarted).toBe(false)
    expect(fresh.map((one) => one.sequence)).toEqual([1, 2])
    expect(queue.take([segment('a', 0), segment('a', 1), segment('a', 2)]).fresh).toEqual([])
  })

  it('puts segments one right behind the other, to the frame', () => {
    const queue = new SegmentQueue()
    const first = queue.place(48_001, 100.4, RATE)

    expect(first).toBe(Math.ceil(100.4 + LEAD_S * RATE))
    expect(queue.place(24_000, 20_000, RATE)).toBe(first + 48_001)
    expect(queue.end).toBe(first + 48_001 + 24_000)
  })

  it('begins again soon when the next segment comes too late', () => {
    const queue = new SegmentQueue()
    queue.place(1000, 0, RATE)

    expect(queue.place(1000, 90_000, RATE)).toBe(90_000 + LEAD_S * RATE)
  })

  it('plays another job right behind the one before, and drops nothing for it', () => {
    const queue = new SegmentQueue()
    queue.take([segment('a', 0)])
    const end = queue.place(1000, 0, RATE) + 1000
    queue.next()

    expect(queue.take([segment('b', 0)])).toEqual({ restarted: false, fresh: [segment('b', 0)] })
    expect(queue.place(500, 0, RATE)).toBe(end)
  })

  it('drops everything when another attempt begins', () => {
    const queue = new SegmentQueue()
    queue.take([segment('a', 0), segment('a', 1)])
    queue.place(480_000, 0, RATE)
    const { restarted, fresh } = queue.take([segment('b', 0)])

    expect(restarted).toBe(true)
    expect(fresh.map((one) => one.segment_id)).toEqual(['b-0'])
    expect(queue.place(1000, 500, RATE)).toBe(500 + LEAD_S * RATE)
  })

  it('plays an attempt that was dropped no more, even while it is still listed', () => {
    const queue = new SegmentQueue()
    queue.take([segment('a', 0)])
    const { restarted, fresh } = queue.take([segment('a', 0), segment('b', 0), segment('a', 1)])

    expect([restarted, fresh.map((one) => one.segment_id)]).toEqual([true, ['b-0']])
    expect(queue.take([segment('a', 2), segment('b', 1)])).toEqual({ restarted: false, fresh: [segment('b', 1)] })
  })

  it('plays what is there, wherever its sequences begin', () => {
    expect(new SegmentQueue().take([segment('a', 7), segment('a', 3)]).fresh.map((one) => one.sequence)).toEqual([3, 7])
  })

  it('stays as it is when nothing is listed yet', () => {
    const queue = new SegmentQueue()

    expect(queue.take([])).toEqual({ restarted: false, fresh: [] })
    queue.take([segment('a', 0)])
    expect(queue.take([]).restarted).toBe(false)
  })
})
