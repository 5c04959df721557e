// Submits work exactly once: journal, upload, submission. The entry is in the journal before the first byte is sent, the
// job's id as soon as it is known, and a retry sends the same body under the same key.
import {
  AudioError, AuthenticationFailed, Erased, IdempotencyConflict, InvalidSetting, JournalError, RateLimited, Refused,
  ServiceFailed, UnexpectedAnswer,
} from './errors.ts'
import { ask, call, freshKey, json, pathOf, type Calling, type Link } from './exchange.ts'
import { writeJson } from './json.ts'
import type { Entry, Facts } from './journal.ts'
import { retryAfterS, waitS } from './pacing.ts'
import type { Artifact, Operation } from './types.ts'

/** A job as it was last read, and when it may be read again. */
export type Reading = {
  operation: Operation
  /** Seconds of `Retry-After`: how long the service may hold back the next read instead of a pause here. */
  waitS: number
  /** On the link's monotonic clock, in milliseconds: the job is not read again before it. */
  dueAt: number
  /** False once the service has refused the parameter `wait`. */
  canHold: boolean
}

/** A FLAC to transcribe. */
export type Recording = { content: Blob; sha256: string; name?: string | undefined }

/** What to submit. */
export type Work = { kind: string; document: object; recording?: Recording; key?: string | undefined }

/** How a job is submitted. */
export type Submitting = {
  /** A name for this piece of work, 1 to 255 printable ASCII characters: the same key makes the same job, never a second. */
  idempotencyKey?: string
  signal?: AbortSignal
}

const MAX_FILE_NAME_CHARACTERS = 255

/** Reads the job in an answer that was held back for `held` seconds. */
export async function readingOf(link: Link, answer: Response, held = 0, canHold = true): Promise<Reading> {
  const operation = await json<Operation>(answer)
  if (typeof operation?.id !== 'string' || typeof operation.state !== 'string') {
    throw new UnexpectedAnswer('the answer is not a job', { requestId: answer.headers.get('x-request-id') })
  }
  const wait = waitS(retryAfterS(answer.headers, link.clock.now()))
  return { operation, waitS: wait, dueAt: link.clock.monotonic() + Math.max(0, wait - held) * 1000, canHold }
}

/** Submits work that an interrupted program may have submitted before. */
export async function submit(link: Link, work: Work, calling: Calling): Promise<{ reading: Reading; entry: Entry | null }> {
  if (work.key !== undefined && !/^[\x20-\x7e]{1,255}$/.test(work.key)) {
    throw new InvalidSetting('an idempotency key has 1 to 255 printable ASCII characters')
  }
  if (link.journal === null) return { reading: await withoutJournal(link, work, calling), entry: null }
  const entry = await takeUp(link, work)
  if (calling.signal?.aborted) {
    // Nothing was sent for it by this call.
    await (entry.isNew ? entry.finish() : entry.release())
    calling.signal.throwIfAborted()
  }
  return { reading: await carryOn(link, entry, work.recording, calling), entry }
}

/** The entry of an earlier run of the same work whose job is not known yet, or a new one. */
async function takeUp(link: Link, work: Work): Promise<Entry> {
  const intent = digest(link, work.kind, writeJson(work.document), work.recording?.sha256 ?? '')
  for await (const entry of link.journal!.interrupted(work.key === undefined ? intent : undefined)) {
    const { facts } = entry
    const isSame = work.key === undefined || facts.key === work.key
    const isOpen = facts.operation_id === undefined || work.key !== undefined
    if (isSame && isOpen && facts.intent === intent && facts.base_url === link.baseUrl) {
      await checkCaller(link, entry)
      return entry
    }
    await entry.release()
  }
  const facts: Facts = {
    key: work.key ?? freshKey(), intent, kind: work.kind, base_url: link.baseUrl, caller: fingerprint(link), document: work.document,
  }
  const rest = work.recording ? { upload_key: uploadKey(link, work) } : { body: writeJson(work.document) }
  return link.journal!.begin({ ...facts, ...rest }, link.clock.now())
}

/** Throws if another API key was used: the same idempotency key would make a second job. */
export async function checkCaller(link: Link, entry: Entry): Promise<void> {
  const { body, operation_id, caller, base_url } = entry.facts
  if (body === undefined || operation_id !== undefined || caller === fingerprint(link)) return
  await entry.release()
  throw new JournalError(
    `the same work was sent to ${base_url} with another API key, and it is not known whether it arrived; sent with ` +
      'this key, it could be done and charged twice', 'other_api_key',
  )
}

/** Continues an entry from wherever it stopped until its job's id is known and in the journal. */
export async function carryOn(link: Link, entry: Entry, recording: Recording | undefined, calling: Calling): Promise<Reading> {
  const mayHaveArrived = entry.facts.body !== undefined && !entry.isNew
  try {
    if (entry.facts.body === undefined) await uploadNoted(link, entry, recording, calling)
    const reading = await post(link, entry.facts.body!, entry.facts.key, calling)
    await noteJob(entry, reading.operation.id)
    return reading
  } catch (error) {
    await (isSettled(error, mayHaveArrived) ? entry.finish() : entry.release())
    throw error
  }
}

async function noteJob(entry: Entry, id: string): Promise<void> {
  try {
    await entry.note({ operation_id: id })
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw new JournalError(`${id} was accepted, but ${why}; the same call gets the same job`, 'journal_error', { cause })
  }
}

/**
 * Whether a failure means that there is no job under the key. Once the API key is accepted, the service returns an existing
 * job even if it would refuse the request today. A proxy's answer says nothing about an earlier attempt.
 */
function isSettled(error: unknown, mayHaveArrived: boolean): boolean {
  if (!(error instanceof Refused)) return false
  if (error instanceof RateLimited || error instanceof ServiceFailed) return false
  return !((mayHaveArrived || error.isInDoubt) && (error.isForeign || error instanceof AuthenticationFailed))
}

/** POST /v1/jobs; every retry uses the same key. */
export function post(link: Link, body: string, key: string, calling: Calling = {}): Promise<Reading> {
  const request = { method: 'POST', path: pathOf('jobs'), headers: { 'Idempotency-Key': key }, body }
  return call(link, request, (answer) => readingOf(link, answer), calling)
}

/** POST /v1/input-artifacts; the answer must have the size and hash of what was sent. */
export async function upload(link: Link, recording: Recording, key: string, calling: Calling = {}): Promise<Artifact> {
  const name = plain(recording.name ?? '')
  const headers = {
    'Content-Type': 'audio/flac', 'X-Service-Content-SHA256': recording.sha256, 'Idempotency-Key': key,
    ...(name ? { 'X-Service-File-Name': encodeURIComponent(name) } : {}),
  }
  const request = { method: 'POST', path: pathOf('input-artifacts'), headers, body: recording.content }
  const artifact = (await ask<{ artifact?: Artifact }>(link, request, calling)).artifact
  if (artifact?.sha256 !== recording.sha256 || artifact.size_bytes !== recording.content.size) {
    throw new UnexpectedAnswer('the service did not confirm the size and hash of the upload')
  }
  return artifact
}

/** A recording with its hash, read once. Throws AudioError if it is not FLAC. */
export async function recordingOf(link: Link, content: Blob, name: string | undefined, signal?: AbortSignal): Promise<Recording> {
  const hash = link.sha256()
  const reader = content.stream().getReader()
  let head: Uint8Array | null = null
  for (;;) {
    signal?.throwIfAborted()
    const { value, done } = await reader.read()
    if (done) break
    head ??= value.subarray(0, 4)
    hash.update(value)
  }
  if (head === null || String.fromCharCode(...head) !== 'fLaC') {
    throw new AudioError('the recording is not FLAC; ffmpeg -i INPUT -ac 1 -ar 16000 -sample_fmt s16 OUTPUT.flac makes one')
  }
  return { content, sha256: hash.hex(), name }
}

async function uploadNoted(link: Link, entry: Entry, recording: Recording | undefined, calling: Calling): Promise<void> {
  let id = entry.facts.input_artifact_id
  if (id === undefined) {
    if (!recording) throw new JournalError('the upload was interrupted and the recording is not at hand; submit it again')
    try {
      id = (await upload(link, recording, entry.facts.upload_key!, calling)).id
    } catch (error) {
      if (!(error instanceof IdempotencyConflict || error instanceof Erased)) throw error
      // Its input was erased since; nothing was charged for it.
      await entry.note({ upload_key: freshKey() })
      id = (await upload(link, recording, entry.facts.upload_key!, calling)).id
    }
    await entry.note({ input_artifact_id: id })
  }
  await entry.note({ body: writeJson({ ...entry.facts.document, input_artifact_ids: [id] }) })
}

async function withoutJournal(link: Link, work: Work, calling: Calling): Promise<Reading> {
  const input = work.recording ? { input_artifact_ids: [(await upload(link, work.recording, uploadKey(link, work), calling)).id] } : {}
  return post(link, writeJson({ ...work.document, ...input }), work.key ?? freshKey(), calling)
}

/** The same for the same idempotency key and recording, or a repeated call would name another input. */
function uploadKey(link: Link, { key, recording }: Work): string {
  return key === undefined || recording === undefined ? freshKey() : digest(link, key, recording.sha256)
}

function fingerprint(link: Link): string {
  return digest(link, 'tenuto journal', link.apiKey ?? '').slice(0, 16)
}

/** A name: the same parts give the same one; lengths keep parts apart. */
function digest(link: Link, ...parts: string[]): string {
  const hash = link.sha256()
  for (const part of parts) hash.update(new TextEncoder().encode(`${part.length} ${part}`))
  return hash.hex().slice(0, 32)
}

/** A file's name as the service takes it; names on a disk may hold anything. */
function plain(name: string): string {
  return [...name.replace(/[\p{Cc}\p{Cs}]/gu, '')].slice(0, MAX_FILE_NAME_CHARACTERS).join('')
}
