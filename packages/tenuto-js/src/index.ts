/**
 * Tenuto's client: durable speech, recognition and images, and chat, from JavaScript, in browsers and wherever there is
 * fetch. In Node import `tenuto/node`, which also has files, the environment and a journal on disk.
 *
 *     const client = new Tenuto({ baseUrl: 'http://127.0.0.1:8080', apiKey })
 *     const job = await client.speech.create('Hold the note.', { lang: 'en' })
 *     player.src = URL.createObjectURL(await job.blob())
 *
 * It depends on the HTTP contract alone, and on no package.
 */
export { Tenuto, type Options, type Search, type Source } from './client.ts'
export { Job } from './jobs.ts'
export { WebStore } from './browser.ts'
export type { ChatChunk } from './chat.ts'
export type { Downloading } from './downloads.ts'
export type { Clock, Hash } from './exchange.ts'
export type { SpokenSegment, Waiting } from './following.ts'
export { MemoryStore, type Held, type JournalStore } from './journal.ts'
export type { Submitting } from './submission.ts'
export * from './errors.ts'
export * from './types.ts'
