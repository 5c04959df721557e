// A text on its way to sound: one job, or several for a text that is longer than one takes. Each piece is submitted under
// a key of its own, so a lost answer never makes a second job, and the results are joined sample to sample.
import { call, freshKey } from './http.ts'
import { follow, isErased, isStopped, jobPath, requestOf, submit } from './jobs.ts'
import { utf8Length } from './bytes.ts'
import { joined } from './joining.ts'
import { Preview } from './preview.svelte.ts'
import { isFinal, type Job } from './types.ts'

// Only these ends are certain to bring no result: one that needs the operator's decision may, and so may a state that is
// not known here (P10).
const REPEATABLE: readonly string[] = ['failed', 'cancelled']

export class Speaking {
  /** One for each piece; null until it was accepted. */
  jobs = $state.raw<(Job | null)[]>([])
  problem = $state.raw<unknown>(null)
  isBusy = $state(true)
  /** All pieces in one file; only where there are several. */
  whole = $state.raw<Blob | null>(null)
  preview = $state.raw<Preview | null>(null)
  readonly group = freshKey()
  readonly #model: string
  /** Null where it is only known to the service. */
  readonly #works: (object | null)[]
  readonly #sizes: number[]
  readonly #stop = new AbortController()
  #ids: string[] = []
  /** Somebody asked for an end while parts may still be on their way to the service. */
  #isCancelled = false

  private constructor(model: string, works: (object | null)[], sizes: number[]) {
    this.#model = model
    this.#works = works
    this.#sizes = sizes
    this.jobs = works.map(() => null)
  }

  /** A text for the first time. Call it in a click handler: browsers block audio that the user did not ask for. */
  static begin(model: string, texts: string[], works: object[]): Speaking {
    const begun = new Speaking(model, works, texts.map(utf8Length))
    begun.preview = new Preview()
    return begun
  }

  /** Pieces that were submitted before the page was loaded again. */
  static resume(model: string, ids: string[]): Speaking {
    const resumed = new Speaking(model, ids.map(() => null), ids.map(() => 1))
    resumed.#ids = ids
    return resumed
  }

  /** The jobs of all pieces, once all were accepted. */
  get ids(): string[] {
    const ids = this.jobs.flatMap((job) => job?.id ?? [])
    return ids.length === this.jobs.length ? ids : []
  }

  /** The ids of what was made, in the order of the text. */
  get artifacts(): string[] {
    return this.jobs.flatMap((job) => job?.artifacts[0]?.id ?? [])
  }

  /** How much of all is done, from 0 to 1. */
  get share(): number {
    const done = this.jobs.reduce((sum, job, i) => sum + shareOf(job) * (this.#sizes[i] ?? 0), 0)
    return done / this.#sizes.reduce((sum, size) => sum + size, 0)
  }

  /** Whether there is more than one piece. */
  get isLong(): boolean {
    return this.#works.length > 1
  }

  /** How many pieces have no result and get none by themselves: it failed, was cancelled or erased, or was never submitted. */
  get missing(): number {
    return this.jobs.filter((job) => (job === null ? this.#ids.length === 0 : isFinal(job.state) && !hasResult(job))).length
  }

  /** Whether some of them can be made again. Each is charged again, so a person has to ask for it. */
  get canRepeat(): boolean {
    return [...this.jobs.keys()].some((i) => this.#isRepeatable(i))
  }

  /** Whether a page that is loaded later has something to wait for: a piece that is being made, or the whole. */
  get isUnfinished(): boolean {
    return this.jobs.some((job) => job !== null && !isFinal(job.state)) || (this.missing === 0 && this.whole === null)
  }

  /** All of it. What failed or was cancelled is submitted again, under a new key, only if somebody asks for that. */
  async run(isAsked = false): Promise<void> {
    this.isBusy = true
    this.problem = null
    this.#isCancelled = false
    try {
      for (const [i, id] of this.#ids.entries()) this.#put(i, await call<Job>('GET', jobPath(id)))
      this.#ids = []
      for (const i of this.jobs.keys()) if (!this.jobs[i] || (isAsked && this.#isRepeatable(i))) await this.#submit(i)
      const heard = this.#listen()
      // Leaving the page stops both; the one not awaited yet must not become an unhandled rejection.
      heard.catch(() => undefined)
      for (const i of this.jobs.keys()) await this.#follow(i)
      await this.#join()
      this.isBusy = false
      await heard
    } catch (error) {
      if (!isStopped(error)) this.problem = error
      if (!this.#stop.signal.aborted) this.silence()
    }
    this.isBusy = false
  }

  /** Whether it is this work, and a problem kept some of it from being accepted: `complete` then submits that alone. */
  isCutOff(model: string, works: object[]): boolean {
    const isSame = this.#model === model && JSON.stringify(this.#works) === JSON.stringify(works)
    return isSame && this.problem !== null && this.jobs.includes(null)
  }

  /** Submits what was not accepted yet, as the same work: what arrived without an answer is no second job. For a click. */
  complete(): Promise<void> {
    this.preview = new Preview()
    return this.run()
  }

  /** Asks the service to stop what has not ended; what was not submitted yet never is. */
  async cancel(): Promise<void> {
    this.#isCancelled = true
    for (const job of this.jobs) if (job && !isFinal(job.state)) await call('POST', `${jobPath(job.id)}/cancel`)
  }

  /** Silence; the jobs go on. */
  silence(): void {
    this.preview?.stop()
    this.preview = null
  }

  /** The page was left. */
  leave(): void {
    this.#stop.abort()
    this.silence()
  }

  async #submit(i: number): Promise<void> {
    if (this.#isCancelled) return
    const [before, work] = [this.jobs[i], this.#works[i]]
    const label = { group: this.group, piece: String(i + 1), pieces: String(this.#works.length) }
    const more = this.isLong ? { metadata: label } : {}
    const parameters = work ?? (before ? (await requestOf(before.id)).parameters : {})
    const job = await submit(this.#model, parameters, [], more)
    this.#put(i, job)
    // Asked for while it was on its way.
    if (this.#isCancelled) await call('POST', `${jobPath(job.id)}/cancel`)
  }

  #isRepeatable(i: number): boolean {
    const job = this.jobs[i]
    if (!job) return this.#ids.length === 0
    return REPEATABLE.includes(job.state) && !(this.#works[i] === null && isErased(job))
  }

  async #follow(i: number): Promise<void> {
    const job = this.jobs[i]
    if (!job || isFinal(job.state)) return
    for await (const now of follow(job.id, this.#stop.signal)) this.#put(i, now)
  }

  async #listen(): Promise<void> {
    for (const [i, job] of [...this.jobs.entries()]) {
      const isOver = (): boolean => isFinal(this.jobs[i]?.state ?? 'failed')
      if (job && this.preview) await this.preview.run(job.id, isOver, this.#stop.signal, i === this.jobs.length - 1)
    }
  }

  async #join(): Promise<void> {
    const artifacts = this.jobs.flatMap((job) => job?.artifacts.slice(0, 1) ?? [])
    if (this.isLong && this.missing === 0) this.whole = await joined(artifacts, this.#stop.signal)
  }

  #put(i: number, job: Job): void {
    this.jobs = this.jobs.with(i, job)
  }
}

function hasResult(job: Job): boolean {
  return job.state === 'succeeded' && job.artifacts.length > 0 && !isErased(job)
}

function shareOf(job: Job | null): number {
  if (job === null) return 0
  if (isFinal(job.state)) return 1
  return job.progress && job.progress.total > 0 ? job.progress.completed / job.progress.total : 0
}
