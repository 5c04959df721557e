// The rules of the contract for clients, against a service by script: no network, no waiting.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, renameSync, statSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'node:test'
import * as sdk from '../dist/node.js'
import { EventReader } from '../dist/sse.js'
import { Sha256 } from '../dist/sha256.js'
import { backoffS, heldS, holdS, retryAfterS, waitS } from '../dist/pacing.js'
import { readJson, writeJson } from '../dist/json.js'
import { brokenOff, content, JOB, lost, operation, queued, reply, scripted, SOUND, succeeded, virtualClock } from './scripted.mjs'

const MODEL = { model: 'fake/speech' }

function client(service, more = {}) {
  const clock = virtualClock()
  const made = new sdk.Tenuto({ baseUrl: 'http://there/v1/', apiKey: 'tn_key', journal: null, fetch: service.fetch, clock, ...more })
  return Object.assign(made, { clock })
}

test('Retry-After is seconds or a date, held against the date of the same answer; 3 s without, 1 s at least', () => {
  const named = (fields) => retryAfterS(new Headers(fields), Date.parse('Sat, 21 Nov 2026 12:00:00 GMT'))
  const date = 'Sat, 21 Nov 2026 12:00:09 GMT'

  assert.deepEqual(
    [7, 0.2, 9, 4, 0, null, null],
    [
      named({ 'Retry-After': '7' }), named({ 'Retry-After': ' 0.2 ' }), named({ 'Retry-After': date }),
      named({ 'Retry-After': date, Date: 'Sat, 21 Nov 2026 12:00:05 GMT' }),
      named({ 'Retry-After': 'Sat, 21 Nov 2026 11:00:00 GMT' }), named({ 'Retry-After': 'soon' }), named({}),
    ],
  )
  assert.deepEqual([3, 1, 5], [waitS(null), waitS(0.2), waitS(5)])
  assert.deepEqual([1, 2, 4, 8, 16, 16], [1, 2, 3, 4, 5, 6].map((tries) => backoffS(tries)))
  assert.deepEqual([3, 30, 2, 0], [holdS(2.5), holdS(60), holdS(5, 2.9), holdS(5, 0.5)])
  assert.deepEqual([5, 0, 0], [
    heldS(new Headers({ 'Preference-Applied': 'wait=5' }), 5, 5), heldS(new Headers({ 'Preference-Applied': 'wait=5' }), 5, 1),
    heldS(new Headers(), 5, 5),
  ])
})

test('SHA-256 in blocks is that of the whole', () => {
  for (const length of [0, 1, 55, 56, 63, 64, 65, 1000]) {
    const bytes = Buffer.alloc(length, length)
    const inBlocks = new Sha256().update(bytes.subarray(0, length / 3)).update(bytes.subarray(length / 3)).hex()

    assert.equal(inBlocks, createHash('sha256').update(bytes).digest('hex'))
  }
})

test('a seed of 63 bits survives in both directions, and no text but parameters.seed becomes a number', async () => {
  const seeded = (seed) => writeJson({ parameters: { seed } })
  const others = { seed: '1', metadata: { seed: '42' }, parameters: { text: '"seed":"1"', seed: 5, voice: { seed: '7' } } }
  const service = scripted(queued())
  await client(service).images.create('A sun.', { ...MODEL, seed: '007', metadata: { seed: '42' } })

  assert.equal(seeded(9223372036854775807n), '{"parameters":{"seed":9223372036854775807}}')
  assert.equal(seeded('9223372036854775807'), seeded(9223372036854775807n))
  assert.deepEqual(readJson('{"seed": 9223372036854775807}'), { seed: '9223372036854775807' })
  assert.deepEqual(['{"parameters":{"seed":7}}', '{"parameters":{"seed":0}}'], [seeded('007'), seeded('000')])
  assert.deepEqual([seeded('-1'), seeded('')], ['{"parameters":{"seed":"-1"}}', '{"parameters":{"seed":""}}'])
  assert.equal(writeJson(others), JSON.stringify(others))
  assert.deepEqual(
    JSON.parse(service.requests[0].body), { model: 'fake/speech', parameters: { prompt: 'A sun.', seed: 7 }, metadata: { seed: '42' } },
  )
})

test('server-sent events come whole, wherever the stream was cut', () => {
  const text = ': hello\n\nid: 1\ndata: a\ndata: b\n\nid: 2\r\ndata:c\r\n\r\ndata: unfinished'
  for (let cut = 0; cut < text.length; cut++) {
    const reader = new EventReader()
    const events = [...reader.take(text.slice(0, cut)), ...reader.take(text.slice(cut))]

    assert.deepEqual(events, [{ id: '1', data: 'a\nb' }, { id: '2', data: 'c' }])
  }
})

test('a lost answer and a 503 send the same body under the same key again', async () => {
  const service = scripted(lost(), reply(503, null, { 'Retry-After': '7' }), queued(), succeeded(), content())
  const made = client(service)
  const job = await made.speech.create('Hold the note.', { ...MODEL, lang: 'en', metadata: { a: 'b' } })
  const bytes = await job.read()
  const posts = service.requests.filter((request) => request.method === 'POST')

  assert.deepEqual(Buffer.from(bytes), SOUND)
  assert.equal(new Set(posts.map((post) => `${post.body} ${post.headers['Idempotency-Key']}`)).size, 1)
  assert.deepEqual(posts.map((post) => post.path), ['/v1/jobs', '/v1/jobs', '/v1/jobs'])
  assert.deepEqual(JSON.parse(posts[0].body), {
    model: 'fake/speech', parameters: { text: 'Hold the note.', lang: 'en' }, metadata: { a: 'b' },
  })
  assert.equal(posts[0].headers.Authorization, 'Bearer tn_key')
  assert.deepEqual(made.clock.slept, [1, 7, 3])
})

test('a refusal is final, and its error has everything that the service sent', async () => {
  const detail = { param: 'parameters.lang', code: 'not_allowed', message: 'one of zh, en' }
  const error = { code: 'invalid_request', message: 'lang: one of zh, en', param: detail.param, request_id: 'req_1', details: [detail] }
  const refused = await client(scripted(reply(400, { error }))).speech.create('A', MODEL).catch((one) => one)
  const poor = { code: 'insufficient_balance', message: 'no', balance: { needed: '1', available: '0' } }
  const short = await client(scripted(reply(403, { error: poor }))).speech.create('A', MODEL).catch((one) => one)
  const foreign = await client(scripted(reply(302, undefined))).jobs.get('a').catch((one) => one)

  assert.deepEqual(
    ['InvalidRequest', 400, 'invalid_request', 'req_1', [detail]],
    [refused.constructor.name, refused.status, refused.code, refused.requestId, refused.details],
  )
  assert.ok(short instanceof sdk.NotAllowed && short instanceof sdk.InsufficientBalance)
  assert.deepEqual(short.balance, poor.balance)
  assert.match(foreign.message, /is this a Tenuto service/)
})

test('after its retries a request gives up; a chat that may have arrived is not sent again', async () => {
  const gone = client(scripted(...Array.from({ length: 3 }, () => lost())), { maxRetries: 2 })
  const chat = scripted(lost('ECONNREFUSED'), lost())
  const request = { model: 'there/chat', messages: [{ role: 'user', content: 'Hello.' }] }

  await assert.rejects(gone.jobs.get(JOB), sdk.ServiceUnreachable)
  assert.deepEqual(gone.clock.slept, [1, 2])
  await assert.rejects(client(chat).chat.completions.create(request), sdk.ServiceUnreachable)
  assert.equal(chat.requests.length, 2)
})

test('a streamed chat that falls silent is interrupted after ten minutes', async (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] })
  let isCancelled = false
  const piece = new TextEncoder().encode('data: {"choices":[{"delta":{"content":"Hold"}}]}\n\n')
  const body = new ReadableStream({ start: (controller) => controller.enqueue(piece), cancel: () => void (isCancelled = true) })
  const pieces = client(scripted(new Response(body))).chat.completions.stream({ model: 'there/chat', messages: [] })
  const first = await pieces.next()
  const end = pieces.next().catch((error) => error)
  await new Promise(setImmediate)
  context.mock.timers.tick(599_999)
  await new Promise(setImmediate)
  const wasEarly = isCancelled
  context.mock.timers.tick(1)
  const error = await end

  assert.equal(first.value.content, 'Hold')
  assert.deepEqual([false, true, true], [wasEarly, isCancelled, error instanceof sdk.ChatInterrupted])
  assert.match(error.message, /nothing was transferred for 600 s/)
})

test('in Node the limits of its own fetch do not end what the client still waits for', async (context) => {
  const [name, newer] = [1, 2].map((version) => Symbol.for(`undici.globalDispatcher.${version}`))
  const usual = await fetch('data:,').then(() => globalThis[name])
  // What is 300 s otherwise; Node looks at it every second or less often.
  const hasty = new (globalThis[newer] ?? usual).constructor({ headersTimeout: 100, bodyTimeout: 100 })
  const server = createServer((request, answer) => {
    if (request.url === '/v1/chat/completions') answer.write('data: {"choices":[{"delta":{"content":"Hold"}}]}\n\n')
    setTimeout(() => answer.end(request.url === '/v1/models' ? '{"data":[]}' : 'data: [DONE]\n\n'), 2500)
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  globalThis[name] = hasty
  context.after(() => (globalThis[name] = usual, server.closeAllConnections(), server.close()))
  const made = new sdk.Tenuto({ baseUrl: `http://127.0.0.1:${server.address().port}`, apiKey: 'tn_key', journal: null, maxRetries: 0 })
  const chat = async () => {
    const contents = []
    for await (const { content } of made.chat.completions.stream({ model: 'there/chat', messages: [] })) contents.push(content)
    return contents
  }
  const plain = fetch(made.baseUrl, { dispatcher: hasty }).catch((error) => error.cause?.code)

  assert.deepEqual([[], ['Hold'], 'UND_ERR_HEADERS_TIMEOUT'], await Promise.all([made.models.list(), chat(), plain]))
})

test('waiting asks the service to hold its answer, and pauses by itself where it does not', async () => {
  const running = (headers) => reply(200, operation('running'), { 'Retry-After': '5', ...headers })
  const refused = reply(400, { error: { code: 'invalid_request', message: 'wait' } }, { 'Retry-After': '2' })
  const service = scripted(queued({ 'Retry-After': '2' }), running(), refused, running(), succeeded())
  const made = client(service)
  const states = []
  await (await made.speech.create('A', MODEL)).wait({ onChange: (now) => states.push(now.state) })

  assert.deepEqual(states, ['running', 'running', 'succeeded'])
  assert.deepEqual(service.requests.slice(1).map((one) => one.path.split('?')[1]), ['wait=2', 'wait=5', undefined, undefined])
  assert.deepEqual(made.clock.slept, [2, 5, 2, 5])
})

test('a body has a second more for each 64 KiB, since fetch is silent while it is sent', async () => {
  const content = Buffer.concat([Buffer.from('fLaC'), Buffer.alloc(65_536)])
  const sha256 = createHash('sha256').update(content).digest('hex')
  const upload = reply(201, { artifact: { id: 'artifact_1', size_bytes: content.length, sha256 } })
  const slow = (answer) => (init) => new Promise((resolve, reject) => {
    setTimeout(resolve, 250, answer)
    init.signal.addEventListener('abort', () => reject(init.signal.reason))
  })
  const made = client(scripted(slow(upload), queued(), slow(reply(201, { id: 'voice_1' })), slow(queued())), { timeoutS: 0.1, maxRetries: 0 })
  const job = await made.recognition.create(new Blob([content]), MODEL)
  const voice = await made.voices.create(content, 'Clara')

  assert.deepEqual([JOB, 'voice_1'], [job.id, voice.id])
  await assert.rejects(made.jobs.get(JOB), /nothing was transferred for 0.1 s/)
})

test('a job without a result is the error of its state, and an unknown state ends the waiting', async () => {
  const ends = {
    failed: [sdk.JobFailed, { error: { code: 'engine_failed', message: 'why' } }], cancelled: [sdk.JobCancelled, {}],
    recovery_required: [sdk.RecoveryRequired, {}], succeeded: [sdk.ResultMissing, {}], dreaming: [sdk.UnknownState, {}],
  }
  for (const [state, [kind, more]] of Object.entries(ends)) {
    const error = await client(scripted(queued(), reply(200, operation(state, more)))).speech.create('A', MODEL)
      .then((job) => job.wait()).catch((one) => one)

    assert.equal(error.constructor, kind)
    assert.equal(error.jobId, JOB)
  }
})

test('waiting gives up after its time, and a signal ends it at once', async () => {
  const endless = client({ fetch: async () => reply(200, operation('running')) })
  const left = new AbortController()
  const waiting = new sdk.Tenuto({ baseUrl: 'http://there', apiKey: 'k', journal: null, fetch: async () => queued() })
  const job = await waiting.speech.create('A', MODEL)
  setTimeout(() => left.abort(), 20)

  await assert.rejects(endless.jobs.wait(JOB, { timeoutS: 10 }), sdk.GaveUpWaiting)
  await assert.rejects(job.wait({ signal: left.signal }), { name: 'AbortError' })
})

test('a time of day that is corrected by hours neither ends the waiting nor makes it longer (P20)', async () => {
  for (const hours of [3, -3]) {
    const corrected = (answer) => () => ((made.clock.corrected += hours * 3600_000), answer)
    const running = (headers) => reply(200, operation('running'), headers)
    const service = scripted(queued(), corrected(running()), corrected(reply(503, null, { 'Retry-After': '5' })), running(), succeeded())
    const made = client(service)
    const job = await made.speech.create('A', MODEL)
    await job.wait()

    assert.equal(job.state, 'succeeded')
    assert.deepEqual(made.clock.slept, [3, 3, 5, 3])
  }
})

test('a download that breaks off resumes where it was; one with other bytes starts over', async () => {
  const half = SOUND.subarray(0, 40_000)
  const rest = content(SOUND.subarray(40_000), { status: 206 })
  const service = scripted(succeeded(), brokenOff(half), rest)
  const wrong = scripted(succeeded(), content(Buffer.alloc(SOUND.length)), content(SOUND.subarray(1)), content())
  const never = scripted(succeeded(), ...Array.from({ length: 6 }, () => content(Buffer.alloc(SOUND.length))))
  const foreign = scripted(succeeded(), ...Array.from({ length: 6 }, () => content(SOUND, { headers: { 'Content-Type': 'text/html' } })))

  assert.deepEqual(Buffer.from(await (await client(service).jobs.get(JOB)).read()), SOUND)
  assert.equal(service.requests.at(-1).headers.Range, 'bytes=40000-')
  assert.deepEqual(Buffer.from(await (await client(wrong).jobs.get(JOB)).read()), SOUND)
  await assert.rejects((await client(never).jobs.get(JOB)).read(), sdk.ContentMismatch)
  await assert.rejects((await client(foreign).jobs.get(JOB)).read(), sdk.ContentMismatch)
})

test('a file is whole or not there; a stream fails before its end', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tenuto-'))
  const bad = () => scripted(succeeded(), ...Array.from({ length: 6 }, () => content(Buffer.alloc(SOUND.length))))
  const good = await client(scripted(succeeded(), content())).jobs.get(JOB)
  const streamed = await (await client(scripted(succeeded(), content())).jobs.get(JOB)).stream()

  await assert.rejects((await client(bad()).jobs.get(JOB)).download(join(folder, 'bad.wav')), sdk.ContentMismatch)
  await good.download(join(folder, 'good.wav'))
  assert.deepEqual(readdirSync(folder), ['good.wav'])
  assert.deepEqual(readFileSync(join(folder, 'good.wav')), SOUND)
  assert.deepEqual(Buffer.from(await new Response(streamed).arrayBuffer()), SOUND)
  await assert.rejects(new Response(await (await client(bad()).jobs.get(JOB)).stream()).arrayBuffer(), sdk.ContentMismatch)
})

test('a file may have any name that a file can have, and takes the place of nothing but a file', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tenuto-'))
  const name = `${'x'.repeat(251)}.wav`
  execFileSync('mkfifo', [join(folder, 'pipe')])
  const service = scripted(succeeded(), content())
  const job = await client(service).jobs.get(JOB)

  await assert.rejects(job.download(join(folder, 'pipe')), sdk.InvalidSetting)
  assert.equal(service.requests.length, 1)
  await job.download(join(folder, name))
  assert.deepEqual(readdirSync(folder).sort(), ['pipe', name])
  assert.ok(statSync(join(folder, 'pipe')).isFIFO())
})

test('two downloads of a job to one path at the same time do not disturb each other', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tenuto-'))
  const job = await client(scripted(succeeded(), content(), content())).jobs.get(JOB)
  await Promise.all([job.download(join(folder, 'a.wav')), job.download(join(folder, 'a.wav'))])

  assert.deepEqual(readFileSync(join(folder, 'a.wav')), SOUND)
  assert.deepEqual(readdirSync(folder), ['a.wav'])
})

test('an entry is in the journal before anything is sent, without the key, until the result was read', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tenuto-'))
  const seen = []
  const note = (answer) => () => (seen.push(readdirSync(folder).map((name) => readFileSync(join(folder, name), 'utf-8'))), answer)
  const made = client(scripted(note(queued()), note(succeeded()), note(content())), { journal: folder })
  await (await made.speech.create('A', MODEL)).read()

  assert.deepEqual(seen.map((files) => files.length), [1, 1, 1])
  assert.deepEqual(seen.map(([text]) => JSON.parse(text).operation_id), [undefined, JOB, JOB])
  assert.ok(!seen.flat().join().includes('tn_key'))
  assert.deepEqual(readdirSync(folder), [])
})

test('a submission in doubt is taken up by the same call, under its key; with another API key it is refused', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tenuto-'))
  const first = scripted(lost())
  await client(first, { journal: folder, maxRetries: 0 }).speech.create('A', MODEL).catch((error) => error)
  const other = client(scripted(), { journal: folder, apiKey: 'tn_other' })
  const refused = await other.speech.create('A', MODEL).catch((error) => error)
  const second = scripted(queued(), queued())
  const same = client(second, { journal: folder })
  await same.speech.create('A', MODEL)
  await same.speech.create('A', MODEL)
  const [key, again, fresh] = [first.requests[0], ...second.requests].map((one) => one.headers['Idempotency-Key'])

  assert.equal(refused.code, 'other_api_key')
  assert.equal(key, again)
  assert.notEqual(key, fresh)
})

test('what answers in place of the service leaves a submission in doubt, also after a gateway gave up', async () => {
  for (const [first, second] of [[lost(), 404], [reply(504), 404], [lost(), 302], [reply(504), 401]]) {
    const service = scripted(first, reply(second), queued())
    const made = client(service, { journal: new sdk.MemoryStore() })
    await assert.rejects(made.speech.create('A', MODEL), sdk.Refused)
    await made.speech.create('A', MODEL)

    assert.equal(new Set(service.requests.map((one) => one.headers['Idempotency-Key'])).size, 1)
  }
})

test('a recording under the same idempotency key is uploaded under the same key, so that the job is the same', async () => {
  const bytes = Buffer.from('fLaC and more')
  const artifact = { id: 'artifact_a', size_bytes: bytes.length, sha256: createHash('sha256').update(bytes).digest('hex') }
  for (const journal of [null, new sdk.MemoryStore()]) {
    const service = scripted(...[1, 2].flatMap(() => [reply(201, { artifact }), queued()]))
    const made = client(service, { journal })
    for (let i = 0; i < 2; i++) await made.recognition.create(bytes, MODEL, { idempotencyKey: 'mine' })
    const keys = service.requests.map((one) => one.headers['Idempotency-Key'])

    assert.deepEqual([keys[0], 'mine'], [keys[2], keys[3]])
  }
})

test('a voice that a try without an answer has deleted is deleted', async () => {
  const gone = () => reply(404, { error: { code: 'not_found', message: 'no' } })
  await client(scripted(lost(), gone())).voices.delete('voice_a')
  await assert.rejects(client(scripted(gone())).voices.delete('voice_a'), sdk.NotFound)
  await assert.rejects(client(scripted(lost(), reply(404))).voices.delete('voice_a'), sdk.NotFound)
})

/** Leaves all entries of a journal as a program that died leaves them, and returns its folder. */
function orphaned(folder) {
  for (const file of readdirSync(folder)) renameSync(join(folder, file), join(folder, file.replace(/\..*/, '.0-0.json')))
  return folder
}

test('resume gives the younger jobs whatever an older entry meets, then throws its problem and holds nothing of it', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tenuto-'))
  const other = client(scripted(lost()), { journal: folder, apiKey: 'tn_other', maxRetries: 0 })
  await other.speech.create('In doubt, with another key', MODEL).catch((error) => error)
  const ids = ['job_gone', 'job_fine']
  const made = client(scripted(...ids.map((id) => reply(202, operation('queued', { id })))), { journal: folder })
  for (const id of ids) {
    // Entries are in the order of their milliseconds.
    made.clock.passed += 1
    await made.speech.create(id, MODEL)
  }
  const missing = () => reply(404, { error: { code: 'not_found', message: 'no such job' } })
  for (const run of [1, 2]) {
    const resumed = []
    const again = client(scripted(missing(), reply(200, operation('running', { id: 'job_fine' }))), { journal: orphaned(folder) })
    const problem = await (async () => {
      for await (const job of again.resume()) resumed.push(job.id)
    })().catch((error) => error)
    const holders = readdirSync(folder).map((file) => file.split('.')[1])

    assert.deepEqual([run, ['job_fine'], 'other_api_key'], [run, resumed, problem?.code])
    assert.equal(holders.filter((one) => one === '0-0').length, 2)
  }
})

test('a resumed job that had failed leaves the journal when its result is asked for', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tenuto-'))
  await client(scripted(queued()), { journal: folder }).speech.create('A', MODEL)
  const failed = reply(200, operation('failed', { error: { code: 'engine_failed', message: 'why' } }))
  const { value: job } = await client(scripted(failed), { journal: orphaned(folder) }).resume().next()

  await assert.rejects(job.read(), sdk.JobFailed)
  assert.deepEqual(readdirSync(folder), [])
})

test('resume stops at once at a service that does not answer, and when its signal says so', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tenuto-'))
  const made = client(scripted(queued(), queued()), { journal: folder })
  for (const text of ['A', 'B']) await made.speech.create(text, MODEL)
  const silent = scripted(lost())
  const left = scripted()

  await assert.rejects(client(silent, { journal: orphaned(folder), maxRetries: 0 }).resume().next(), sdk.ServiceUnreachable)
  await assert.rejects(client(left, { journal: folder }).resume({ signal: AbortSignal.abort() }).next(), { name: 'AbortError' })
  assert.deepEqual([1, 0], [silent.requests.length, left.requests.length])
  assert.deepEqual(readdirSync(folder).map((file) => file.split('.')[1]), ['0-0', '0-0'])
})

test('a journal in memory continues a submission in doubt, and the same work at the same time is two jobs', async () => {
  const service = scripted(lost(), queued(), queued(), queued())
  const made = client(service, { journal: new sdk.MemoryStore(), maxRetries: 0 })
  const create = () => made.speech.create('A', MODEL)
  await create().catch((error) => error)
  await create()
  await Promise.all([create(), create()])
  const keys = service.requests.map((one) => one.headers['Idempotency-Key'])

  assert.equal(keys[0], keys[1])
  assert.equal(new Set(keys).size, 3)
})

test('a refused submission leaves nothing in the journal, and a journal that cannot be written sends nothing', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tenuto-'))
  const refused = client(scripted(reply(400, { error: { code: 'invalid_request', message: 'no' } })), { journal: folder })
  const service = scripted()
  const blocked = client(service, { journal: '/dev/null/journal' })

  await assert.rejects(refused.speech.create('A', MODEL), sdk.InvalidRequest)
  assert.deepEqual(readdirSync(folder), [])
  await assert.rejects(blocked.speech.create('A', MODEL), sdk.JournalError)
  assert.equal(service.requests.length, 0)
})

test('where the id cannot be noted, the error names the job, and the same call gets it again', async () => {
  const store = new sdk.MemoryStore()
  let isFull = true
  const full = {
    names: () => store.names(),
    hold: (name) => store.hold(name),
    create: async (name, text) => {
      const held = await store.create(name, text)
      const write = (next) => (isFull ? Promise.reject(new Error('ENOSPC')) : held.write(next))
      return { ...held, write }
    },
  }
  const service = scripted(queued(), queued())
  const made = client(service, { journal: full })
  const error = await made.speech.create('A', MODEL).catch((one) => one)
  isFull = false
  const job = await made.speech.create('A', MODEL)
  const [first, second] = service.requests.map((one) => one.headers['Idempotency-Key'])

  assert.ok(error instanceof sdk.JournalError)
  assert.match(error.message, new RegExp(`${JOB} was accepted, but .*ENOSPC.*the same call gets the same job`))
  assert.ok(!error.message.includes('nothing was sent'))
  assert.deepEqual([first, JOB], [second, job.id])
})

test('a call that is aborted while its entry is written sends nothing and leaves nothing', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tenuto-'))
  const files = new sdk.FileStore(folder)
  const left = new AbortController()
  const slow = {
    names: () => files.names(),
    hold: (name) => files.hold(name),
    create: (name, text) => (left.abort(), files.create(name, text)),
  }
  const service = scripted()
  const error = await client(service, { journal: slow }).speech.create('A', MODEL, { signal: left.signal }).catch((one) => one)

  assert.equal(error.name, 'AbortError')
  assert.deepEqual([service.requests, readdirSync(folder)], [[], []])
})

test('a program that runs for months forgets jobs whose results nobody read, once a day', async () => {
  for (const store of [new sdk.MemoryStore(), new sdk.FileStore(mkdtempSync(join(tmpdir(), 'tenuto-')))]) {
    const made = client(scripted(queued(), queued(), queued(), queued(), lost()), { journal: store, maxRetries: 0 })
    const left = []
    for (const days of [0, 15, 0.5, 15]) {
      made.clock.passed += days * 24 * 3600 * 1000
      await made.speech.create(`${days}`, MODEL)
      left.push((await store.names()).length)
    }
    await made.speech.create('doubt', MODEL).catch((error) => error)
    made.clock.passed += 15 * 24 * 3600 * 1000
    await made.speech.create('more', MODEL).catch((error) => error)

    assert.deepEqual(left, [1, 1, 2, 1])
    // The one in doubt, and the last one, which met no service.
    assert.equal((await store.names()).length, 2)
  }
})

test('of several that want an entry one gets it', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tenuto-'))
  const store = new sdk.FileStore(folder)
  await (await store.create('entry', 'text')).release()
  const holders = await Promise.all(Array.from({ length: 8 }, () => new sdk.FileStore(folder).hold('entry')))

  assert.deepEqual(holders.filter((one) => one !== null).map((one) => one.text), ['text'])
})

test('addresses, keys and recordings that cannot be right are refused before anything is sent', async () => {
  const made = (options) => () => new sdk.Tenuto({ journal: null, ...options })

  assert.equal(new sdk.Tenuto({ baseUrl: 'https://a.example/below/v1/', apiKey: 'k' }).baseUrl, 'https://a.example/below')
  assert.throws(made({ baseUrl: 'a.example', apiKey: 'k' }), sdk.InvalidSetting)
  assert.throws(made({ baseUrl: 'http://a?b', apiKey: 'k' }), sdk.InvalidSetting)
  assert.throws(made({ baseUrl: 'http://a', apiKey: 'two words' }), sdk.InvalidSetting)
  assert.throws(made({ baseUrl: 'http://a', apiKey: '' }), sdk.InvalidSetting)
  const asked = client(scripted())
  await assert.rejects(asked.recognition.create(new Blob(['RIFF']), MODEL), sdk.AudioError)
  await assert.rejects(asked.speech.create('A', MODEL, { idempotencyKey: 'ä' }), sdk.InvalidSetting)
})
