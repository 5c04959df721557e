// JSON as the service writes it. A seed may have 63 bits and JavaScript's numbers hold 53, so a long one is text on this
// side. Inside a string of JSON its quotes would be escaped, so nothing but the key itself can look like this.

const LONG_SEED = /"seed":\s*(\d{16,})/g
const SEED_TEXT = /"seed":"(\d{1,19})"/g

/** JSON, a seed of more digits than a number holds as text. */
export function readJson(text: string): unknown {
  return JSON.parse(text.replace(LONG_SEED, '"seed":"$1"'))
}

/** The other way round: a seed that is text or a bigint is written as a number. */
export function writeJson(value: unknown): string {
  const plain = (_: string, item: unknown): unknown => (typeof item === 'bigint' ? String(item) : item)
  return JSON.stringify(value, plain).replace(SEED_TEXT, '"seed":$1')
}
