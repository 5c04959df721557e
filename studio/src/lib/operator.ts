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

type Offer = { worker_id: string; start_failures: number; reason: string | null }
export type OperatedModel = Model & { workers: Offer[] }

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

export type RecoveryLine = {
  id: string
  account_name: string
  model: string
  created_at: number
  reason: string | null
}
