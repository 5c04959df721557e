// Chat completions: an answer whole, or as a stream of server-sent events. Knows no jobs.
import { ChatInterrupted, refusal, UnexpectedAnswer } from './errors.ts'
import { ask, call, pathOf, within, type Link, type Request } from './exchange.ts'
import { EventReader } from './sse.ts'
import type { ChatCompletion, ChatParameters } from './types.ts'

// An answer that is not streamed arrives all at once; a stream pauses while the model thinks.
const CHAT_TIMEOUT_S = 600

/** A piece of a streamed answer; the last ones have `finishReason` and `usage`. */
export type ChatChunk = { content: string; finishReason: string | null; usage: ChatCompletion['usage'] | null }

type Chunk = {
  error?: unknown
  choices?: { delta?: { content?: string | null }; finish_reason?: string | null }[]
  usage?: ChatCompletion['usage'] | null
}

/** A whole answer. Never sent again once it may have arrived: it has no idempotency key. */
export async function complete(link: Link, request: ChatParameters, signal?: AbortSignal): Promise<ChatCompletion> {
  const completion = await ask<ChatCompletion>(link, requestOf(request), { signal })
  if (!completion?.choices?.length) throw new UnexpectedAnswer('the answer is not a chat completion')
  return completion
}

/**
 * An answer piece by piece. Throws ChatInterrupted if it breaks off or is silent for ten minutes, and what the service says
 * in the stream.
 */
export async function* streamed(link: Link, request: ChatParameters, signal?: AbortSignal): AsyncGenerator<ChatChunk> {
  const whole = { ...request, stream: true, stream_options: { include_usage: true } }
  const reader = await call(link, requestOf(whole), (answer) => Promise.resolve(answer.body!.getReader()), { signal })
  const leave = (): void => void reader.cancel().catch(() => undefined)
  signal?.addEventListener('abort', leave, { once: true })
  try {
    const [events, decoder] = [new EventReader(), new TextDecoder()]
    for (;;) {
      const { value, done } = await within(CHAT_TIMEOUT_S, reader).catch((error: Error) => {
        throw signal?.aborted ? signal.reason : new ChatInterrupted(`the answer was cut off: ${error.message}`, error.cause)
      })
      signal?.throwIfAborted()
      if (done) throw new ChatInterrupted('the answer was cut off; send the request again')
      for (const { data } of events.take(decoder.decode(value, { stream: true }))) {
        if (data === '[DONE]') return
        if (data !== '') yield chunkOf(data)
      }
    }
  } finally {
    signal?.removeEventListener('abort', leave)
    leave()
  }
}

function requestOf(request: object): Request {
  return {
    method: 'POST', path: pathOf('chat', 'completions'), body: JSON.stringify(request), isRepeatable: false, timeoutS: CHAT_TIMEOUT_S,
  }
}

function chunkOf(data: string): ChatChunk {
  let chunk: Chunk
  try {
    chunk = JSON.parse(data) as Chunk
  } catch (cause) {
    throw new UnexpectedAnswer('an event of the stream is not JSON', { cause })
  }
  if (typeof chunk !== 'object' || chunk === null) throw new UnexpectedAnswer('an event of the stream is not a part of a chat completion')
  if (chunk.error) throw refusal(503, chunk)
  const choice = chunk.choices?.[0]
  return { content: choice?.delta?.content ?? '', finishReason: choice?.finish_reason ?? null, usage: chunk.usage ?? null }
}
