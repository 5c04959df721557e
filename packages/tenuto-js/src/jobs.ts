// A job in the hands of a program.
import { contentOf, load, stream, type Downloading } from './downloads.ts'
import { ask, call, pathOf, type Link } from './exchange.ts'
import { events, follow, resultOf, segments, show, type SpokenSegment, type Waiting } from './following.ts'
import { readJson } from './json.ts'
import type { Entry } from './journal.ts'
import { readingOf, type Reading } from './submission.ts'
import type { Artifact, Event, JobRequest, LiveEvent, Operation } from './types.ts'

type Signal = { signal?: AbortSignal }

/** One job as it was last read, and what can be done with it. */
export class Job {
  protected readonly link: Link
  #reading: Reading
  #entry: Entry | null
  readonly #kind: string | undefined

  constructor(link: Link, reading: Reading, entry: Entry | null = null, kind?: string) {
    this.link = link
    this.#reading = reading
    this.#entry = entry
    this.#kind = kind
  }

  /** The operation's id: `client.jobs.get(id)` finds the job again, from any program. */
  get id(): string {
    return this.operation.id
  }

  /** `submitting`, `queued`, `running`, or a final state. */
  get state(): string {
    return this.operation.state
  }

  /** The job as the service last reported it. */
  get operation(): Operation {
    return this.#reading.operation
  }

  /** Reads the job now. */
  async refresh({ signal }: Signal = {}): Promise<this> {
    return this.#update(await show(this.link, this.id, 0, { signal }))
  }

  /** Each reading of the job, at the pace that the service asks for, until it is final. */
  async *follow(waiting: Waiting = {}): AsyncGenerator<Operation> {
    for await (const reading of follow(this.link, this.#reading, waiting)) {
      await this.#update(reading)
      yield reading.operation
    }
  }

  /**
   * Waits until the job has succeeded. Throws JobFailed, JobCancelled, RecoveryRequired or UnknownState if it finished in
   * another state, and GaveUpWaiting after `timeoutS`: the job continues and can be waited for again.
   */
  async wait(waiting: Waiting = {}): Promise<this> {
    for await (const operation of this.follow(waiting)) waiting.onChange?.(operation)
    await this.#update(this.#reading)
    resultOf(this.operation, this.#kind)
    return this
  }

  /** Waits, then returns the bytes of the result, checked. A failed download is retried; the job is not. */
  async read(how: Downloading = {}): Promise<Uint8Array<ArrayBuffer>> {
    const artifact = await this.artifact(how)
    const content = await load(this.link, contentOf(artifact), artifact, how)
    await this.forget()
    return content
  }

  /** The same as a Blob of the result's media type. */
  async blob(how: Downloading = {}): Promise<Blob> {
    const { media_type: type } = await this.artifact(how)
    return new Blob([await this.read(how)], { type })
  }

  /** Waits, then returns the parsed result of a recognition. */
  async json<T>(how: Downloading = {}): Promise<T> {
    return readJson(new TextDecoder().decode(await this.read(how))) as T
  }

  /** Waits, then returns the bytes as they arrive: the stream fails before its end if they are not what was announced. */
  async stream(how: Downloading = {}): Promise<ReadableStream<Uint8Array>> {
    const artifact = await this.artifact(how)
    return stream(this.link, contentOf(artifact), artifact, how, () => this.forget())
  }

  /** The preview of a job with `stream: true` while it runs: in order, each segment once. */
  segments({ signal }: Signal = {}): AsyncGenerator<SpokenSegment> {
    return segments(this.link, this.#reading, signal)
  }

  /** The history of the job so far, oldest first. */
  async events({ signal }: Signal = {}): Promise<Event[]> {
    return (await ask<{ data: Event[] }>(this.link, { method: 'GET', path: this.#path('events') }, { signal })).data
  }

  /** All events of the job as they happen, from the first one on; ends with the job. */
  live({ signal }: Signal = {}): AsyncGenerator<LiveEvent> {
    return events(this.link, this.id, undefined, signal)
  }

  /** The request body that was accepted. */
  request({ signal }: Signal = {}): Promise<JobRequest> {
    return ask(this.link, { method: 'GET', path: this.#path('request') }, { signal })
  }

  /** Cancels the job: at once if it is queued, within seconds if it runs; a recorded result wins. */
  async cancel({ signal }: Signal = {}): Promise<this> {
    const request = { method: 'POST', path: this.#path('cancel') }
    return this.#update(await call(this.link, request, (answer) => readingOf(this.link, answer), { signal }))
  }

  /** Permanently erases the input and result of a finished job; its record stays. */
  async erase({ signal }: Signal = {}): Promise<this> {
    const operation = await ask<Operation>(this.link, { method: 'DELETE', path: this.#path('content') }, { signal })
    return this.#update({ ...this.#reading, operation })
  }

  /**
   * Removes the job from the journal: `client.resume()` does not find it any more. It is called when the result was read,
   * and when the job failed or was cancelled; call it for a job whose result nobody reads.
   */
  async forget(): Promise<void> {
    const entry = this.#entry
    this.#entry = null
    await entry?.finish()
  }

  /** Waits, then returns the record of the result. */
  async artifact({ signal }: { signal?: AbortSignal | undefined } = {}): Promise<Artifact> {
    await this.wait({ signal })
    return resultOf(this.operation, this.#kind)
  }

  #path(...parts: string[]): string {
    return pathOf('jobs', this.id, ...parts)
  }

  async #update(reading: Reading): Promise<this> {
    this.#reading = reading
    if (['failed', 'cancelled'].includes(this.state)) await this.forget()
    return this
  }
}
