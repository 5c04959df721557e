// Work that takes a while: submitting it once, and following it until it ends.
import { follow as readings, show, type Waiting } from 'tenuto/following.ts'
import { pause, GIVE_UP_S, waitS } from 'tenuto/pacing.ts'
import { submit as submitted, type Reading } from 'tenuto/submission.ts'
import { isPending } from 'tenuto/types.ts'
import { changed, isFollowing, onChange } from './changes.ts'
import { call, link, Problem } from './http.ts'
import { t } from './i18n.svelte.ts'
import { isFinal, type Artifact, type Job } from './types.ts'

export { pause }

const TRIES = 4
// Who follows a job waits longer: a service that restarts, a network that is gone for a minute and a half.
const PATIENT_TRIES = 20

// How often a job is read between its events: while it runs, and while it waits.
const PROGRESS_MS = 2000
const PLACE_MS = 15_000

// Of the jobs that have not ended: when each may be read again.
const known = new Map<string, Reading>()

/** Submits a job. A lost answer is asked for again under the same key, so there is never a second job. */
export async function submit(
  model: string, parameters: object, inputs: string[] = [],
  more: { metadata?: Record<string, string> } = {},
): Promise<Job> {
  const document = {
    model, parameters,
    ...(inputs.length > 0 ? { input_artifact_ids: inputs } : {}), ...(more.metadata ? { metadata: more.metadata } : {}),
  }
  const { reading, entry } = await submitted(link, { kind: '', document }, {})
  await entry?.finish()
  known.set(reading.operation.id, reading)
  return reading.operation as Job
}

/**
 * The job again and again, each time that it may have changed, until it has ended: at each of its events, and between
 * them for its progress or its place in the queue; without a stream as often as the service asks, which may hold its answer back.
 */
export async function* follow(id: string, signal: AbortSignal): AsyncGenerator<Job> {
  const patience = { signal, maxRetries: PATIENT_TRIES - 1 }
  const until = Date.now() + GIVE_UP_S * 1000
  // It may have begun since it was accepted: that event came before anybody listened here.
  let isOld = true
  const stop = onChange((one) => void (isOld ||= one === null || one === id))
  try {
    let reading = known.get(id)
    while (reading === undefined || isPending(reading.operation.state)) {
      if (reading && isFollowing() && Date.now() < until) {
        const pauseMs = reading.operation.state === 'running' ? PROGRESS_MS : PLACE_MS
        if (!isOld) await changed(id, Math.max(pauseMs, reading.dueAt - Date.now()), signal)
        isOld = false
        reading = await show(link, id, 0, patience)
      } else if (reading) reading = await asked(reading, { ...patience, timeoutS: (until - Date.now()) / 1000 })
      else reading = await show(link, id, 0, patience)
      known.set(id, reading)
      yield reading.operation as Job
    }
    known.delete(id)
  } finally {
    stop()
  }
}

/** The next reading, at the pace that the service asks for. */
async function asked(reading: Reading, waiting: Waiting): Promise<Reading> {
  for await (const next of readings(link, reading, waiting)) return next
  return reading
}

/** What a job is recognised by, in every list and above its page. */
export function titleOf(job: Job): string {
  return job.title ?? t(isErased(job) ? 'job.untitled.erased' : 'job.title', { kind: t(`kind.${job.kind}`) })
}

/** Whether its request and result are gone: there is nothing to hear, download or take up again. */
export function isErased(job: Job): boolean {
  return job.erased_at !== null
}

/** Whether something can be done with a job: it has ended, and its content is there. */
export function canBeChosen(job: Job): boolean {
  return isFinal(job.state) && !isErased(job)
}

/** Where a job is read. */
export function jobPath(id: string): string {
  return `/web/v1/jobs/${encodeURIComponent(id)}`
}

/** What a job was asked, as it was accepted; numbers that a browser's cannot hold come as text. */
export function requestOf(
  id: string,
): Promise<{ model: string; parameters: Record<string, unknown>; input_artifact_ids?: string[] }> {
  return call('GET', `${jobPath(id)}/request`)
}

/** Where the bytes of an artifact are. */
export function artifactPath(id: string): string {
  return `/web/v1/artifacts/${encodeURIComponent(id)}/content`
}

const ENDINGS: Record<string, string> = { 'audio/wav': 'wav', 'image/png': 'png', 'application/json': 'json', 'audio/flac': 'flac' }
const MOST_OF_TITLE = 80

/** How a result is called on the reader's disk: by the title of its job where it has one, and never like another's. */
export function fileName(job: Job, artifact: Artifact): string {
  const title = (job.title ?? '').replace(/[\\/:*?"<>|\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{Bidi_Control}]/gu, ' ').replace(/^[\s.]+|\s+$/g, '')
  const short = [...title].slice(0, MOST_OF_TITLE).join('')
  const id = job.id.replace(/^job_/, '')
  return `${short ? `${short} ${id.slice(-8)}` : job.id}.${ENDINGS[artifact.media_type] ?? 'bin'}`
}

/** A form of sound that the service makes of a WAV. */
export type Rendition = 'mp3' | 'opus' | 'flac'

/** Where a sound is in another form. */
export function renditionPath(id: string, form: Rendition): string {
  return `/web/v1/artifacts/${encodeURIComponent(id)}/rendition?form=${form}`
}

// No answer at all, too many requests, a service that is starting.
const PASSING: readonly number[] = [0, 429, 503]

/** Tries again what fails for a while only: as `Retry-After` says, or with growing pauses where no answer came. */
export async function persist<T>(
  attempt: () => Promise<T>, signal?: AbortSignal, passing: readonly number[] = PASSING, tries = TRIES,
): Promise<T> {
  for (let tried = 1; ; tried++) {
    try {
      return await attempt()
    } catch (problem) {
      if (!(problem instanceof Problem) || !passing.includes(problem.status) || tried === tries) throw problem
      const wait = problem.status === 0 ? Math.min(tried, 5) : waitS(problem.retryAfterS)
      if (wait > GIVE_UP_S) throw problem
      await pause(wait * 1000, signal)
    }
  }
}

/** The same for work that continues on the service and is only watched here. */
export function patiently<T>(attempt: () => Promise<T>, signal: AbortSignal): Promise<T> {
  return persist(attempt, signal, PASSING, PATIENT_TRIES)
}

/** Whether a failure may be over by itself soon. */
export function isPassing(problem: unknown): boolean {
  return problem instanceof Problem && PASSING.includes(problem.status)
}

/** Whether a failure only means that the user left the page. */
export function isStopped(problem: unknown): boolean {
  return problem instanceof DOMException && problem.name === 'AbortError'
}
