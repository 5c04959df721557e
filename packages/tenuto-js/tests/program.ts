// A program that compiles against the built package; what the service would refuse does not.
import { Tenuto, type RecognitionResult } from '../dist/node.js'
import { Tenuto as Anywhere, WebStore } from '../dist/index.js'

export async function works(client: Tenuto): Promise<string> {
  const job = await client.speech.create('Hold.', { lang: 'en', emo_vector: [0, 0, 0, 0, 0, 0, 0, 1] }, { idempotencyKey: 'a' })
  const state: 'submitting' | 'queued' | 'running' | 'succeeded' | 'failed' | 'cancelled' | 'recovery_required' = job.operation.state
  await client.images.create('A cat.', { seed: 2n ** 62n, metadata: { shelf: '1' } })
  const result = await (await client.recognition.create(new Blob([]), { language: 'en' })).json<RecognitionResult>()
  for await (const event of client.events()) console.log(event.id, event.job_id)
  return (await job.download('a.wav')) + state + result.engines.segment_text!.segments.length
}

export function everywhere(apiKey: string): Anywhere {
  return new Anywhere({ baseUrl: 'http://127.0.0.1:8080', apiKey, journal: new WebStore() })
}

export async function refused(client: Tenuto): Promise<void> {
  // @ts-expect-error not one of the languages
  await client.speech.create('Hold.', { lang: 'xx' })
  // @ts-expect-error not a parameter
  await client.speech.create('Hold.', { speed: 2 })
  // @ts-expect-error a number
  await client.images.create('A cat.', { width: '256' })
  // @ts-expect-error only Node has files
  await (await everywhere('').jobs.get('a')).download('a.wav')
}
