// What the service answers, as openapi.yaml has it; of models, voices and what is the studio's own, only what the pages read.

import { isPending, type Operation } from 'tenuto/types.ts'

export type { Artifact, Balance, Event, LedgerEntry as Entry, Operation as Job, State } from 'tenuto/types.ts'
export type Kind = Operation['kind'] | 'chat'

export type Page<T> = { data: T[]; next_cursor?: string }

export type Model = {
  id: string
  kind: Kind | 'embedding'
  interface: 'jobs' | 'chat' | 'embeddings'
  callable: boolean
  callable_reason: string | null
  languages: string[]
  /** `output_price`: only of tokens; `price` is then that of the input. */
  pricing: { unit: string; price: string; hold: string; output_price?: string }
  engines: { model_id: string; model_revision: string }[]
  honoured_parameters: string[]
  /** Null: not known. */
  parameter_count?: number | null
  /** It only shows that the service works. */
  demo?: boolean
  /** What to know before using it, in English. */
  notes: string[]
}

export type Voice = {
  voice_id: string
  name: string
  kind: 'shared' | 'official' | 'emotion' | 'own'
  languages: string[]
  default_parameters: Record<string, unknown>
  provenance: Record<string, unknown> | null
  audio: { duration_ms: number; sample_rate: number; channels: number; size_bytes: number }
  created_at: number
}

export type ApiKey = {
  id: string
  name: string
  prefix: string
  last_four: string
  models: string[] | null
  /** Its restriction cannot be read: it is refused. */
  damaged: boolean
  expires_at: number | null
  revoked_at: number | null
  last_used_at: number | null
  created_at: number
}

export type Session = {
  signed_in: boolean
  account: { id: string; name: string; operator: boolean } | null
  registration: 'open' | 'invite' | 'closed'
  setup_needed: boolean
  /** What an account begins with; only where everybody may make one, and at the first set-up. */
  initial_credit_micros?: number
  /** `free`: nothing costs anything, and no page shows money. Not told to strangers who may not make an account. */
  prices?: 'contract' | 'free'
  /** Whether the operator allows them. Only for who is signed in. */
  webhooks?: boolean
  /** Another one: the service was replaced, and the parts of this page have other names there. */
  build: string
  /** Only for who is signed in. */
  version?: string
}

/** States after which nothing changes any more; one that is not known counts as such. */
export function isFinal(state: string): boolean {
  return !isPending(state)
}
