// One answer of a chat model, word by word. Nothing of a conversation is kept anywhere but in the page.
import { streamed } from 'tenuto/chat.ts'
import type { ChatParameters } from 'tenuto/types.ts'
import { link } from './http.ts'

export type Turn = { role: 'system' | 'user' | 'assistant'; content: string }
export type ChatUsage = { prompt_tokens: number; completion_tokens: number; total_tokens: number }
export type Piece = { text: string; usage: ChatUsage | null; reason: string | null }

/** The pieces of an answer as they come. Throws a `Problem` when the stream breaks off or says so itself. */
export async function* answer(
  model: string, messages: Turn[], settings: object, signal: AbortSignal,
): AsyncGenerator<Piece> {
  const request: ChatParameters = { model, messages, ...settings }
  for await (const { content, usage, finishReason } of streamed(link, request, signal)) {
    yield { text: content, usage, reason: finishReason }
  }
}
