// Every flow against the service whose address and key are in the environment; prints what came.
import { createHash } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fromFile, JobCancelled, JobFailed, InvalidRequest, Tenuto } from '../dist/node.js'

const folder = mkdtempSync(join(tmpdir(), 'tenuto-'))
const client = new Tenuto({ journal: join(folder, 'journal') })
const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex')
const failure = (promise) => promise.then(() => null, (error) => [error.constructor.name, error.code])
const all = async (stream) => {
  const items = []
  for await (const item of stream) items.push(item)
  return items
}

async function speech() {
  const job = await client.speech.create('Hold the note.', { model: 'fake/speech', lang: 'en', metadata: { a: 'b' } })
  const path = await job.download(join(folder, 'note.wav'))
  const again = await client.speech.create('Once.', { model: 'fake/speech' }, { idempotencyKey: 'mine' })
  const same = await client.speech.create('Once.', { model: 'fake/speech' }, { idempotencyKey: 'mine' })
  const conflict = await failure(client.speech.create('Twice.', { model: 'fake/speech' }, { idempotencyKey: 'mine' }))
  await again.forget()
  await same.forget()
  return {
    announced: job.operation.artifacts[0].sha256, saved: sha256(readFileSync(path)), read: sha256(await job.read()),
    isSame: again.id === same.id, conflict, metadata: job.operation.metadata, request: (await job.request()).parameters.lang,
    found: (await client.jobs.list({ search: 'Hold the', metadata: { a: 'b' } })).map((one) => one.id === job.id),
  }
}

async function preview() {
  const text = Array.from({ length: 4 }, (_, i) => `Sentence number ${i + 1}.`).join(' ')
  const job = await client.speech.create(text, { model: 'fake/speech', stream: true, lang: 'en' })
  const segments = await all(job.segments())
  const live = await all(job.live())
  await job.read()
  return {
    sequences: segments.map(({ segment }, i) => segment.sequence === i), wavs: segments.map(({ content }) => content.length > 44),
    live: live.map((event) => event.state).at(-1), isWhole: live.length === (await job.events()).length,
  }
}

async function recognition() {
  const job = await client.recognition.create(await fromFile(process.env.FLAC), { model: 'fake/dual-recognition' })
  const result = await job.json()
  return { schema: result.schema_version, title: job.operation.title }
}

async function image() {
  const seed = 9223372036854775807n
  const job = await client.images.create('A cat.', { model: 'fake/image', width: 256, height: 256, seed })
  const blob = await job.blob()
  return { type: blob.type, head: Buffer.from(await blob.arrayBuffer()).toString('latin1', 1, 4), seed: (await job.request()).parameters.seed }
}

async function chat() {
  const messages = [{ role: 'user', content: 'Hello.' }]
  const whole = await client.chat.completions.create({ messages })
  const pieces = await all(client.chat.completions.stream({ messages }))
  return {
    whole: whole.choices[0].message.content, streamed: pieces.map((piece) => piece.content).join(''), usage: pieces.at(-1).usage?.total_tokens > 0,
  }
}

async function ends() {
  const failing = await client.speech.create('[fake:raise] x', { model: 'fake/speech' })
  const failed = await failing.wait().catch((error) => error)
  const job = await client.speech.create('[fake:sleep=50] x', { model: 'fake/speech' })
  await job.cancel()
  const cancelled = await job.wait().catch((error) => error)
  const refused = await client.speech.create('', { model: 'fake/speech', lang: 'xx' }).catch((error) => error)
  return {
    failed: failed instanceof JobFailed && failed.code, cancelled: cancelled instanceof JobCancelled,
    refused: refused instanceof InvalidRequest && refused.details.map((detail) => detail.param).sort(),
    missing: await failure(client.jobs.get('job_none/../x')),
  }
}

async function account() {
  const events = client.events()
  const next = events.next()
  const job = await client.speech.create('[fake:sleep=1] Seen.', { model: 'fake/speech' })
  const { value } = await next
  await events.return()
  await job.read()
  const voice = (await client.voices.list())[0]
  const { audio } = await client.voices.get(voice.voice_id)
  return {
    currency: (await client.account.balance()).currency, ledger: (await client.account.ledger({ limit: 1 })).length,
    usage: (await client.account.usage()).length > 0, event: value.job_id.startsWith('job_'),
    voice: sha256(await client.voices.read(voice.voice_id)) === audio.sha256,
    models: (await client.models.list()).some((model) => model.id === 'fake/speech'),
  }
}

const [spoken, previewed, recognised, drawn, chatted] = await Promise.all([speech(), preview(), recognition(), image(), chat()])
const report = { speech: spoken, preview: previewed, recognition: recognised, image: drawn, chat: chatted, ends: await ends(), account: await account() }
console.log(JSON.stringify({ ...report, journal: readdirSync(join(folder, 'journal')) }))
