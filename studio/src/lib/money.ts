// Money as the ledger has it: whole micros, never floats. The API writes decimals with six places, the console micros.

/** Micros of a decimal text like "-0.050000". */
export function micros(decimal: string): bigint {
  const found = /^(-?)(\d+)\.(\d{6})$/.exec(decimal)
  if (!found) throw new RangeError(`no amount: ${decimal}`)
  const amount = BigInt(found[2]!) * 1_000_000n + BigInt(found[3]!)
  return found[1] ? -amount : amount
}

/** An amount in full, to the micro, with at least two places: ¥0.05, −¥0.000133. */
export function yuan(amount: bigint | number, isSigned = false): string {
  const whole = BigInt(amount)
  const size = whole < 0n ? -whole : whole
  const fraction = String(size % 1_000_000n).padStart(6, '0').replace(/0{1,4}$/, '')
  const sign = whole < 0n ? '−' : isSigned && whole > 0n ? '+' : ''
  return `${sign}¥${group(size / 1_000_000n)}.${fraction}`
}

/** Micros of what a person typed, "12.5"; null if it is not an amount with at most six decimal places. */
export function typedMicros(text: string): bigint | null {
  const found = /^([-−+]?)(\d{1,9})(?:\.(\d{1,6}))?$/.exec(text.trim())
  if (!found) return null
  const amount = BigInt(found[2]!) * 1_000_000n + BigInt((found[3] ?? '').padEnd(6, '0'))
  return found[1] === '-' || found[1] === '−' ? -amount : amount
}

function group(whole: bigint): string {
  return String(whole).replace(/\B(?=(\d{3})+$)/g, ',')
}
