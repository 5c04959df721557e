// WAV files with 16-bit samples: reading the service's, writing what was recorded. Knows no AudioContext.

/** `bytes` are the samples as they are in the file. */
export type Wav = { rate: number; channels: number; samples: Int16Array; bytes: Uint8Array<ArrayBuffer> }

const PCM = 1
const EXTENSIBLE = 0xfffe
const HEAD_BYTES = 44

/** The samples of a PCM16 WAV, channels interleaved; null for anything else. */
export function readWav(bytes: ArrayBuffer): Wav | null {
  const view = new DataView(bytes)
  if (bytes.byteLength < 12 || tag(view, 0) !== 'RIFF' || tag(view, 8) !== 'WAVE') return null
  let format: { rate: number; channels: number } | null = null
  for (let at = 12; at + 8 <= bytes.byteLength; ) {
    const size = view.getUint32(at + 4, true)
    const name = tag(view, at)
    if (name === 'fmt ') format = readFormat(view, at + 8, size)
    if (name === 'data') {
      if (format === null) return null
      const end = Math.min(at + 8 + size, bytes.byteLength)
      const data = bytes.slice(at + 8, end - ((end - at) % 2))
      return { ...format, samples: littleEndian(data), bytes: new Uint8Array(data) }
    }
    at += 8 + size + (size % 2)
  }
  return null
}

function readFormat(view: DataView, at: number, size: number): { rate: number; channels: number } | null {
  if (size < 16 || at + size > view.byteLength) return null
  const code = view.getUint16(at, true)
  if ((code !== PCM && code !== EXTENSIBLE) || view.getUint16(at + 14, true) !== 16) return null
  return { rate: view.getUint32(at + 4, true), channels: view.getUint16(at + 2, true) }
}

/** A PCM16 WAV of these samples, channels interleaved. */
export function writeWav(samples: Int16Array, rate: number, channels = 1): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(HEAD_BYTES + samples.length * 2)
  bytes.set(wavHead(samples.length, rate, channels))
  const view = new DataView(bytes.buffer)
  samples.forEach((sample, i) => view.setInt16(HEAD_BYTES + i * 2, sample, true))
  return bytes
}

/** What stands before so many samples, those of all channels counted, in a PCM16 WAV. */
export function wavHead(samples: number, rate: number, channels = 1): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(HEAD_BYTES)
  const view = new DataView(bytes.buffer)
  const words = (at: number, text: string): void => [...text].forEach((c, i) => view.setUint8(at + i, c.charCodeAt(0)))
  words(0, 'RIFF')
  view.setUint32(4, HEAD_BYTES - 8 + samples * 2, true)
  words(8, 'WAVEfmt ')
  view.setUint32(16, 16, true)
  view.setUint16(20, PCM, true)
  view.setUint16(22, channels, true)
  view.setUint32(24, rate, true)
  view.setUint32(28, rate * channels * 2, true)
  view.setUint16(32, channels * 2, true)
  view.setUint16(34, 16, true)
  words(36, 'data')
  view.setUint32(40, samples * 2, true)
  return bytes
}

/** Samples from -1 to 1 as 16-bit ones; 32768 each way, so that what was 16 bits comes back as it was. */
export function toInt16(samples: Float32Array): Int16Array {
  const out = new Int16Array(samples.length)
  for (let i = 0; i < samples.length; i++) {
    out[i] = Math.max(-32768, Math.min(32767, Math.round((samples[i] ?? 0) * 32768)))
  }
  return out
}

/** 16-bit samples from -1 to 1. */
export function toFloat32(samples: Int16Array): Float32Array<ArrayBuffer> {
  const out = new Float32Array(samples.length)
  for (let i = 0; i < samples.length; i++) out[i] = (samples[i] ?? 0) / 32768
  return out
}

function tag(view: DataView, at: number): string {
  return String.fromCharCode(...new Uint8Array(view.buffer, view.byteOffset + at, 4))
}

function littleEndian(bytes: ArrayBuffer): Int16Array {
  if (new Uint8Array(new Uint16Array([1]).buffer)[0] === 1) return new Int16Array(bytes)
  const view = new DataView(bytes)
  return Int16Array.from({ length: bytes.byteLength / 2 }, (_, i) => view.getInt16(i * 2, true))
}
