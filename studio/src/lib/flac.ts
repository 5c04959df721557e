// A FLAC encoder for mono 16-bit speech (RFC 9639): fixed predictors and partitioned Rice codes, with the MD5 of the
// samples in the head. Lossless: what the service decodes is what went in. About half the size of a WAV.
import { BitWriter, crc16, crc8 } from './bits.ts'
import { Md5 } from './md5.ts'

export const BLOCK = 4096
const MAX_ORDER = 4
const MAX_PARTITION_ORDER = 5
// A Rice parameter of 15 would be the escape code.
const MAX_RICE = 14
const RATE_CODES: ReadonlyMap<number, number> = new Map([
  [8000, 4], [16000, 5], [22050, 6], [24000, 7], [32000, 8], [44100, 9], [48000, 10], [96000, 11],
])

/** The file, in pieces for a Blob. `progress` hears how many samples are done, about 20 times a second of work. */
export function encodeFlac(
  samples: Int16Array, rate: number, progress: (done: number) => void = () => {},
): Uint8Array<ArrayBuffer>[] {
  const pieces: Uint8Array<ArrayBuffer>[] = []
  const md5 = new Md5()
  const bits = new BitWriter()
  let [smallest, largest] = [0xffffff, 0]
  for (let start = 0, number = 0; start < samples.length; start += BLOCK, number++) {
    const block = samples.subarray(start, start + BLOCK)
    md5.update(new Uint8Array(block.buffer, block.byteOffset, block.byteLength))
    const frame = encodeFrame(bits, block, rate, number)
    smallest = Math.min(smallest, frame.length)
    largest = Math.max(largest, frame.length)
    pieces.push(frame)
    if (number % 256 === 255) progress(start + block.length)
  }
  progress(samples.length)
  return [head(samples.length, rate, pieces.length ? smallest : 0, largest, md5.digest()), ...pieces]
}

/** `fLaC` and the one block of metadata that must be: STREAMINFO. */
function head(total: number, rate: number, smallest: number, largest: number, md5: Uint8Array): Uint8Array<ArrayBuffer> {
  const bits = new BitWriter()
  for (const byte of [0x66, 0x4c, 0x61, 0x43, 0x80, 0, 0, 34]) bits.write(byte, 8)
  bits.write(BLOCK, 16)
  bits.write(BLOCK, 16)
  bits.write(smallest, 24)
  bits.write(largest, 24)
  bits.write(rate, 20)
  bits.write(0, 3)
  bits.write(15, 5)
  bits.write(Math.floor(total / 2 ** 24), 12)
  bits.write(total % 2 ** 24, 24)
  for (const byte of md5) bits.write(byte, 8)
  return bits.bytes().slice()
}

function encodeFrame(bits: BitWriter, block: Int16Array, rate: number, number: number): Uint8Array<ArrayBuffer> {
  bits.clear()
  const isWhole = block.length === BLOCK
  bits.write(0xfff8, 16)
  bits.write(isWhole ? 12 : 7, 4)
  bits.write(RATE_CODES.get(rate) ?? 0, 4)
  bits.write(0, 4)
  bits.write(4, 3)
  bits.write(0, 1)
  for (const byte of utf8Number(number)) bits.write(byte, 8)
  if (!isWhole) bits.write(block.length - 1, 16)
  bits.write(crc8(bits.bytes()), 8)
  writeSubframe(bits, block)
  bits.align()
  bits.write(crc16(bits.bytes()), 16)
  return bits.bytes().slice()
}

/** A number in the extended UTF-8 that FLAC counts frames with. */
export function utf8Number(number: number): number[] {
  if (number < 0x80) return [number]
  const out: number[] = []
  let first = 0x3f
  let lead = 0x80
  while (number > first) {
    out.unshift(0x80 | (number % 64))
    number = Math.floor(number / 64)
    first >>= 1
    lead = (lead >> 1) | 0x80
  }
  return [lead | number, ...out]
}

type Plan = { order: number; residual: Int32Array; partition: number; parameters: number[]; size: number }

function writeSubframe(bits: BitWriter, block: Int16Array): void {
  if (block.every((sample) => sample === block[0])) {
    bits.write(0b00000000, 8)
    bits.write(block[0]!, 16)
    return
  }
  const plan = bestPlan(block)
  if (plan.size >= block.length * 16) {
    bits.write(0b00000010, 8)
    for (const sample of block) bits.write(sample, 16)
    return
  }
  bits.write((0b001000 | plan.order) << 1, 8)
  for (let i = 0; i < plan.order; i++) bits.write(block[i]!, 16)
  writeResidual(bits, plan, block.length)
}

/** Of the five fixed predictors the one with the smallest sum of residuals, and its cheapest Rice partitions. */
function bestPlan(block: Int16Array): Plan {
  let residual = Int32Array.from(block)
  let best = { order: 0, residual, sum: absoluteSum(residual, 0) }
  for (let order = 1; order <= MAX_ORDER && order < block.length; order++) {
    const next = new Int32Array(block.length)
    for (let i = order; i < block.length; i++) next[i] = residual[i]! - residual[i - 1]!
    residual = next
    const sum = absoluteSum(residual, order)
    if (sum < best.sum) best = { order, residual, sum }
  }
  return cheapestPartitions(best.order, best.residual)
}

function absoluteSum(residual: Int32Array, from: number): number {
  let sum = 0
  for (let i = from; i < residual.length; i++) sum += Math.abs(residual[i]!)
  return sum
}

function cheapestPartitions(order: number, residual: Int32Array): Plan {
  let best: Plan | null = null
  for (let partition = 0; partition <= MAX_PARTITION_ORDER; partition++) {
    const size = residual.length >> partition
    if (size << partition !== residual.length || size <= order) break
    const parameters: number[] = []
    let bits = 6 + 16 * order
    for (let start = 0; start < residual.length; start += size) {
      const [parameter, cost] = cheapestRice(residual, Math.max(start, order), start + size)
      parameters.push(parameter)
      bits += 4 + cost
    }
    if (best === null || bits < best.size) best = { order, residual, partition, parameters, size: bits }
  }
  return best!
}

/** The Rice parameter near log2 of the mean, and what it costs in bits; its neighbours are tried as well. */
function cheapestRice(residual: Int32Array, from: number, to: number): [number, number] {
  let sum = 0
  for (let i = from; i < to; i++) sum += folded(residual[i]!)
  const guess = Math.floor(Math.log2(Math.max(1, sum / Math.max(1, to - from))))
  let best: [number, number] = [0, Infinity]
  for (let k = Math.max(0, guess - 1); k <= Math.min(MAX_RICE, guess + 1); k++) {
    let cost = (to - from) * (k + 1)
    for (let i = from; i < to; i++) cost += folded(residual[i]!) >>> k
    if (cost < best[1]) best = [k, cost]
  }
  return best[1] === Infinity ? [MAX_RICE, Infinity] : best
}

function writeResidual(bits: BitWriter, plan: Plan, length: number): void {
  bits.write(0, 2)
  bits.write(plan.partition, 4)
  const size = length >> plan.partition
  plan.parameters.forEach((k, index) => {
    bits.write(k, 4)
    for (let i = Math.max(index * size, plan.order); i < (index + 1) * size; i++) {
      const value = folded(plan.residual[i]!)
      bits.writeUnary(value >>> k)
      if (k > 0) bits.write(value, k)
    }
  })
}

/** Signed to unsigned, small to small: 0, -1, 1, -2, … to 0, 1, 2, 3, … */
function folded(value: number): number {
  return (value << 1) ^ (value >> 31)
}
