// `Tenuto` and its resources: what a program writes. Everything happens in the modules that it calls.
import { complete, streamed, type ChatChunk } from './chat.ts'
import { InvalidSetting, NoModel, NotFound, ServiceUnreachable } from './errors.ts'
import { ask, freshKey, pathOf, SYSTEM_CLOCK, type Calling, type Clock, type Hash, type Link } from './exchange.ts'
import { events, show, type Waiting } from './following.ts'
import { Job } from './jobs.ts'
import { Journal, type Entry, type JournalStore } from './journal.ts'
import { load } from './downloads.ts'
import { MAX_BACKOFF_S } from './pacing.ts'
import { Sha256 } from './sha256.ts'
import { carryOn, checkCaller, recordingOf, submit, type Reading, type Submitting, type Work } from './submission.ts'
import type {
  Balance, ChatCompletion, ChatParameters, ImageParameters, LedgerEntry, LiveEvent, Model, Operation, RecognitionParameters,
  SpeechParameters, UsageLine, Voice, VoicePreference, VoicePreferences,
} from './types.ts'

/** What a client is made with. */
export type Options = {
  /** The address of the service, such as http://127.0.0.1:8080. */
  baseUrl?: string
  /** Null: a cookie says who calls. */
  apiKey?: string | null
  /** What the paths of the API begin with: `/v1`, unless a proxy gives them another name. */
  apiPath?: string
  /** How many seconds a request may go without transferring a byte: 60, and one more for each 64 KiB of a body that is sent. */
  timeoutS?: number
  /** How many times a request is sent again before its error is thrown: 5. */
  maxRetries?: number
  /** The longest pause after an answer was lost, in seconds: 16. A page that somebody looks at may want it shorter. */
  maxBackoffS?: number
  /** Where jobs are noted before they are sent, so that a program that was killed can resume them. */
  journal?: JournalStore | null
  fetch?: typeof fetch
  clock?: Clock
  /** A faster SHA-256 than this package's own, where there is one. */
  sha256?: () => Hash
}

/** What reading from the service takes. */
type Signal = { signal?: AbortSignal }
type Page = { limit?: number; after?: string } & Signal
/** A recording: FLAC; a file of a form, or bytes. */
export type Source = Blob | Uint8Array<ArrayBuffer> | ArrayBuffer
type Given = { model?: string; metadata?: Record<string, string> } & Record<string, unknown>
type MakeJob<J> = (...made: ConstructorParameters<typeof Job>) => J

const PAGE = 100

/** What the resources of one client share. */
class Session<J extends Job> {
  readonly link: Link
  readonly job: MakeJob<J>
  // The model chosen for each kind.
  readonly #models = new Map<string, string>()

  constructor(link: Link, job: MakeJob<J>) {
    this.link = link
    this.job = job
  }

  get<T>(path: string, query: Record<string, string | number | undefined>, { signal }: Signal): Promise<T> {
    return ask(this.link, { method: 'GET', path, query }, { signal })
  }

  /** The model that was named, or the first callable one of its kind; of recognition, one with both transcripts if there is one. */
  async model(kind: string, named: string | undefined, signal: AbortSignal | undefined): Promise<string> {
    const known = named ?? this.#models.get(kind)
    if (known !== undefined) return known
    const { data } = await ask<{ data: Model[] }>(this.link, { method: 'GET', path: pathOf('models') }, { signal })
    const same = data.filter((model) => model.kind === kind)
    const fitting = same.filter((model) => model.callable)
    if (kind === 'recognition') fitting.sort((one, other) => other.engines.length - one.engines.length)
    if (!fitting[0]) {
      const why = same.map((model) => `${model.id}: ${model.callable_reason}`).join('; ') || 'it sees none'
      throw new NoModel(`no ${kind} model takes work from this key now (${why})`)
    }
    this.#models.set(kind, fitting[0].id)
    return fitting[0].id
  }

  async submit(kind: string, own: object, given: Given, how: Submitting, recording?: Work['recording']): Promise<J> {
    const { model, metadata, ...parameters } = given
    const document = {
      model: await this.model(kind, model, how.signal), parameters: { ...own, ...parameters }, ...(metadata ? { metadata } : {}),
    }
    const work: Work = { kind, document, key: how.idempotencyKey, ...(recording ? { recording } : {}) }
    const { reading, entry } = await submit(this.link, work, { signal: how.signal })
    return this.job(this.link, reading, entry, kind)
  }
}

class Resource<J extends Job> {
  protected readonly session: Session<J>

  constructor(session: Session<J>) {
    this.session = session
  }
}

/** Text to speech. */
class Speech<J extends Job> extends Resource<J> {
  /**
   * Submits a text of 1 to 8,192 bytes of UTF-8; the result is a WAV. Throws InvalidRequest (with every problem),
   * InsufficientBalance, NotAllowed, ServiceUnreachable, JournalError.
   */
  create(text: string, parameters: SpeechParameters = {}, how: Submitting = {}): Promise<J> {
    return this.session.submit('speech', { text }, parameters, how)
  }
}

/** Speech to text. */
class Recognition<J extends Job> extends Resource<J> {
  /**
   * Uploads a recording of at most 120 minutes, a FLAC (best 16 kHz, mono, 16 bits), and submits it; the result is JSON.
   * Throws AudioError if it is not FLAC, and what `speech.create` does.
   */
  async create(file: Source, parameters: RecognitionParameters = {}, how: Submitting = {}): Promise<J> {
    const content = file instanceof Blob ? file : new Blob([file])
    const name = (file as Partial<File>).name
    return this.session.submit('recognition', {}, parameters, how, await recordingOf(this.session.link, content, name, how.signal))
  }
}

/** Text to image. */
class Images<J extends Job> extends Resource<J> {
  /** Submits a prompt of 1 to 20,000 bytes of UTF-8 in a language of the model; the result is a PNG. */
  create(prompt: string, parameters: ImageParameters = {}, how: Submitting = {}): Promise<J> {
    return this.session.submit('image', { prompt }, parameters, how)
  }
}

/** Answers of chat models, in OpenAI's format. */
class Completions<J extends Job> extends Resource<J> {
  /** A whole answer. A chat has no idempotency key, so it is not sent again once it may have arrived. */
  async create(request: ChatParameters, { signal }: Signal = {}): Promise<ChatCompletion> {
    return complete(this.session.link, await this.#complete(request, signal), signal)
  }

  /** The same piece by piece. */
  async *stream(request: ChatParameters, { signal }: Signal = {}): AsyncGenerator<ChatChunk> {
    yield* streamed(this.session.link, await this.#complete(request, signal), signal)
  }

  async #complete(request: ChatParameters, signal: AbortSignal | undefined): Promise<ChatParameters> {
    return { ...request, model: await this.session.model('chat', request.model, signal) }
  }
}

/** Voices, and the saved choices of them. */
class Voices<J extends Job> extends Resource<J> {
  /** All voices: those of the service first, then the account's own. */
  async list(how: Signal = {}): Promise<Voice[]> {
    const all: Voice[] = []
    for (let after: string | undefined; ; ) {
      const page = await this.session.get<{ data: Voice[]; next_cursor?: string }>(pathOf('voices'), { limit: PAGE, after }, how)
      all.push(...page.data)
      after = page.next_cursor
      if (after === undefined) return all
    }
  }

  get(voiceId: string, how: Signal = {}): Promise<Voice> {
    return this.session.get(pathOf('voices', voiceId), {}, how)
  }

  /** Uploads a PCM16 WAV of 1 to 15 seconds as an own voice. */
  async create(file: Source, name: string, { idempotencyKey, signal }: Submitting = {}): Promise<Voice> {
    const content = new Uint8Array(file instanceof Blob ? await file.arrayBuffer() : file)
    const hash = this.session.link.sha256()
    hash.update(content)
    const headers = {
      'Content-Type': 'audio/wav', 'X-Service-Voice-Name': encodeURIComponent(name), 'X-Service-Content-SHA256': hash.hex(),
      'Idempotency-Key': idempotencyKey ?? freshKey(),
    }
    return ask(this.session.link, { method: 'POST', path: pathOf('voices'), headers, body: content }, { signal })
  }

  rename(voiceId: string, name: string, { signal }: Signal = {}): Promise<Voice> {
    const request = { method: 'PATCH', path: pathOf('voices', voiceId), body: JSON.stringify({ name }) }
    return ask(this.session.link, request, { signal })
  }

  /** Deletes an own voice; accepted jobs keep its recording. */
  async delete(voiceId: string, { signal }: Signal = {}): Promise<void> {
    try {
      await ask(this.session.link, { method: 'DELETE', path: pathOf('voices', voiceId) }, { signal })
    } catch (error) {
      // An earlier try whose answer was lost has deleted it.
      if (!(error instanceof NotFound && error.isInDoubt && !error.isForeign)) throw error
    }
  }

  /** The bytes of a voice's recording, a WAV, checked. */
  async read(voiceId: string, how: Signal = {}): Promise<Uint8Array<ArrayBuffer>> {
    const { audio } = await this.get(voiceId, how)
    const expected = { id: voiceId, media_type: 'audio/wav', size_bytes: audio.size_bytes, sha256: audio.sha256 }
    return load(this.session.link, pathOf('voices', voiceId, 'content'), expected, how)
  }

  /** The saved choices; jobs ignore them. */
  preferences(how: Signal = {}): Promise<VoicePreferences> {
    return this.session.get(pathOf('voice-preference'), {}, how)
  }

  /** Saves a choice for a content account, or as the default. */
  prefer(voiceId: string, contentAccount?: string, { signal }: Signal = {}): Promise<VoicePreference> {
    const body = JSON.stringify({ voice_id: voiceId, content_account: contentAccount })
    return ask(this.session.link, { method: 'PUT', path: pathOf('voice-preference'), body }, { signal })
  }
}

/** The models of the service. */
class Models<J extends Job> extends Resource<J> {
  /** The models that the key may use. */
  async list(how: Signal = {}): Promise<Model[]> {
    return (await this.session.get<{ data: Model[] }>(pathOf('models'), {}, how)).data
  }
}

/** What a list of jobs is narrowed by; times are Unix seconds. */
export type Search = {
  state?: string
  kind?: string
  model?: string
  /** What the text, the prompt or the file's name contains. */
  search?: string
  voice?: string
  metadata?: Record<string, string>
  createdFrom?: number
  createdBefore?: number
} & Page

/** The account's jobs. */
class Jobs<J extends Job> extends Resource<J> {
  /** A job by its id, as it is now. Throws NotFound. */
  async get(jobId: string, { signal }: Signal = {}): Promise<J> {
    return this.session.job(this.session.link, await show(this.session.link, jobId, 0, { signal }))
  }

  /** Waits for a job by its id; see `Job.wait`. */
  async wait(jobId: string, waiting: Waiting = {}): Promise<J> {
    const job = await this.get(jobId, waiting.signal ? { signal: waiting.signal } : {})
    return job.wait(waiting)
  }

  /** The newest jobs first, 20 or at most 100; the next page is `after` the last one's id. */
  async list(search: Search = {}): Promise<Operation[]> {
    const { search: q, metadata = {}, createdFrom: created_from, createdBefore: created_before, signal, limit = 20, ...same } = search
    const pairs = Object.entries(metadata).map(([name, value]) => [`metadata[${name}]`, value] as const)
    const query = { ...same, q, created_from, created_before, ...Object.fromEntries(pairs) }
    const found: Operation[] = []
    for (let after = search.after; ; ) {
      // A page of a search may have fewer than were asked for, and still have a next one.
      const asked = { ...query, limit: limit - found.length, after }
      const page = await this.session.get<{ data: Operation[]; next_cursor?: string }>(pathOf('jobs'), asked, signal ? { signal } : {})
      found.push(...page.data)
      after = page.next_cursor
      if (after === undefined || found.length >= limit) return found
    }
  }
}

/** Money and usage; amounts are decimal strings in CNY, days are UTC. */
class Account<J extends Job> extends Resource<J> {
  /** What is available, and what pending jobs hold. */
  balance(how: Signal = {}): Promise<Balance> {
    return this.session.get(pathOf('account', 'balance'), {}, how)
  }

  /** The newest lines first, 20 or at most 100; the next page is `after` the last one's id. */
  async ledger({ limit, after, ...how }: Page = {}): Promise<LedgerEntry[]> {
    return (await this.session.get<{ data: LedgerEntry[] }>(pathOf('account', 'ledger'), { limit, after }, how)).data
  }

  /** By day, model and key; days as `2026-11-30`, both included; by default the last 31. */
  async usage({ since, until, ...how }: { since?: string; until?: string } & Signal = {}): Promise<UsageLine[]> {
    return (await this.session.get<{ data: UsageLine[] }>(pathOf('usage'), { since, until }, how)).data
  }
}

/** A Tenuto service, for jobs of the class that `makeJob` makes. */
export class Client<J extends Job> {
  readonly speech: Speech<J>
  readonly recognition: Recognition<J>
  readonly images: Images<J>
  readonly chat: { readonly completions: Completions<J> }
  readonly voices: Voices<J>
  readonly models: Models<J>
  readonly jobs: Jobs<J>
  readonly account: Account<J>
  readonly #session: Session<J>

  constructor(options: Options, makeJob: MakeJob<J>) {
    const session = new Session(linkOf(options), makeJob)
    this.#session = session
    this.speech = new Speech(session)
    this.recognition = new Recognition(session)
    this.images = new Images(session)
    this.chat = { completions: new Completions(session) }
    this.voices = new Voices(session)
    this.models = new Models(session)
    this.jobs = new Jobs(session)
    this.account = new Account(session)
  }

  /** The address of the service. */
  get baseUrl(): string {
    return this.#session.link.baseUrl
  }

  /**
   * The unfinished jobs of programs that were interrupted, from the journal: what may not have arrived is sent again under
   * its key, so that there is one job whatever happened. Without a journal there are none. An entry that cannot be resumed
   * does not hide the others: the first such error is thrown after all entries were tried.
   * Throws JournalError, Refused; ServiceUnreachable at once, because each other entry would wait through all retries, too.
   */
  async *resume({ signal }: Signal = {}): AsyncGenerator<J> {
    const { link, job } = this.#session
    const problems: unknown[] = []
    for await (const entry of link.journal?.interrupted() ?? []) {
      const { facts } = entry
      if (facts.base_url !== link.baseUrl || facts.body === undefined) {
        await entry.release()
        continue
      }
      let reading: Reading
      try {
        reading = await resumed(link, entry, { signal })
      } catch (error) {
        if (signal?.aborted || error instanceof ServiceUnreachable) throw error
        problems.push(error)
        continue
      }
      yield job(link, reading, entry, facts.kind)
    }
    if (problems.length > 0) throw problems[0]
  }

  /**
   * What happens to the account's jobs, as it happens. Without `after`, the id of an event, it begins now; with it, behind
   * that event, whatever was restarted meanwhile. With `jobId` it gives all events of that job and ends with it.
   */
  events({ jobId, after, signal }: { jobId?: string; after?: string } & Signal = {}): AsyncGenerator<LiveEvent> {
    return events(this.#session.link, jobId ?? null, after, signal)
  }
}

/** The job of an interrupted entry, which another program may have if this fails. */
async function resumed(link: Link, entry: Entry, calling: Calling): Promise<Reading> {
  const { operation_id } = entry.facts
  await checkCaller(link, entry)
  if (operation_id === undefined) return carryOn(link, entry, undefined, calling)
  try {
    return await show(link, operation_id, 0, calling)
  } catch (error) {
    await entry.release()
    throw error
  }
}

/** A Tenuto service. Throws NotConfigured, InvalidSetting. */
export class Tenuto extends Client<Job> {
  constructor(options: Options) {
    super(options, (...made) => new Job(...made))
  }
}

function linkOf(options: Options): Link {
  const { apiPath = '/v1', timeoutS = 60, maxRetries = 5, maxBackoffS = MAX_BACKOFF_S, journal = null, clock = SYSTEM_CLOCK, sha256 = () => new Sha256() } = options
  if (!(timeoutS > 0) || !(maxRetries >= 0)) throw new InvalidSetting('timeoutS must be above 0, and maxRetries at least 0')
  return {
    baseUrl: checkedUrl(options.baseUrl ?? ''), apiPath, apiKey: checkedKey(options.apiKey), timeoutS, maxRetries, maxBackoffS, clock,
    sha256,
    journal: journal === null ? null : new Journal(journal),
    // Browsers refuse to call it as a method of anything else than the window.
    fetch: options.fetch ?? ((...request) => fetch(...request)),
  }
}

/** The address without a trailing slash or `/v1`. */
export function checkedUrl(text: string): string {
  const url = text.trim().replace(/\/+$/, '').replace(/\/v1$/, '')
  const isAddress = /^https?:\/\/[^/?#@\s]+(\/[^?#\s]*)?$/.test(url)
  if (!isAddress) throw new InvalidSetting(`'${text}' is not a base address; one looks like http://127.0.0.1:8080`)
  return url
}

function checkedKey(key: string | null | undefined): string | null {
  if (key === null) return null
  const trimmed = (key ?? '').trim()
  if (!trimmed) throw new InvalidSetting('no API key was given; the studio or `tenuto admin keys create` makes one', 'not_configured')
  if (!/^[\x21-\x7e]+$/.test(trimmed)) throw new InvalidSetting('this is not an API key: a key is one ASCII word that begins with tn_')
  return trimmed
}
