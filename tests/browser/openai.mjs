// OpenAI's own client for Node.js against the service whose address and key are in the environment; prints what it got.
import { createHash } from 'node:crypto'
import OpenAI from 'openai'

const client = new OpenAI({ baseURL: process.env.ADDRESS, apiKey: process.env.KEY, maxRetries: 0 })
const sha256 = (bytes) => createHash('sha256').update(Buffer.from(bytes)).digest('hex')
const sentence = { model: 'tts-1', voice: 'alloy', input: 'Hold the note.' }

const wav = await client.audio.speech.create({ ...sentence, response_format: 'wav' })
const mp3 = await client.audio.speech.create(sentence)
const streamed = await client.audio.speech.create({ ...sentence, response_format: 'pcm' })
let streamedBytes = 0
for await (const piece of streamed.body) streamedBytes += piece.length
const events = await client.audio.speech.create({ ...sentence, response_format: 'pcm', stream_format: 'sse' })
const lines = (await events.text()).split('\n').filter((line) => line.startsWith('data: '))
const images = await client.images.generate({ model: 'dall-e-3', prompt: 'A cat.', n: 2, size: '256x256' })
const models = []
for await (const model of client.models.list()) models.push(model.id)
const chat = await client.chat.completions.create({ model: 'there/chat', messages: [{ role: 'user', content: 'Hello.' }] })
const refused = await client.audio.speech.create({ ...sentence, model: 'invalid-model' }).catch((error) => error)

console.log(
  JSON.stringify({
    wav: [wav.headers.get('x-service-sha256'), sha256(await wav.arrayBuffer())],
    mp3: [mp3.headers.get('content-type'), Buffer.from(await mp3.arrayBuffer()).subarray(0, 2).toString('hex')],
    streamedBytes,
    events: lines.map((line) => JSON.parse(line.slice(6)).type),
    images: images.data.map((image) => Buffer.from(image.b64_json, 'base64').subarray(1, 4).toString()),
    models,
    model: (await client.models.retrieve('fake/speech')).id,
    chat: chat.choices[0].message.role,
    refused: [refused.status, refused.code, refused.param],
  }),
)
