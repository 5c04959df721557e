// The contract's rules for clients: how long to wait, when a submission is the same, which answer was held back.
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdtempSync, readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { heldS, holdS, nextListing, retryAfterS, waitS } from 'tenuto/pacing.ts'
import type { Job } from '../src/lib/types.ts'

const NOON = Date.UTC(2026, 10, 21, 12)
const named = (values: Record<string, string>) => ({ get: (name: string) => values[name] ?? null })

describe('Retry-After', () => {
  it('is a number, a decimal or an HTTP date', () => {
    const date = new Date(NOON + 60_000).toUTCString()
    const both = { Date: new Date(NOON + 3_600_000).toUTCString(), 'Retry-After': new Date(NOON + 3_609_000).toUTCString() }

    expect(['7', '1.5', '0', date].map((text) => retryAfterS(named({ 'Retry-After': text }), NOON))).toEqual([7, 1.5, 0, 60])
    expect(retryAfterS(named(both), NOON)).toBe(9)
    expect(retryAfterS(named({ 'Retry-After': new Date(NOON - 1000).toUTCString() }), NOON)).toBe(0)
  })

  it('is nothing when it is missing or unreadable: three seconds, and never less than one', () => {
    for (const text of ['', 'soon', '-5', '1e3', 'NaN', 'x5', 'Monday']) expect(retryAfterS(named({ 'Retry-After': text }), NOON), text).toBeNull()
    expect([null, 0, 0.2, 2].map((asked) => waitS(asked))).toEqual([3, 1, 1, 2])
  })
})

describe('an answer', () => {
  it('was held only where the service says so and it took so long', () => {
    const applied = named({ 'Preference-Applied': 'wait=2' })

    expect([heldS(applied, 2, 2.01), heldS(applied, 2, 0.3), heldS(applied, 3, 3.1), heldS(named({}), 2, 9)]).toEqual([2, 0, 0, 0])
    expect([holdS(1.2), holdS(600)]).toEqual([2, 30])
  })

  it('with segments is followed by the next listing after 0.5 to 1 s', () => {
    expect([nextListing(0, 10), nextListing(0, 400)]).toEqual([700, 900])
  })
})

// --- against a service that answers as each job's script says ------------------------------------------------------

type Seen = { at: number; answeredAt: number; method: string; url: string; key: string | undefined; body: string }
type Answer = { status?: number; headers?: Record<string, string>; body?: unknown; after?: number; lost?: boolean; raw?: Buffer }
const seen = new Map<string, Seen[]>()
const scripts = new Map<string, (request: Seen, number: number) => Answer>()
let server: Server
let origin = ''
let jobs: typeof import('../src/lib/jobs.ts')
let snippets: typeof import('../src/lib/snippets.ts')

/** The part of a path, or the model of a body, that tells whose script answers. */
function nameOf(url: string, body: string): string {
  return (url.match(/(?:jobs|artifacts)\/([^/?]+)/)?.[1] ?? (JSON.parse(body) as { model: string }).model).replace(/\..*/, '')
}

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const blocks: Buffer[] = []
  for await (const block of request) blocks.push(block as Buffer)
  const body = Buffer.concat(blocks).toString()
  const one: Seen = { at: Date.now(), answeredAt: 0, method: request.method ?? '', url: request.url ?? '', key: request.headers['idempotency-key'] as string, body }
  const name = nameOf(one.url, body)
  const all = seen.get(name) ?? []
  seen.set(name, [...all, one])
  const told = scripts.get(name)!(one, all.length)
  if (told.after) await new Promise((done) => setTimeout(done, told.after))
  one.answeredAt = Date.now()
  if (told.lost) return void request.socket.destroy()
  const bytes = told.raw ?? Buffer.from(JSON.stringify(told.body))
  response.writeHead(told.status ?? 200, { 'Content-Type': 'application/json', 'Content-Length': bytes.length, ...told.headers })
  response.end(bytes)
}

beforeAll(async () => {
  server = createServer((request, response) => void answer(request, response))
  await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready))
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  // Where the pages of a browser would say that the service is.
  Object.assign(globalThis, { document: { documentElement: { dataset: { base: origin } } } })
  jobs = await import('../src/lib/jobs.ts')
  snippets = await import('../src/lib/snippets.ts')
})

afterAll(() => void (server.closeAllConnections(), server.close()))

const job = (id: string, state: string): Partial<Job> => ({ id, state: state as Job['state'], artifacts: [] })
const pauses = (name: string): number[] => seen.get(name)!.slice(1).map((one, i) => one.at - seen.get(name)![i]!.answeredAt)

async function states(id: string): Promise<string[]> {
  const found: string[] = []
  for await (const one of jobs.follow(id, new AbortController().signal)) found.push(one.state)
  return found
}

describe('work at a service', () => {
  it.concurrent('is followed after a pause where the answer was not held, however long it took', async () => {
    scripts.set('slow', (_, n) => ({ body: job('slow', n < 3 ? 'running' : 'succeeded'), headers: { 'Retry-After': '1' }, after: n === 1 ? 1200 : 0 }))

    expect(await states('slow')).toEqual(['running', 'running', 'running', 'succeeded'])
    expect(seen.get('slow')!.map((one) => one.url.split('?')[1])).toEqual([undefined, 'wait=1', 'wait=1', 'wait=1'])
    expect(Math.min(...pauses('slow'))).toBeGreaterThanOrEqual(990)
  })

  it.concurrent('is read at once behind an answer that was held', async () => {
    const headers = { 'Retry-After': '1', 'Preference-Applied': 'wait=1' }
    scripts.set('held', (_, n) => ({ body: job('held', n < 3 ? 'running' : 'succeeded'), headers, after: n ? 1000 : 0 }))
    await states('held')
    const [first, ...others] = pauses('held')

    expect(first).toBeGreaterThanOrEqual(990)
    expect(Math.max(...others)).toBeLessThan(900)
  })

  it.concurrent('is read plainly by whoever was told that `wait` is unknown', async () => {
    scripts.set('plain', (one, n) =>
      one.url.includes('?') ? { status: 400, headers: { 'Retry-After': '1' }, body: { detail: 'no' } }
      : { body: job('plain', n < 3 ? 'queued' : 'succeeded'), headers: { 'Retry-After': '1' } })
    await states('plain')

    expect(seen.get('plain')!.map((one) => one.url.includes('?'))).toEqual([false, true, false, false])
    expect(Math.min(...pauses('plain'))).toBeGreaterThanOrEqual(990)
  })

  it.concurrent('is followed as slowly as a busy service says', async () => {
    const busy = { status: 503, headers: { 'Retry-After': '6' }, body: { error: { code: 'unavailable', message: 'm' } } }
    scripts.set('busy', (_, n) => (n === 0 ? busy : { body: job('busy', 'succeeded') }))
    await states('busy')

    expect(pauses('busy')[0]).toBeGreaterThanOrEqual(5990)
  }, 15_000)
  it.concurrent('is first read when the answer to its submission says so', async () => {
    scripts.set('made', (one) => ({ body: job('made', one.method === 'POST' ? 'queued' : 'succeeded'), headers: { 'Retry-After': '1.4' } }))
    await states((await jobs.submit('made', { text: 'x' })).id)

    expect(pauses('made')[0]).toBeGreaterThanOrEqual(1390)
  })

  it.concurrent('whose submission was lost for good is the same when it is submitted again, and then no more', async () => {
    scripts.set('lost', (_, n) => (n < 4 ? { lost: true } : { body: job('lost', 'queued') }))
    const attempt = () => jobs.submit('lost', { text: 'x' })
    await expect(attempt()).rejects.toMatchObject({ code: 'service_unreachable' })
    await attempt()
    await attempt()
    const keys = seen.get('lost')!.map((one) => one.key)

    expect([keys.length, new Set(keys.slice(0, 5)).size, new Set(keys).size]).toEqual([6, 1, 2])
  }, 20_000)
  it.concurrent('is done by the Python that a new key comes with, which verifies and downloads again', async () => {
    const sound = Buffer.from('RIFF and all the rest')
    const artifact = { id: 'script.sound', media_type: 'audio/wav', size_bytes: sound.length, sha256: createHash('sha256').update(sound).digest('hex') }
    const busy = { status: 503, headers: { 'Retry-After': 'Sat, 21 Nov 2020 12:00:00 GMT' }, body: {} }
    const done = { body: { ...job('script', 'succeeded'), artifacts: [artifact] } }
    const wrong = { raw: Buffer.from('RIFF and all the rust'), headers: { 'Content-Type': 'audio/wav' } }
    const page = { raw: sound, headers: { 'Content-Type': 'text/html' } }
    const right = { raw: sound, headers: { 'Content-Type': 'audio/wav' } }
    const answers: Answer[] = [busy, { status: 202, body: job('script', 'queued'), headers: { 'Retry-After': '1.2' } }, done, wrong, page, right]
    scripts.set('script', (_, n) => answers[n]!)
    const folder = mkdtempSync(join(tmpdir(), 'snippet-'))
    await promisify(execFile)('python3', ['-c', snippets.pythonWithKey(origin, 'tn_x', 'script', '你好，"世界"\\')], { cwd: folder })
    const [first, second] = pauses('script')

    expect(readFileSync(join(folder, 'speech.wav'))).toEqual(sound)
    expect([seen.get('script')!.length, first! >= 990, second! >= 1190]).toEqual([6, true, true])
    expect(seen.get('script')![0]!.key).toBe(seen.get('script')![1]!.key)
  }, 30_000)
})
