// What an account made, summed up for people.
import { micros } from './money.ts'
import type { Entry, Kind } from './types.ts'

export type UsageLine = {
  day: string
  model: string
  kind: Kind | 'embedding'
  jobs: number
  characters: number
  audio_seconds: number
  images: number
  chats: number
  prompt_tokens: number
  completion_tokens: number
  charged: string
}

export type Made = {
  kind: Kind | 'embedding'
  requests: number
  characters: number
  seconds: number
  images: number
  promptTokens: number
  answerTokens: number
  charged: bigint
}

const KINDS = ['speech', 'recognition', 'image', 'chat', 'embedding'] as const
// The service tells no more days at once.
const MOST_DAYS = 92
const DAY_MS = 86_400_000

/** A line for each kind of which anything was made. */
export function madeByKind(lines: readonly UsageLine[]): Made[] {
  return KINDS.map((kind) => {
    const own = lines.filter((line) => line.kind === kind)
    const sum = (of: (line: UsageLine) => number): number => own.reduce((total, line) => total + of(line), 0)
    return {
      kind,
      requests: sum((line) => line.jobs + line.chats),
      characters: sum((line) => line.characters),
      seconds: sum((line) => line.audio_seconds),
      images: sum((line) => line.images),
      promptTokens: sum((line) => line.prompt_tokens),
      answerTokens: sum((line) => line.completion_tokens),
      charged: own.reduce((total, line) => total + micros(line.charged), 0n),
    }
  }).filter((line) => line.requests > 0)
}

/** How many requests were made on each day on which there were any, the first day first. */
export function requestsByDay(lines: readonly UsageLine[]): { day: string; requests: number }[] {
  const days = new Map<string, number>()
  for (const line of lines) days.set(line.day, (days.get(line.day) ?? 0) + line.jobs + line.chats)
  return [...days].map(([day, requests]) => ({ day, requests })).filter(({ requests }) => requests > 0).sort((one, other) => (one.day < other.day ? -1 : 1))
}

/** The first day that may be asked for together with a last one. */
export function firstDay(from: string, to: string): string {
  const earliest = new Date(Date.parse(to) - (MOST_DAYS - 1) * DAY_MS).toISOString().slice(0, 10)
  return from < earliest ? earliest : from
}

/** Entries without the holds of jobs that turned out to be free: such a job is one line. Free jobs are named, too. */
export function calm(entries: readonly Entry[]): { entries: Entry[]; free: ReadonlySet<string> } {
  const moved = (entry: Entry): boolean => [entry.amount, entry.available_change, entry.held_change].some((one) => micros(one) !== 0n)
  const ends = entries.filter((entry) => entry.type !== 'hold' && entry.job_id !== null && !moved(entry))
  const free = new Set(ends.map((entry) => entry.id))
  const jobs = new Set(ends.map((entry) => entry.job_id))
  return { entries: entries.filter((entry) => entry.type !== 'hold' || moved(entry) || !jobs.has(entry.job_id)), free }
}
