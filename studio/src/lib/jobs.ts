// Work that takes a while: submitting it once, and following it until it ends.
import { call, freshKey, Problem } from './http.ts'
import { isFinal, type Job } from './types.ts'

const TRIES = 4
// Who follows a job waits longer: a service that starts anew, a network that is gone for a minute and a half.
const PATIENT_TRIES = 20
const WAIT_S = 10

/** Submits a job. A lost answer is asked for again under the same key, so there is never a second job. */
export async function submit(model: string, parameters: object, inputs: string[] = []): Promise<Job> {
  const body = { model, parameters, ...(inputs.length > 0 ? { input_artifact_ids: inputs } : {}) }
  const headers = { 'Idempotency-Key': freshKey() }
  return persist(() => call<Job>('POST', '/web/v1/jobs', { body, headers }), undefined, [0])
}

/** The job again and again, each time that it may have changed, until it has ended. */
export async function* follow(id: string, signal: AbortSignal): AsyncGenerator<Job> {
  let job = await patiently(() => call<Job>('GET', jobPath(id), { signal }), signal)
  yield job
  while (!isFinal(job.state)) {
    // The service holds the answer back until the state changes; progress within a state is asked for each second.
    const wait = job.state === 'running' ? 1 : WAIT_S
    job = await patiently(() => call<Job>('GET', `${jobPath(id)}?wait=${wait}`, { signal }), signal)
    yield job
  }
}

/** Where a job is read. */
export function jobPath(id: string): string {
  return `/web/v1/jobs/${encodeURIComponent(id)}`
}

/** What a job was asked, as it was accepted; numbers that a browser's cannot hold come as text. */
export function requestOf(id: string): Promise<{ model: string; parameters: Record<string, unknown> }> {
  return call('GET', `${jobPath(id)}/request`)
}

/** Where the bytes of an artifact are. */
export function artifactPath(id: string): string {
  return `/web/v1/artifacts/${encodeURIComponent(id)}/content`
}

// No answer at all, too many requests, a service that is starting.
const PASSING: readonly number[] = [0, 429, 503]

/** Tries again what fails for a while only. */
export async function persist<T>(
  attempt: () => Promise<T>, signal?: AbortSignal, passing: readonly number[] = PASSING, tries = TRIES,
): Promise<T> {
  for (let tried = 1; ; tried++) {
    try {
      return await attempt()
    } catch (problem) {
      if (!(problem instanceof Problem) || !passing.includes(problem.status) || tried === tries) throw problem
      await pause(Math.min(problem.retryAfterS ?? tried, 5) * 1000, signal)
    }
  }
}

/** The same for what goes on at the service meanwhile and is only watched from here. */
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

/** Whether a failure is only that somebody went to another page. */
export function isStopped(problem: unknown): boolean {
  return problem instanceof DOMException && problem.name === 'AbortError'
}
