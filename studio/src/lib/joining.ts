// Several results in one file, sample to sample; each is checked against its size and SHA-256 first.
import { Problem, send } from './http.ts'
import { artifactPath, persist } from './jobs.ts'
import { hash } from './sound.ts'
import type { Artifact } from './types.ts'
import { readWav, wavHead } from './wav.ts'

const TRIES = 3

/** One WAV of these artifacts, which are WAVs of one form. */
export async function joined(artifacts: Artifact[], signal: AbortSignal): Promise<Blob> {
  const sounds = []
  for (const artifact of artifacts) {
    const sound = readWav(await (await download(artifact, signal)).arrayBuffer())
    if (sound === null) throw damaged(artifact)
    sounds.push(sound)
  }
  const [first] = sounds
  if (first === undefined || sounds.some((one) => one.rate !== first.rate || one.channels !== first.channels)) {
    throw new Problem(0, 'unjoinable', 'the pieces differ in rate or channels')
  }
  const samples = sounds.reduce((sum, one) => sum + one.samples.length, 0)
  return new Blob([wavHead(samples, first.rate, first.channels), ...sounds.map((one) => one.bytes)], { type: 'audio/wav' })
}

/** An artifact's bytes, which are what the service promised; damaged on the way they are fetched again. */
export async function download(artifact: Artifact, signal: AbortSignal): Promise<Blob> {
  for (let tried = 1; ; tried++) {
    const blob = await persist(async () => (await send('GET', artifactPath(artifact.id), { signal })).blob(), signal)
    const isWhole = blob.size === artifact.size_bytes && (await hash(blob, () => undefined, signal)).sha256 === artifact.sha256
    if (isWhole) return blob
    if (tried === TRIES) throw damaged(artifact)
  }
}

function damaged(artifact: Artifact): Problem {
  return new Problem(0, 'damaged_download', `${artifact.id} is not what was promised`)
}
