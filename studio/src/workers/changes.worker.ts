// Follows the account's events for all tabs of this browser, over one connection: a browser has six of them to a service,
// and every tab needs some. Knows no page; says which jobs have changed and whether it would know of it.
import { backoffS, retryAfterS } from 'tenuto/pacing.ts'
import { EventReader } from 'tenuto/sse.ts'

/** What a tab says: where the events of its account are, and whether it wants to know of them now. */
export type Wish = { url: string; account: string | undefined; isWanted: boolean }
/** What a tab receives: whether changes come by themselves, and a job that has changed. */
export type News = { isUp: boolean; jobId?: string }

declare const self: SharedWorkerGlobalScope
// The service sends something every 20 s. A proxy that holds it back for longer is useless, and so is a dead connection.
const SILENCE_MS = 30_000
const MOST_WAIT_S = 60
// Whoever looks at another tab for a moment comes back to the same stream.
const UNWANTED_MS = 60_000

const tabs = new Map<MessagePort, boolean>()
let wish: Wish | null = null
let isUp = false
// Where the next connection continues, so that nothing is missed while there is none.
let lastId: string | null = null
let connection: AbortController | null = null
let farewell: ReturnType<typeof setTimeout> | undefined

self.onconnect = ({ ports }) => {
  const port = ports[0]!
  port.onmessage = ({ data }: MessageEvent<Wish>) => {
    tabs.set(port, data.isWanted)
    if (data.isWanted && data.account !== wish?.account) {
      // Somebody else has signed in: these events were not theirs.
      halt()
      lastId = null
    }
    if (data.isWanted) wish = data
    port.postMessage({ isUp } satisfies News)
    weigh()
  }
}

/** Begins where somebody wants to know, and ends when nobody has wanted to for a while. */
function weigh(): void {
  clearTimeout(farewell)
  if (![...tabs.values()].includes(true)) farewell = setTimeout(halt, UNWANTED_MS)
  else if (connection === null) void follow((connection = new AbortController()), wish!.url)
}

function halt(): void {
  connection?.abort()
  connection = null
  tell({ isUp: false })
}

async function follow(own: AbortController, url: string): Promise<void> {
  for (let lost = 0; ; ) {
    const failure = await read(own.signal, url, () => (lost = 0)).catch(() => null)
    if (own.signal.aborted) return
    // Whoever is not signed in any more is asked to by the page.
    if (failure?.status === 401) return halt()
    lost += 1
    // A service that restarts is back soon: until the second time nobody begins to ask.
    if (lost > 1) tell({ isUp: false })
    const wait = Math.min(MOST_WAIT_S, Math.max(backoffS(lost, MOST_WAIT_S), failure?.retryAfterS ?? 0)) + Math.random()
    await new Promise((resolve) => setTimeout(resolve, wait * 1000))
    if (own.signal.aborted) return
  }
}

/** One connection, until it ends or is silent for too long; gives the answer where it was a refusal. */
async function read(signal: AbortSignal, url: string, begun: () => void): Promise<{ status: number; retryAfterS: number | null } | null> {
  const end = new AbortController()
  const stop = (): void => end.abort()
  signal.addEventListener('abort', stop)
  let timer = setTimeout(stop, SILENCE_MS)
  try {
    const headers = { Accept: 'text/event-stream', ...(lastId === null ? {} : { 'Last-Event-ID': lastId }) }
    const answer = await fetch(url, { headers, signal: end.signal })
    if (answer.status !== 200 || !answer.headers.get('Content-Type')?.startsWith('text/event-stream')) {
      // The records are others than before, after a restore: it begins at their end.
      if (answer.status === 400) lastId = null
      return { status: answer.status, retryAfterS: retryAfterS(answer.headers) }
    }
    const [reader, decoder, events] = [answer.body!.getReader(), new TextDecoder(), new EventReader()]
    for (;;) {
      const { value, done } = await reader.read()
      if (done || signal.aborted) return null
      clearTimeout(timer)
      timer = setTimeout(stop, SILENCE_MS)
      begun()
      const blocks = events.take(decoder.decode(value, { stream: true }))
      const jobs = new Set(blocks.flatMap(({ data }) => (data ? (JSON.parse(data) as { job_id: string }).job_id : [])))
      for (const { id } of blocks) lastId = id ?? lastId
      tell({ isUp: true })
      for (const jobId of jobs) tell({ isUp: true, jobId })
    }
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', stop)
    stop()
  }
}

function tell(news: News): void {
  isUp = news.isUp
  for (const tab of tabs.keys()) tab.postMessage(news)
}
