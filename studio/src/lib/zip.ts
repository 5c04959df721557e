// A ZIP archive of files as they are, without compression: sound and pictures are compressed, or would hardly become smaller.

export type Entry = { name: string; content: Blob; at: Date }

const UTF8_NAMES = 0x0800
const VERSION = 20
const TABLE = Int32Array.from({ length: 256 }, (_, byte) => {
  for (let bit = 0; bit < 8; bit++) byte = byte & 1 ? (byte >>> 1) ^ 0xedb88320 : byte >>> 1
  return byte
})

/** The archive; its files and their names together must be smaller than 4 GiB, and at most 65,535. */
export async function zipOf(entries: Entry[]): Promise<Blob> {
  const [files, directory]: [BlobPart[], BlobPart[]] = [[], []]
  let [offset, listed] = [0, 0]
  for (const { name, content, at } of entries) {
    const path = new TextEncoder().encode(name)
    const crc = crc32(new Uint8Array(await content.arrayBuffer()))
    const facts = [VERSION, UTF8_NAMES, 0, timeOf(at), dateOf(at)]
    const sizes = [crc, content.size, content.size]
    const head = packed([0x04034b50], facts, sizes, [path.length, 0])
    const line = packed([0x02014b50], [VERSION, ...facts], sizes, [path.length, 0, 0, 0, 0], [0, offset])
    files.push(head, path, content)
    directory.push(line, path)
    offset += head.length + path.length + content.size
    listed += line.length + path.length
  }
  const end = packed([0x06054b50], [0, 0, entries.length, entries.length], [listed, offset], [0])
  return new Blob([...files, ...directory, end], { type: 'application/zip' })
}

/** The numbers in little-endian order: lists of four bytes each and of two bytes each, alternating. */
function packed(...lists: number[][]): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(lists.reduce((sum, list, i) => sum + list.length * (i % 2 ? 2 : 4), 0))
  const view = new DataView(bytes.buffer)
  let at = 0
  for (const [i, list] of lists.entries()) {
    for (const value of list) {
      if (i % 2) view.setUint16(at, value, true)
      else view.setUint32(at, value >>> 0, true)
      at += i % 2 ? 2 : 4
    }
  }
  return bytes
}

function crc32(bytes: Uint8Array): number {
  let crc = -1
  for (const byte of bytes) crc = (crc >>> 8) ^ TABLE[(crc ^ byte) & 0xff]!
  return ~crc
}

function timeOf(at: Date): number {
  return (at.getHours() << 11) | (at.getMinutes() << 5) | (at.getSeconds() >> 1)
}

function dateOf(at: Date): number {
  return (Math.max(0, at.getFullYear() - 1980) << 9) | ((at.getMonth() + 1) << 5) | at.getDate()
}
