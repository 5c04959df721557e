// The way of a recording from the reader's disk to a job: decoded, made FLAC, hashed, uploaded.
import { freshKey } from './http.ts'
import { persist, submit } from './jobs.ts'
import kinds from './kinds.json'
import { decode, encode, hash, isFlac, RECOGNITION_RATE, Unusable } from './sound.ts'
import type { Artifact, Job } from './types.ts'
import { upload } from './upload.ts'

export const MAX_INPUT_S = kinds.recognition.limits.input_seconds
export type Stage = 'decode' | 'encode' | 'hash' | 'upload' | 'submit'

/** A recording on its way; `stage` says where it is and `done` of `total` how far. */
export class Intake {
  stage = $state<Stage | null>(null)
  done = $state(0)
  total = $state(0)
  #stop = new AbortController()

  /** All of it. Throws `Unusable` for what cannot be a recording. */
  async run(file: File, model: string, parameters: object): Promise<Job> {
    const { signal } = this.#stop
    const tell = (done: number, total: number): void => void ((this.done = done), (this.total = total))
    const prepared = (await isFlac(file)) ? await this.#asItIs(file, tell) : await this.#converted(file, tell)
    this.#enter('upload', prepared.file.size)
    const headers = {
      'Content-Type': 'audio/flac', 'X-Service-Content-SHA256': prepared.sha256, 'Idempotency-Key': freshKey(),
    }
    const sent = (bytes: number): void => void (this.done = bytes)
    const { artifact } = await persist(
      () => upload<{ artifact: Artifact }>('/web/v1/input-artifacts', prepared.file, headers, sent, signal), signal,
    )
    this.#enter('submit', 0)
    return submit(model, parameters, [artifact.id])
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
    this.stage = stage
    this.done = 0
    this.total = total
  }
}
