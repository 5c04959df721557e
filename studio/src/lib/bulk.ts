// What is done with many jobs at once: their results in one file, or their contents erased. One after the other, so that
// nothing else has to wait.
import { call } from './http.ts'
import { fileName, jobPath, patiently } from './jobs.ts'
import { download } from './joining.ts'
import { save } from './save.ts'
import type { Job } from './types.ts'
import { zipOf, type Entry } from './zip.ts'

// The browser holds an archive until it is saved.
const MOST_BYTES = 1 << 30

/** Called before each: it is the n-th of so many. */
type Tell = (n: number, total: number) => void

/**
 * Saves the results of the jobs, several as ZIP archives of at most a gibibyte; each was what the service promised. What
 * failed first is thrown, after all others were saved.
 */
export async function saveAll(jobs: Job[], tell: Tell, signal: AbortSignal): Promise<number> {
  const results = jobs.flatMap((job) => job.artifacts.map((artifact) => ({ job, artifact })))
  let [entries, bytes, archives]: [Entry[], number, number] = [[], 0, 0]
  const problems: unknown[] = []
  const finish = async (): Promise<void> => {
    archives += 1
    save(await zipOf(entries), archives === 1 ? 'tenuto.zip' : `tenuto-${archives}.zip`)
  }
  for (const [i, { job, artifact }] of results.entries()) {
    tell(i + 1, results.length)
    if (bytes > 0 && bytes + artifact.size_bytes > MOST_BYTES) {
      await finish()
      ;[entries, bytes] = [[], 0]
    }
    const content = await download(artifact, signal).catch((error: unknown) => void problems.push(error))
    signal.throwIfAborted()
    if (!content) continue
    bytes += artifact.size_bytes
    entries.push({ name: fileName(job, artifact), content, at: new Date((job.finished_at ?? job.created_at) * 1000) })
  }
  const [only] = entries
  if (only && results.length === 1) save(only.content, only.name)
  else if (only) await finish()
  if (problems.length) throw problems[0]
  return results.length
}

/** Erases the contents of the jobs; each is given back as it is then. What failed first is thrown, after all were tried. */
export async function eraseAll(jobs: Job[], tell: Tell, signal: AbortSignal, erased: (job: Job) => void): Promise<void> {
  const problems: unknown[] = []
  for (const [i, job] of jobs.entries()) {
    tell(i + 1, jobs.length)
    const erase = (): Promise<Job> => call('DELETE', `${jobPath(job.id)}/content`, { signal })
    await patiently(erase, signal).then(erased, (error: unknown) => problems.push(error))
    if (signal.aborted) return
  }
  if (problems.length) throw problems[0]
}
