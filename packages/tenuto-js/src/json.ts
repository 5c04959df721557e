// JSON as the service writes it. A seed may have 63 bits and JavaScript's numbers hold 53, so a long one is text on this
// side. Inside a string of JSON its quotes would be escaped, so nothing but the key itself can look like this.

const LONG_SEED = /"seed":\s*(\d{16,})/g
const SEED_TEXT = /^\d{1,19}$/

/** JSON, a seed of more digits than a number holds as text. */
export function readJson(text: string): unknown {
  return JSON.parse(text.replace(LONG_SEED, '"seed":"$1"'))
}

/** The other way round: `parameters.seed` that is digits or a bigint is written as a number; any other seed is the caller's text. */
export function writeJson(value: unknown, indent?: number): string {
  const parameters = (value as { parameters?: unknown } | null)?.parameters
  // JSON.stringify cannot write such a number, so it writes a text that nothing else can have, which is then replaced.
  const mark = `seed ${crypto.getRandomValues(new Uint32Array(4)).join(' ')}`
  let digits = ''
  const text = JSON.stringify(value, function (this: unknown, key: string, item: unknown): unknown {
    if (this === parameters && key === 'seed' && (typeof item === 'bigint' || (typeof item === 'string' && SEED_TEXT.test(item)))) {
      // Without leading zeros, which JSON's numbers do not have.
      digits = String(BigInt(item))
      return mark
    }
    return typeof item === 'bigint' ? String(item) : item
  }, indent)
  return digits ? text.replace(`"${mark}"`, digits) : text
}
