// The time that is left: nothing at first, then by the pace seen.
import { expect, it } from 'vitest'
import { Estimate } from '../src/lib/estimate.ts'

it('is told once there is a pace, and begins anew where the work does', () => {
  const estimate = new Estimate()
  const told = [[0.1, 0], [0.1, 5000], [0.3, 10_000], [1, 20_000], [0, 30_000], [0.5, 40_000]].map(
    ([share, now]) => estimate.leftS(share!, now!),
  )

  expect(told.map((one) => (one === null ? null : Math.round(one)))).toEqual([null, null, 35, null, null, 10])
})
