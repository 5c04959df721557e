// A service by script, for `fetch`: each request gets the next reply; and a clock that passes where it is waited for.
import { createHash } from 'node:crypto'

export const JOB = 'job_01jd4k0a3v6c8e9g2h5m7n0p1q'
export const SOUND = Buffer.concat([Buffer.from('RIFF'), Buffer.alloc(70_000, 7)])
export const ARTIFACT = {
  id: 'artifact_01jd4k0f5t8x0z2b4d6f8h0k2m', media_type: 'audio/wav', size_bytes: SOUND.length,
  sha256: createHash('sha256').update(SOUND).digest('hex'), metadata: {},
}

export function scripted(...replies) {
  const requests = []
  const answer = async (address, init) => {
    requests.push({ method: init.method, path: address.replace('http://there', ''), headers: init.headers, body: init.body })
    const reply = replies.shift()
    if (reply === undefined) throw new Error(`nobody expected ${init.method} ${address}`)
    if (reply instanceof Error) throw reply
    return typeof reply === 'function' ? reply(init) : reply
  }
  return { fetch: answer, requests, replies }
}

export function virtualClock() {
  const clock = {
    slept: [],
    passed: 0,
    // How far the time of day has been corrected.
    corrected: 0,
    now: () => 1_700_000_000_000 + clock.passed + clock.corrected,
    monotonic: () => clock.passed,
    sleep: async (ms, signal) => {
      signal?.throwIfAborted()
      if (ms > 0) clock.slept.push(ms / 1000)
      clock.passed += Math.max(0, ms)
    },
  }
  return clock
}

export function reply(status, document, headers = {}) {
  return new Response(document === undefined ? null : JSON.stringify(document), { status, headers })
}

export function operation(state, more = {}) {
  return { id: JOB, kind: 'speech', model: 'fake/speech', state, artifacts: [], error: null, ...more }
}

export const queued = (headers = {}) => reply(202, operation('queued'), headers)
export const succeeded = () => reply(200, operation('succeeded', { artifacts: [ARTIFACT] }))
export const content = (bytes = SOUND, more = {}) =>
  new Response(bytes, { status: more.status ?? 200, headers: { 'Content-Type': 'audio/wav', ...more.headers } })

/** A body that breaks off behind these bytes, as fetch reports it. */
export function brokenOff(bytes) {
  let isSent = false
  const body = new ReadableStream({
    pull(controller) {
      if (isSent) return controller.error(new TypeError('terminated'))
      isSent = true
      controller.enqueue(new Uint8Array(bytes))
    },
  })
  return new Response(body, { headers: { 'Content-Type': 'audio/wav' } })
}

export function lost(code = 'ECONNRESET') {
  return Object.assign(new TypeError('fetch failed'), { cause: Object.assign(new Error(code), { code }) })
}
