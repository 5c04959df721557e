// The records of the service under their own names. `openapi.ts`, which they come from, is generated from openapi.yaml.
import type { components } from './openapi.ts'

type Schemas = components['schemas']

/** A job as the service last reported it. */
export type Operation = Schemas['Operation']
export type State = Schemas['State']
export type Kind = Schemas['Kind']
/** A file that never changes: a download is correct if its size and SHA-256 match these. */
export type Artifact = Schemas['Artifact']
/** One event in the history of a job. */
export type Event = Schemas['Event']
/** An event as it happens, with its job; `id` is what a later reader gives as `after`. */
export type LiveEvent = Schemas['LiveEvent'] & { id: string }
/** A piece of speech; it never changes once it is listed. */
export type Segment = Schemas['Segment']
export type Voice = Schemas['Voice']
export type VoicePreference = Schemas['VoicePreference']
export type VoicePreferences = Schemas['VoicePreferenceList']
/** `id` is a value for `model`; `callable` is false while it takes no new work. */
export type Model = Schemas['Model']
export type Balance = Schemas['Balance']
export type LedgerEntry = Schemas['LedgerEntry']
export type UsageLine = Schemas['UsageLine']
export type JobRequest = Schemas['JobRequest']
/** The JSON that a recognition makes. */
export type RecognitionResult = Schemas['RecognitionResult']
export type ChatMessage = Schemas['ChatMessage']
export type ChatRequest = Schemas['ChatRequest']
export type ChatCompletion = Schemas['ChatCompletion']

/** What the service takes beside the parameters of every kind. */
type Common = { model?: string; metadata?: Record<string, string> }
/** The parameters of speech, and the model. Without `model` the first callable one is taken. */
export type SpeechParameters = Omit<Schemas['SpeechParameters'], 'text'> & Common
export type RecognitionParameters = Schemas['RecognitionParameters'] & Common
/** `seed` has up to 63 bits: give a larger one than 2^53 as a bigint or a string of digits. */
export type ImageParameters = Omit<Schemas['ImageParameters'], 'prompt' | 'seed'> & Common & { seed?: number | bigint | string }
/** Chat parameters; `model` may be left out. */
export type ChatParameters = Omit<ChatRequest, 'model' | 'stream' | 'stream_options'> & { model?: string }

/** The states of an unfinished job; every other state, known or not, is treated as final. */
const PENDING: readonly string[] = ['submitting', 'queued', 'running']

/** Whether to read a job again. */
export function isPending(state: string): boolean {
  return PENDING.includes(state)
}

/** What each kind of job makes. */
export const RESULT_TYPES: Record<string, string> = {
  speech: 'audio/wav', recognition: 'application/json', image: 'image/png',
}
