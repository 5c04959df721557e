// Server-sent events, from pieces of text that may be cut anywhere.

/** One event: its data, and its id if it has one. */
export type ServerSentEvent = { id: string | null; data: string }

/** Takes pieces of text as they arrive and returns the events that are complete by then. */
export class EventReader {
  #rest = ''

  take(piece: string): ServerSentEvent[] {
    const events = (this.#rest + piece).split(/\r?\n\r?\n/)
    this.#rest = events.pop() ?? ''
    return events.map(eventOf).filter((event) => event.data !== '' || event.id !== null)
  }
}

function eventOf(text: string): ServerSentEvent {
  const lines = text.split(/\r?\n/)
  const values = (name: string): string[] =>
    lines.filter((line) => line.startsWith(`${name}:`)).map((line) => line.slice(name.length + 1).replace(/^ /, ''))
  return { id: values('id').at(-1) ?? null, data: values('data').join('\n') }
}
