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
  created_at: number
}

export type OperatedModel = Model & { engine_state?: string | null }

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
  beat_age_s: number
  models: string[]
}

export type RecoveryLine = {
  id: string
  account_id: string
  kind: string
  model: string
  created_at: number
  attempt: number
}
