// Several results in one file, sample to sample; each is checked against its size and SHA-256 first.
import { contentOf, load } from 'tenuto/downloads.ts'
import { ContentMismatch, TenutoError } from 'tenuto/errors.ts'
import { link } from './http.ts'
import type { Artifact } from './types.ts'
import { readWav, wavHead } from './wav.ts'

/** One WAV of these artifacts, which are WAVs of one form. */
export async function joined(artifacts: Artifact[], signal: AbortSignal): Promise<Blob> {
  const sounds = []
  for (const artifact of artifacts) {
    const sound = readWav(await (await download(artifact, signal)).arrayBuffer())
    if (sound === null) throw new ContentMismatch(`${artifact.id} is not a WAV`)
    sounds.push(sound)
  }
  const [first] = sounds
  if (first === undefined || sounds.some((one) => one.rate !== first.rate || one.channels !== first.channels)) {
    throw new TenutoError('the pieces differ in rate or channels', 'unjoinable')
  }
  const samples = sounds.reduce((sum, one) => sum + one.samples.length, 0)
  return new Blob([wavHead(samples, first.rate, first.channels), ...sounds.map((one) => one.bytes)], { type: 'audio/wav' })
}

/** An artifact's bytes, which are what the service promised; damaged on the way they are fetched again. */
export async function download(artifact: Artifact, signal: AbortSignal): Promise<Blob> {
  return new Blob([await load(link, contentOf(artifact), artifact, { signal })], { type: artifact.media_type })
}
