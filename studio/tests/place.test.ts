// Where the studio is on its host.
import { expect, test } from 'vitest'
import { at, under } from '../src/lib/place.ts'

test('without a prefix every path is its own address', () => {
  expect(at('/jobs')).toBe('/jobs')
  expect(under('/jobs')).toBe('/jobs')
  expect(under('/')).toBe('/')
})

test('below a prefix only what stands below it is ours', () => {
  const named = ['/tenuto', '/tenuto/', '/tenuto/jobs', '/tenutos/jobs', '/jobs'].map((path) => under(path, '/tenuto'))
  expect(named).toEqual(['/', '/', '/jobs', null, null])
})
