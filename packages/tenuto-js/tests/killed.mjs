// A program that kills itself with SIGKILL at a step, or never: node killed.mjs STEP before|after. A step is a request or
// a write of the journal. Run again, it resumes what the journal knows, or begins.
import { access } from 'node:fs/promises'
import { FileStore, Tenuto } from '../dist/node.js'

const [last, when] = [Number(process.argv[2]), process.argv[3]]
let steps = 0

async function step(work) {
  const isLast = ++steps > last
  if (isLast && when === 'before') process.kill(process.pid, 'SIGKILL')
  const outcome = await work()
  if (isLast) process.kill(process.pid, 'SIGKILL')
  return outcome
}

const watched = (held) => ({
  text: held.text, write: (text) => step(() => held.write(text)), remove: () => step(() => held.remove()), release: () => held.release(),
})

class DoomedStore extends FileStore {
  create(name, text) {
    return step(async () => watched(await super.create(name, text)))
  }

  async hold(name) {
    const held = await super.hold(name)
    return held && watched(held)
  }
}

const client = new Tenuto({
  journal: new DoomedStore('journal'), fetch: (...request) => step(() => fetch(...request)),
  clock: { now: () => Date.now(), monotonic: () => performance.now(), sleep: (ms) => new Promise((resolve) => setTimeout(resolve, Math.min(ms, 20))) },
})
const isThere = await access('out.wav').then(() => true, () => false)
const resumed = []
for await (const job of client.resume()) resumed.push(job)
const job = resumed[0] ?? (isThere ? null : await client.speech.create('[fake:sleep=0.1] Hold the note.', { lang: 'en' }))
await job?.download('out.wav')
console.log(JSON.stringify({ steps, resumed: resumed.length }))
