// Hearing a speech job while it runs: segments are fetched as they are listed and joined without a gap in one
// AudioContext that runs at their own rate, so no sample is changed. A new attempt drops all that was queued.
import { call, send } from './http.ts'
import { jobPath, patiently, pause } from './jobs.ts'
import { nextListing } from 'tenuto/pacing.ts'
import { SegmentQueue, type Segment } from './segments.ts'
import type { Page } from './types.ts'
import { readWav, toFloat32 } from './wav.ts'

// Of the embedded model. Where another engine's segments come at another rate, a context of that rate takes over.
const USUAL_RATE = 24000

/** The preview of one job. `start` must be called by a click, or the browser keeps silent. */
export class Preview {
  heardSegments = $state(0)
  isPlaying = $state(false)
  /** More may still come. */
  isOpen = $state(true)
  #context: AudioContext
  #queue = new SegmentQueue()
  #sources = new Set<AudioBufferSourceNode>()

  constructor() {
    this.#context = contextAt(USUAL_RATE)
  }

  /**
   * Plays what is listed until `isOver` says that the job has ended and its last listing was played. Several jobs are
   * played one behind the other; `isLastJob` ends the preview.
   */
  async run(job: string, isOver: () => boolean, signal: AbortSignal, isLastJob = true): Promise<void> {
    this.#queue.next()
    signal.addEventListener('abort', () => this.stop(), { once: true })
    for (let isLast = false; ; ) {
      const askedAt = Date.now()
      const listing = await patiently(() => call<Page<Segment>>('GET', `${jobPath(job)}/audio-segments`, { signal }), signal)
      const listAt = nextListing(askedAt, Date.now())
      const { restarted, fresh } = this.#queue.take(listing.data)
      if (restarted) this.#drop()
      for (const segment of fresh) await this.#add(job, segment, signal)
      if (isLast) break
      await pause(listAt - Date.now(), signal)
      isLast = isOver()
    }
    this.isOpen = !isLastJob
    // A browser that lets nothing sound would leave the page waiting for an end that never comes.
    if (isLastJob && this.#context.state !== 'running') this.stop()
  }

  /** Silence, and the end of the preview. */
  stop(): void {
    this.#drop()
    if (this.#context.state !== 'closed') void this.#context.close()
  }

  async #add(job: string, segment: Segment, signal: AbortSignal): Promise<void> {
    const path = `${jobPath(job)}/audio-segments/${encodeURIComponent(segment.segment_id)}/content`
    const wav = readWav(await patiently(async () => (await send('GET', path, { signal })).arrayBuffer(), signal))
    if (wav === null || wav.channels !== 1 || this.#context.state === 'closed') return
    if (wav.rate !== this.#context.sampleRate) this.#changeRate(wav.rate)
    const buffer = this.#context.createBuffer(1, wav.samples.length, wav.rate)
    buffer.copyToChannel(toFloat32(wav.samples), 0)
    const source = new AudioBufferSourceNode(this.#context, { buffer })
    source.connect(this.#context.destination)
    const frame = this.#queue.place(wav.samples.length, this.#context.currentTime * wav.rate, wav.rate)
    source.start(frame / wav.rate)
    source.onended = () => this.#ended(source)
    this.#sources.add(source)
    this.heardSegments += 1
    this.isPlaying = true
  }

  #changeRate(rate: number): void {
    this.#drop()
    void this.#context.close()
    this.#context = contextAt(rate)
  }

  #ended(source: AudioBufferSourceNode): void {
    this.#sources.delete(source)
    this.isPlaying = this.#sources.size > 0
  }

  #drop(): void {
    for (const source of this.#sources) {
      source.onended = null
      source.stop()
    }
    this.#sources.clear()
    this.heardSegments = 0
    this.isPlaying = false
  }
}

function contextAt(sampleRate: number): AudioContext {
  const context = new AudioContext({ sampleRate })
  void context.resume()
  return context
}
