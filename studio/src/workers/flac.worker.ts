// Beside the page's own thread: samples to FLAC, and the SHA-256 of what is uploaded.
import { encodeFlac } from '../lib/flac.ts'
import { Sha256 } from 'tenuto/sha256.ts'
import { toInt16 } from '../lib/wav.ts'
import type { Asked, Told } from './messages.ts'

const tell = (told: Told): void => postMessage(told)

onmessage = async ({ data }: MessageEvent<Asked>) => {
  try {
    if (data.kind === 'encode') encode(data.samples, data.rate)
    else await hash(data.file)
  } catch (error) {
    tell({ kind: 'failed', message: String(error) })
  }
}

function encode(samples: Float32Array, rate: number): void {
  const total = samples.length
  const pieces = encodeFlac(toInt16(samples), rate, (done) => tell({ kind: 'progress', done, total }))
  const sha256 = new Sha256()
  for (const piece of pieces) sha256.update(piece)
  tell({ kind: 'done', file: new Blob(pieces, { type: 'audio/flac' }), sha256: sha256.hex() })
}

async function hash(file: Blob): Promise<void> {
  const sha256 = new Sha256()
  const reader = file.stream().getReader()
  for (let done = 0; ; ) {
    const { value, done: isEnd } = await reader.read()
    if (isEnd) break
    sha256.update(value)
    done += value.length
    tell({ kind: 'progress', done, total: file.size })
  }
  tell({ kind: 'done', file, sha256: sha256.hex() })
}
