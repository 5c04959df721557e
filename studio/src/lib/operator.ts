// What only operators read.
import type { Model } from './types.ts'

export type AccountLine = {
  id: string
  name: string
  available_micros: number
  held_micros: number
  suspended: boolean
  operator: boolean
  models: string[] | null
  /** Its restriction cannot be read: its keys are refused until it is set again. */
  damaged: boolean
  created_at: number
  /** Whether its password has been set, and whether an invitation to set it is open. */
  signs_in: boolean
  invited: boolean
}

/** A link to set a password, in an account of which nothing else has changed. */
export type Invited = { id: string; name: string; invitation_path: string }

/** One word for an account, as the service's filter has it. */
export function stateOf(account: AccountLine): 'active' | 'invited' | 'programs' | 'suspended' {
  if (account.suspended) return 'suspended'
  if (account.signs_in) return 'active'
  return account.invited ? 'invited' : 'programs'
}

type Offer = { worker_id: string; start_failures: number; reason: string | null }
export type OperatedModel = Model & {
  workers: Offer[]
  /** Whether the operator lets it be used. */
  enabled: boolean
  /** The price that was set in the studio; null: that of the settings file. */
  price_micros: number | null
  settings_price: string
  may_be_priced: boolean
}

export type ModelChange = {
  id: string
  model: string
  operator: string
  enabled: boolean
  price_micros: number | null
  at: number
}

/** The last pull of a model's weights to the machine that answers. */
export type Pull = { host: string } & (
  | { state: 'none'; model: null }
  | {
      state: 'running' | 'done' | 'failed' | 'stopped'
      model: string
      done_bytes: number
      /** 0 where it is not known yet. */
      total_bytes: number
      stage: string
      reason: string | null
    }
)

export type QueueState = {
  queued: Record<string, number>
  running: Record<string, number>
  slots: Record<string, number>
  oldest_queued_at: number | null
}

export type WorkerLine = {
  id: string
  host: string
  pid: number
  started_at: number
  seen_s_ago: number
  models: { model: string; start_failures: number; reason: string | null }[]
  /** Every model that it was to run; a reason says why it does not. */
  abilities: { model: string; memory_mib: number; reason: string | null }[]
  /** The engines that are loaded, and the MiB that each takes. */
  engines: Record<string, number>
  /** What they may take together; 0: any. */
  engine_memory_mib: number
}

type Tally = {
  finished: number
  succeeded: number
  failed: number
  charged_micros: number
  /** Percentiles; null where nothing ended. */
  wait_p50_ms: number | null
  wait_p95_ms: number | null
  run_p50_ms: number | null
  run_p95_ms: number | null
}

export type Statistics = {
  from: number
  most_jobs: number
  /** Since when it is all jobs; later than `from` where there were too many. */
  complete_from: number
  slots: (Tally & { at: number; queued: number })[]
  models: (Tally & { model: string })[]
  days: { day: string; jobs: number; charged_micros: number }[]
}

export type LogEvents = {
  data: { at: string; level: string; event: string; keys: Record<string, string> }[]
  process: { host: string; pid: number }
  remembers: number
}

export type RecoveryLine = {
  id: string
  account_name: string
  model: string
  created_at: number
  reason: string | null
}
