// How long a text is for the service, which counts bytes of UTF-8 and not characters.

const ENCODER = new TextEncoder()

/** The length of a text in bytes of UTF-8; half of a surrogate pair counts as the replacement character it becomes. */
export function utf8Length(text: string): number {
  return ENCODER.encode(text).length
}
