// Work that takes a while: submitting it once, and following it until it ends.
import { call, freshKey, Problem, readJson, send } from './http.ts'
import { t } from './i18n.svelte.ts'
import { GIVE_UP_S, heldS, holdS, retryAfterS, waitS } from './pacing.ts'
import { isFinal, type Artifact, type Job } from './types.ts'

const TRIES = 4
// Who follows a job waits longer: a service that restarts, a network that is gone for a minute and a half.
const PATIENT_TRIES = 20

/** When a job may be read again, and whether the service may be asked to hold the answer back meanwhile. */
type Pace = { dueAt: number; waitS: number; canHold: boolean }
const paces = new Map<string, Pace>()
// Keys of submissions whose answer never came: the same work again is the same job.
const doubts = new Map<string, string>()

/** Submits a job. A lost answer is asked for again under the same key, so there is never a second job. */
export async function submit(
  model: string, parameters: object, inputs: string[] = [],
  more: { metadata?: Record<string, string>; key?: string } = {},
): Promise<Job> {
  const body = {
    model, parameters,
    ...(inputs.length > 0 ? { input_artifact_ids: inputs } : {}), ...(more.metadata ? { metadata: more.metadata } : {}),
  }
  const work = JSON.stringify(body)
  const key = doubts.get(work) ?? more.key ?? freshKey()
  doubts.set(work, key)
  try {
    const answer = await persist(() => send('POST', '/web/v1/jobs', { body, headers: { 'Idempotency-Key': key } }))
    doubts.delete(work)
    return await jobOf(answer, true, 0)
  } catch (problem) {
    if (problem instanceof Problem && !isPassing(problem)) doubts.delete(work)
    throw problem
  }
}

/**
 * The job again and again, each time that it may have changed, until it has ended. Between two reads there is the pause
 * that the service asks for, unless it held its answer back for so long.
 */
export async function* follow(id: string, signal: AbortSignal): AsyncGenerator<Job> {
  const giveUpAt = Date.now() + GIVE_UP_S * 1000
  for (;;) {
    const dueAt = paces.get(id)?.dueAt ?? 0
    if (dueAt > giveUpAt) throw new Problem(0, 'gave_up_waiting', `${id} was followed for two hours`)
    await pause(dueAt - Date.now(), signal)
    const job = await read(id, signal)
    yield job
    if (isFinal(job.state)) return
  }
}

async function read(id: string, signal: AbortSignal): Promise<Job> {
  const pace = paces.get(id)
  const hold = pace?.canHold ? holdS(pace.waitS) : 0
  const askedAt = Date.now()
  try {
    const query = hold ? `?wait=${hold}` : ''
    const answer = await patiently(() => send('GET', jobPath(id) + query, { signal }), signal)
    const held = hold ? heldS(answer.headers, hold, (Date.now() - askedAt) / 1000) : 0
    return await jobOf(answer, pace?.canHold ?? true, held)
  } catch (problem) {
    if (!hold || !(problem instanceof Problem) || problem.status !== 400) throw problem
    paces.set(id, { dueAt: 0, waitS: waitS(problem.retryAfterS), canHold: false })
    await pause(waitS(problem.retryAfterS) * 1000, signal)
    return read(id, signal)
  }
}

/** The job that an answer holds; when it may be read again is kept. */
async function jobOf(answer: Response, canHold: boolean, held: number): Promise<Job> {
  const job = readJson(await answer.text()) as Job
  const wait = waitS(retryAfterS(answer.headers))
  if (isFinal(job.state)) paces.delete(job.id)
  else paces.set(job.id, { dueAt: Date.now() + Math.max(0, wait - held) * 1000, waitS: wait, canHold })
  return job
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
  const title = (job.title ?? '').replace(/[\\/:*?"<>|\p{Cc}\p{Cs}]/gu, ' ').replace(/^[\s.]+|\s+$/g, '')
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

/** Some milliseconds, cut short by the signal, which then throws. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => reject(new DOMException('stopped', 'AbortError'))
    if (signal?.aborted) return stop()
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop)
      resolve()
    }, ms)
    signal?.addEventListener('abort', () => (clearTimeout(timer), stop()), { once: true })
  })
}

/** Whether a failure only means that the user left the page. */
export function isStopped(problem: unknown): boolean {
  return problem instanceof DOMException && problem.name === 'AbortError'
}
