// The way of a recording from the reader's disk to a job: decoded, made FLAC, hashed, uploaded.
import { draft } from './drafts.ts'
import { freshKey, Problem } from './http.ts'
import { follow, isStopped, persist, submit } from './jobs.ts'
import kinds from './kinds.json'
import { decode, encode, hash, isFlac, type Prepared, RECOGNITION_RATE, Unusable } from './sound.ts'
import type { Artifact, Job } from './types.ts'
import { upload } from './upload.ts'

export const MAX_INPUT_S = kinds.recognition.limits.input_seconds
const MAX_NAME_CHARACTERS = 255
// A submission that was refused so does not name its recording again: it may be gone.
const REFUSED: readonly number[] = [400, 404, 410]
export type Stage = 'decode' | 'encode' | 'hash' | 'upload' | 'submit'

/** A recording on its way; `stage` says where it is and `done` of `total` how far. */
export class Intake {
  stage = $state<Stage | null>(null)
  done = $state(0)
  total = $state(0)
  #stop = new AbortController()

  /** All of it. Throws `Unusable` for what cannot be a recording. */
  async run(file: File, model: string, parameters: object): Promise<Job> {
    const tell = (done: number, total: number): void => void ((this.done = done), (this.total = total))
    const prepared = (await isFlac(file)) ? await this.#asItIs(file, tell) : await this.#converted(file, tell)
    // Uploaded once: sent again after a lost answer it is the same work, under the same key, and not a second job.
    const { last, keep } = draft<string>(`upload ${prepared.sha256}`)
    const id = last ?? (await this.#uploaded(prepared, file.name))
    keep(id)
    this.#enter('submit', 0)
    try {
      const job = await submit(model, parameters, [id])
      keep(null)
      return job
    } catch (error) {
      if (error instanceof Problem && REFUSED.includes(error.status)) keep(null)
      throw error
    }
  }

  async #uploaded({ file, sha256 }: Prepared, name: string): Promise<string> {
    this.#enter('upload', file.size)
    const headers = {
      'Content-Type': 'audio/flac', 'X-Service-Content-SHA256': sha256, 'Idempotency-Key': freshKey(), ...nameHeader(name),
    }
    const sent = (bytes: number): void => void (this.done = bytes)
    const { signal } = this.#stop
    const { artifact } = await persist(
      () => upload<{ artifact: Artifact }>('/web/v1/input-artifacts', file, headers, sent, signal), signal,
    )
    return artifact.id
  }

  stop(): void {
    this.#stop.abort()
  }

  #asItIs(file: File, tell: (done: number, total: number) => void): ReturnType<typeof hash> {
    this.#enter('hash', file.size)
    return hash(file, tell, this.#stop.signal)
  }

  async #converted(file: File, tell: (done: number, total: number) => void): ReturnType<typeof encode> {
    this.#enter('decode', 0)
    const samples = await decode(file, RECOGNITION_RATE)
    const seconds = samples.length / RECOGNITION_RATE
    if (seconds > MAX_INPUT_S) throw new Unusable('long', seconds)
    if (samples.length === 0) throw new Unusable('undecodable')
    this.#enter('encode', samples.length)
    return encode(samples, tell, this.#stop.signal)
  }

  #enter(stage: Stage, total: number): void {
    // Not every step hears it while it runs.
    this.#stop.signal.throwIfAborted()
    this.stage = stage
    this.done = 0
    this.total = total
  }
}

/** A recording that is stored already, and what it is called. */
export type Stored = { id: string; name: string }

/** One recording that somebody wants recognised, and how far that is. Each has its own progress, faults and end. */
export class Take {
  readonly name: string
  intake = $state.raw<Intake | null>(null)
  job = $state.raw<Job | null>(null)
  fault = $state<Unusable | null>(null)
  problem = $state.raw<unknown>(null)
  isBegun = $state(false)
  /** Whether it waits until those before it are sent. */
  isQueued = $state(false)
  #source: File | Stored
  #model = ''
  #parameters: object = {}
  #stop = new AbortController()

  constructor(source: File | Stored) {
    this.#source = source
    this.name = source.name
  }

  /** Whether it can be begun, for the first time or again after it failed. */
  get isWaiting(): boolean {
    return !this.isBegun
  }

  /** Whether some of it has not been sent yet, and would be lost if the page was left. */
  get isSending(): boolean {
    return this.isQueued || this.intake !== null
  }

  /** What a snippet needs to know of it. */
  get origin(): { file: string; input?: string } {
    return this.#source instanceof File ? { file: this.name } : { file: this.name, input: this.#source.id }
  }

  /** Its turn will come; until it has failed or was stopped it cannot be chosen again. */
  queue(model: string, parameters: object): void {
    this.#model = model
    this.#parameters = parameters
    this.isBegun = this.isQueued = true
    this.fault = null
    this.problem = null
    this.#stop = new AbortController()
  }

  /** From the disk to an accepted job, unless it was stopped in the queue; `follow` then watches it. */
  async begin(): Promise<void> {
    if (!this.isQueued) return
    this.isQueued = false
    try {
      if (this.#source instanceof File) {
        this.intake = new Intake()
        this.job = await this.intake.run(this.#source, this.#model, this.#parameters)
      } else this.job = await submit(this.#model, this.#parameters, [this.#source.id])
    } catch (error) {
      this.#end(error)
    }
    this.intake = null
  }

  async follow(): Promise<void> {
    if (!this.job) return
    try {
      for await (const now of follow(this.job.id, this.#stop.signal)) this.job = now
    } catch (error) {
      this.#end(error)
    }
  }

  /** Stops converting, sending and watching; a job that was accepted goes on. */
  stop(): void {
    if (this.isQueued) this.isBegun = this.isQueued = false
    this.#stop.abort()
    this.intake?.stop()
  }

  #end(error: unknown): void {
    this.isBegun = this.job !== null
    if (error instanceof Unusable) this.fault = error
    else if (!isStopped(error)) this.problem = error
  }
}

/** What the recording and its jobs are recognised by; the service takes no control characters. */
function nameHeader(name: string): Record<string, string> {
  const plain = [...name.replace(/[\p{Cc}\p{Cs}]/gu, '')].slice(0, MAX_NAME_CHARACTERS).join('')
  return plain ? { 'X-Service-File-Name': encodeURIComponent(plain) } : {}
}
