// What is told of a picture beside its pixels: the prompt, the model's warnings, what it drew, a seed that can be read.
import { requestOf } from './jobs.ts'
import type { Job } from './types.ts'

// A title is cut here; a longer prompt is read whole.
const TITLE_CHARACTERS = 60
const SEEDS = 1_000_000
const prompts = new Map<string, string>()

/** The whole prompt of a job; empty once it was erased. */
export async function promptOf(job: Job): Promise<string> {
  if (job.title === null) return ''
  if (job.title !== undefined && [...job.title].length < TITLE_CHARACTERS) return job.title
  const known = prompts.get(job.id) ?? (await requestOf(job.id).then((one) => String(one.parameters.prompt), () => ''))
  prompts.set(job.id, known)
  return known
}

/** What the model did otherwise than it was asked to. */
export function warningsOf(job: Job): string[] {
  const told = job.artifacts[0]?.metadata.warnings
  return Array.isArray(told) ? told.map(String) : []
}

/** The things that were drawn, where the model names them. */
export function drawnOf(job: Job): string {
  const told = job.artifacts[0]?.metadata.drawn
  if (!Array.isArray(told)) return ''
  return told.map(({ concept, count }) => (count > 1 ? `${count} × ${concept}` : String(concept))).join(', ')
}

/** A new seed, short enough to be remembered, that is none of these. */
export function freshSeed(taken: readonly string[] = []): string {
  for (;;) {
    const seed = String(crypto.getRandomValues(new Uint32Array(1))[0]! % SEEDS)
    if (!taken.includes(seed)) return seed
  }
}
