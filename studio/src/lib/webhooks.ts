// What the page of webhooks knows. Its messages are loaded with it: no other page needs them.
import { also } from './i18n.svelte.ts'

export const EVENTS = ['job.succeeded', 'job.failed', 'job.cancelled', 'job.recovery_required', 'balance.low'] as const
export type Event = (typeof EVENTS)[number]

export type Webhook = {
  id: string
  url: string
  events: Event[]
  description: string
  enabled: boolean
  /** Why the service disabled it; null where its owner did. */
  disabled_because: string | null
  failing_since: number | null
  created_at: number
  /** Only in the answer that makes it, or rotates it. */
  secret?: string
}

export type Delivery = {
  id: string
  message_id: string
  type: string
  state: 'pending' | 'delivered' | 'failed'
  attempts: number
  next_attempt_at: number | null
  status: number | null
  error: string | null
  created_at: number
}

/** The path of a webhook, and of what is below it. */
export function pathOf(webhook: Webhook, below = ''): string {
  return `/web/v1/webhooks/${encodeURIComponent(webhook.id)}${below}`
}

await also({ zh: () => import('../messages/webhooks.zh.json'), en: () => import('../messages/webhooks.en.json') })
