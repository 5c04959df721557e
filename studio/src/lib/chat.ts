// One answer of a chat model, word by word. Nothing of a conversation is kept anywhere but in the page.
import { Problem, send } from './http.ts'
import { EventReader } from './sse.ts'

export type Turn = { role: 'system' | 'user' | 'assistant'; content: string }
export type ChatUsage = { prompt_tokens: number; completion_tokens: number; total_tokens: number }
export type Piece = { text: string; usage: ChatUsage | null; reason: string | null }

type Chunk = {
  error?: { code: string; message: string; request_id?: string }
  choices?: { delta?: { content?: string | null }; finish_reason?: string | null }[]
  usage?: ChatUsage | null
}

/** The pieces of an answer as they come. Throws a `Problem` when the stream breaks off or says so itself. */
export async function* answer(
  model: string, messages: Turn[], settings: object, signal: AbortSignal,
): AsyncGenerator<Piece> {
  const body = { model, messages, stream: true, stream_options: { include_usage: true }, ...settings }
  const response = await send('POST', '/web/v1/chat/completions', { body, signal })
  const events = new EventReader()
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
  for (;;) {
    const { value, done } = await reader.read()
    if (done) break
    for (const data of events.take(value)) {
      if (data === '[DONE]') return
      yield pieceOf(JSON.parse(data) as Chunk)
    }
  }
  throw new Problem(0, 'offline', 'the answer broke off')
}

function pieceOf(chunk: Chunk): Piece {
  if (chunk.error) throw new Problem(503, chunk.error.code, chunk.error.message, chunk.error.request_id ?? null)
  const choice = chunk.choices?.[0]
  return { text: choice?.delta?.content ?? '', usage: chunk.usage ?? null, reason: choice?.finish_reason ?? null }
}
