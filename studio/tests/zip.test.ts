// Archives that are written here are read by another program, in tests/features/studio/browser/test_studio_jobs.py; here is their shape.
import { expect, test } from 'vitest'
import { zipOf } from '../src/lib/zip.ts'

test('the parts of an archive are where its directory says', async () => {
  const at = new Date(2026, 1, 3, 4, 5, 6)
  const content = new Blob(['123456789'])
  const zip = new DataView(await (await zipOf([{ name: '音.txt', content, at }, { name: 'b', content: new Blob(), at }])).arrayBuffer())
  const end = zip.byteLength - 22
  const directory = zip.getUint32(end + 16, true)
  const second = directory + 46 + zip.getUint16(directory + 28, true)

  expect(zip.getUint32(end, true)).toBe(0x06054b50)
  expect(zip.getUint32(directory, true)).toBe(0x02014b50)
  expect(zip.getUint32(directory + 16, true)).toBe(0xcbf43926)
  expect(zip.getUint32(zip.getUint32(second + 42, true), true)).toBe(0x04034b50)
  expect(end - directory).toBe(zip.getUint32(end + 12, true))
})
