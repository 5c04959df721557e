// A text on its way to sound: one job, or several for a text that is longer than one takes. Each piece is submitted under
// a key of its own, so a lost answer never makes a second job, and the results are joined sample to sample.
import { call, freshKey } from './http.ts'
import { follow, isStopped, jobPath, requestOf, submit } from './jobs.ts'
import { utf8Length } from './bytes.ts'
import { joined } from './joining.ts'
import { Preview } from './preview.svelte.ts'
import { isFinal, type Job } from './types.ts'

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

  private constructor(model: string, works: (object | null)[], sizes: number[]) {
    this.#model = model
    this.#works = works
    this.#sizes = sizes
    this.jobs = works.map(() => null)
  }

  /** A text for the first time. Call it in a click handler: browsers block audio that the user did not ask for. */
  static begin(model: string, texts: string[], parametersOf: (text: string) => object): Speaking {
    const begun = new Speaking(model, texts.map(parametersOf), texts.map(utf8Length))
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

  /** The pieces that ended without a result. */
  get failed(): Job[] {
    return this.jobs.filter((job): job is Job => job !== null && isFinal(job.state) && job.state !== 'succeeded')
  }

  /** All of it; also again, after a failure: what succeeded is kept, what failed is submitted under a new key. */
  async run(): Promise<void> {
    this.isBusy = true
    this.problem = null
    try {
      for (const [i, id] of this.#ids.entries()) this.#put(i, await call<Job>('GET', jobPath(id)))
      this.#ids = []
      for (const [i, work] of this.#works.entries()) await this.#submit(i, work)
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

  /** Asks the service to stop what has not ended. */
  async cancel(): Promise<void> {
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

  async #submit(i: number, work: object | null): Promise<void> {
    const before = this.jobs[i]
    if (before && !this.failed.includes(before)) return
    const label = { group: this.group, piece: String(i + 1), pieces: String(this.#works.length) }
    const more = this.isLong ? { metadata: label } : {}
    const parameters = work ?? (before ? (await requestOf(before.id)).parameters : {})
    this.#put(i, await submit(this.#model, parameters, [], more))
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
    if (this.isLong && artifacts.length === this.jobs.length) this.whole = await joined(artifacts, this.#stop.signal)
  }

  #put(i: number, job: Job): void {
    this.jobs = this.jobs.with(i, job)
  }
}

function shareOf(job: Job | null): number {
  if (job === null) return 0
  if (isFinal(job.state)) return 1
  return job.progress && job.progress.total > 0 ? job.progress.completed / job.progress.total : 0
}
