// OpenAI's own client for Node.js against real engines: a text is spoken and transcribed again, a picture is drawn; prints what came.
import OpenAI, { toFile } from 'openai'

const client = new OpenAI({ baseURL: process.env.ADDRESS, apiKey: process.env.KEY, timeout: 600_000 })
const spoken = await client.audio.speech.create({ model: 'tts-1', voice: 'alloy', input: process.env.SENTENCE })
const file = await toFile(Buffer.from(await spoken.arrayBuffer()), 'sentence.mp3')
const transcript = await client.audio.transcriptions.create({ model: 'whisper-1', file, response_format: 'verbose_json' })
const images = await client.images.generate({ model: 'dall-e-3', prompt: 'A red sun above a blue mountain.', size: '256x256' })
const png = Buffer.from(images.data[0].b64_json, 'base64')

console.log(
  JSON.stringify({
    text: transcript.text,
    language: transcript.language,
    end: transcript.segments.at(-1).end,
    size: [png.readUInt32BE(16), png.readUInt32BE(20)],
  }),
)
