// Follows a job once it is accepted: reading, waiting, events, the preview.
import {
  ContentMismatch, GaveUpWaiting, InvalidRequest, JobCancelled, JobFailed, RateLimited, RecoveryRequired, ResultMissing,
  ServiceFailed, UnexpectedAnswer, UnknownState,
} from './errors.ts'
import { load } from './downloads.ts'
import { ask, call, Lost, pathOf, within, type Calling, type Link, type Reader, type Request } from './exchange.ts'
import { GIVE_UP_S, heldS, holdS, MIN_WAIT_S, nextListing, waitS } from './pacing.ts'
import { EventReader } from './sse.ts'
import { readingOf, type Reading } from './submission.ts'
import { isPending, RESULT_TYPES, type Artifact, type LiveEvent, type Operation, type Segment } from './types.ts'

/** How a job is waited for. */
export type Waiting = {
  signal?: AbortSignal | undefined
  /** Seconds after which GaveUpWaiting is thrown; two hours. The job continues. */
  timeoutS?: number
  /** Called with the job after every read. */
  onChange?: (operation: Operation) => void
  maxRetries?: number
}

/** GET /v1/jobs/{id}; the service may hold the answer back until the job changes. */
export async function show(link: Link, id: string, hold = 0, calling: Calling = {}): Promise<Reading> {
  const request: Request = { method: 'GET', path: pathOf('jobs', id), query: { wait: hold || null }, timeoutS: link.timeoutS + hold }
  const began = link.clock.monotonic()
  const read = (answer: Response): Promise<Reading> =>
    readingOf(link, answer, hold ? heldS(answer.headers, hold, (link.clock.monotonic() - began) / 1000) : 0)
  try {
    return await call(link, request, read, calling)
  } catch (error) {
    if (!hold || !(error instanceof InvalidRequest)) throw error
    // `wait` is an extension of the contract; a service without it may refuse it in any words.
    await link.clock.sleep(waitS(error.retryAfterS) * 1000, calling.signal)
    return { ...(await show(link, id, 0, calling)), canHold: false }
  }
}

/** Reads at the pace of `Retry-After` until the job is final or in a state that is not known; gives every reading. */
export async function* follow(link: Link, reading: Reading, waiting: Waiting = {}): AsyncGenerator<Reading> {
  const { signal, timeoutS = GIVE_UP_S, ...rest } = waiting
  const until = link.clock.monotonic() + timeoutS * 1000
  while (isPending(reading.operation.state)) {
    const { id } = reading.operation
    await link.clock.sleep(Math.min(reading.dueAt, until) - link.clock.monotonic(), signal)
    const leftS = (until - link.clock.monotonic()) / 1000
    if (leftS <= 0 || reading.dueAt > until) throw gaveUp(reading.operation, timeoutS)
    const canHold = reading.canHold
    const hold = canHold ? holdS(reading.waitS, leftS) : 0
    try {
      reading = await show(link, id, hold, { signal, patienceS: leftS, ...rest })
    } catch (error) {
      const isPassing = error instanceof RateLimited || error instanceof ServiceFailed
      if (!isPassing || link.clock.monotonic() + waitS(error.retryAfterS) * 1000 <= until) throw error
      await link.clock.sleep(until - link.clock.monotonic(), signal)
      throw gaveUp(reading.operation, timeoutS)
    }
    if (!canHold) reading = { ...reading, canHold }
    yield reading
  }
}

/**
 * The artifact of a job that succeeded; throws the matching JobError for every other state. `kind` is the kind that was
 * submitted: it decides the media type, whatever the record says.
 */
export function resultOf(operation: Operation, kind?: string): Artifact {
  const { id, state } = operation
  const doNot = 'keep the id and do not submit the work again'
  if (state === 'failed') {
    const why = operation.error ? `${operation.error.code}: ${operation.error.message}` : 'the service gave no reason'
    throw new JobFailed(`${id} failed: ${why}`, operation, operation.error?.code ?? 'job_failed')
  }
  if (state === 'cancelled') throw new JobCancelled(`${id} was cancelled`, operation, 'job_cancelled')
  if (state === 'recovery_required') {
    const why = `${id} needs the operator: whether it was done or charged is not known; ${doNot}`
    throw new RecoveryRequired(why, operation, 'recovery_required')
  }
  if (state !== 'succeeded') {
    const why = `${id} is in state '${state}', which this version does not know; ${doNot}`
    throw new UnknownState(why, operation, 'unknown_state')
  }
  const artifact = operation.artifacts[0]
  if (!artifact) throw new ResultMissing(`${id} succeeded without a result; report this with its id`, operation, 'result_missing')
  const expected = RESULT_TYPES[kind ?? operation.kind] ?? artifact.media_type
  if (artifact.media_type !== expected) {
    throw new ContentMismatch(`the result of ${id} is ${artifact.media_type}, not ${expected}`)
  }
  return artifact
}

/**
 * The events of a job from the first one on, until it is final; or, without a job, those of the account as they happen,
 * behind `after`. A connection that breaks is opened again, so that each event comes once and in order.
 */
export async function* events(
  link: Link, jobId: string | null, after: string | undefined, signal?: AbortSignal,
): AsyncGenerator<LiveEvent> {
  const path = jobId === null ? pathOf('events') : pathOf('jobs', jobId, 'events')
  for (let lastId = after, isOver = false; !isOver; ) {
    const headers: Record<string, string> = { Accept: 'text/event-stream', ...(lastId === undefined ? {} : { 'Last-Event-ID': lastId }) }
    // The account's quiet is broken every 20 seconds.
    const stop = new AbortController()
    const leave = (): void => stop.abort(signal?.reason)
    signal?.addEventListener('abort', leave, { once: true })
    try {
      const reader = await call(link, { method: 'GET', path, headers }, (answer) => Promise.resolve(opened(answer)), { signal })
      if (reader === null) return
      stop.signal.addEventListener('abort', () => void reader.cancel().catch(() => undefined), { once: true })
      const [blocks, decoder] = [new EventReader(), new TextDecoder()]
      for (;;) {
        const { value, done } = await within(link.timeoutS, reader)
        if (done) break
        for (const block of blocks.take(decoder.decode(value, { stream: true }))) {
          lastId = block.id ?? lastId
          if (block.data === '') continue
          const event = eventOf(block.data, lastId)
          isOver ||= jobId !== null && ['succeeded', 'failed', 'cancelled'].includes(event.state)
          yield event
        }
        if (isOver) return
      }
    } catch (error) {
      if (!(error instanceof Lost)) throw error
      // It continues behind the last event, on another connection.
    } finally {
      signal?.removeEventListener('abort', leave)
      stop.abort()
    }
    signal?.throwIfAborted()
    if (!isOver) await link.clock.sleep(MIN_WAIT_S * 1000, signal)
  }
}

/** A segment of a preview with its audio: one complete WAV, checked. */
export type SpokenSegment = {
  segment: Segment
  content: Uint8Array
  /** True if the job started over: drop what you have queued from earlier segments. */
  startsOver: boolean
}

/** The preview of a job while it runs: its segments in order, each once; it stops after the last one of a final job. */
export async function* segments(link: Link, reading: Reading, signal?: AbortSignal): AsyncGenerator<SpokenSegment> {
  const { id } = reading.operation
  const until = link.clock.monotonic() + GIVE_UP_S * 1000
  const attempts = new Set<string>()
  let [attempt, delivered, listAt] = ['', new Set<string>(), 0]
  for (let isOver = false; !isOver; ) {
    if (isPending(reading.operation.state) && link.clock.monotonic() >= until) throw gaveUp(reading.operation, GIVE_UP_S)
    if (isPending(reading.operation.state) && link.clock.monotonic() >= reading.dueAt) reading = await show(link, id, 0, { signal })
    await link.clock.sleep(listAt - link.clock.monotonic(), signal)
    // The state is read first and the list afterwards: so the last segment is not missed.
    isOver = !isPending(reading.operation.state)
    const askedAt = link.clock.monotonic()
    const listing = await ask<{ data: Segment[] }>(link, { method: 'GET', path: pathOf('jobs', id, 'audio-segments') }, { signal })
    listAt = nextListing(askedAt, link.clock.monotonic())
    const unknown = listing.data.map((segment) => segment.attempt_id).filter((one) => !attempts.has(one)).sort()
    let startsOver = unknown.length > 0 && attempt !== ''
    if (unknown.length > 0) [attempt, delivered] = [unknown.at(-1)!, new Set()]
    unknown.forEach((one) => attempts.add(one))
    for (const segment of listing.data.sort((one, other) => one.sequence - other.sequence)) {
      if (segment.attempt_id !== attempt || delivered.has(segment.segment_id)) continue
      const path = pathOf('jobs', id, 'audio-segments', segment.segment_id, 'content')
      const content = await load(link, path, { ...segment, id: segment.segment_id }, { signal })
      delivered.add(segment.segment_id)
      yield { segment, content, startsOver }
      startsOver = false
    }
  }
}

function opened(answer: Response): Reader | null {
  // 204: the service has nothing to add to what was received.
  return answer.status === 204 || answer.body === null ? null : answer.body.getReader()
}

function eventOf(data: string, id: string | undefined): LiveEvent {
  try {
    return { id, ...JSON.parse(data) } as LiveEvent
  } catch (cause) {
    throw new UnexpectedAnswer('an event of the stream is not JSON', { cause })
  }
}

function gaveUp(operation: Operation, timeoutS: number): GaveUpWaiting {
  return new GaveUpWaiting(`${operation.id} is still ${operation.state} after ${Math.round(timeoutS)} s`, operation, 'gave_up_waiting')
}
