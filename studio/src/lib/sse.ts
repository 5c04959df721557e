// Server-sent events as the chat endpoint writes them: `data:` lines, an empty line behind each event.

/** Feeds on pieces of text as they arrive, wherever they were cut, and gives the data of every whole event. */
export class EventReader {
  #rest = ''

  take(piece: string): string[] {
    const events = (this.#rest + piece).split(/\r?\n\r?\n/)
    this.#rest = events.pop() ?? ''
    return events.map(dataOf).filter((found) => found !== '')
  }
}

function dataOf(event: string): string {
  return event
    .split(/\r?\n/)
    .filter((line) => line.startsWith('data:'))
    .map((line) => line.slice(5).replace(/^ /, ''))
    .join('\n')
}
