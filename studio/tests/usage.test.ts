// Usage summed up by kind, and a ledger in which a job that was free is one line.
import { describe, expect, it } from 'vitest'
import type { Entry } from '../src/lib/types.ts'
import { calm, firstDay, madeByKind, requestsByDay, type UsageLine } from '../src/lib/usage.ts'

const NOTHING = { day: '2026-11-01', model: 'a/b', jobs: 0, characters: 0, audio_seconds: 0, images: 0, chats: 0, prompt_tokens: 0, completion_tokens: 0, charged: '0.000000' }

describe('usage', () => {
  it('is summed up by kind, chats too', () => {
    const lines = [
      { ...NOTHING, kind: 'chat', chats: 2, prompt_tokens: 30, completion_tokens: 5 },
      { ...NOTHING, kind: 'speech', jobs: 1, characters: 10, audio_seconds: 50, charged: '0.000001' },
      { ...NOTHING, kind: 'speech', jobs: 2, characters: 20, audio_seconds: 40, charged: '1.000000' },
    ] as UsageLine[]

    expect(madeByKind(lines).map((line) => [line.kind, line.requests, line.characters, line.seconds, line.promptTokens, line.answerTokens, line.charged])).toEqual([
      ['speech', 3, 30, 90, 0, 0, 1_000_001n], ['chat', 2, 0, 0, 30, 5, 0n],
    ])
  })

  it('is counted by day, in their order, without empty ones', () => {
    const lines = [
      { ...NOTHING, day: '2026-11-02', kind: 'chat', chats: 2 },
      { ...NOTHING, day: '2026-11-03', kind: 'image' },
      { ...NOTHING, kind: 'speech', jobs: 1 },
      { ...NOTHING, day: '2026-11-02', kind: 'speech', jobs: 3 },
    ] as UsageLine[]

    expect(requestsByDay(lines)).toEqual([{ day: '2026-11-01', requests: 1 }, { day: '2026-11-02', requests: 5 }])
  })

  it('is asked for no more days than the service tells', () => {
    expect([firstDay('2026-01-01', '2026-11-23'), firstDay('2026-11-01', '2026-11-23')]).toEqual(['2026-08-24', '2026-11-01'])
  })
})

describe('the ledger', () => {
  const entry = (id: string, type: Entry['type'], job: string | null, amount: string): Entry => ({
    object: 'ledger_entry', id, type, job_id: job, call_id: null, amount, currency: 'CNY', available_change: amount, held_change: amount, created_at: 0,
  })

  it('has one line for a free job, and all lines of others', () => {
    const entries = [
      entry('5', 'settle', 'paid', '0.050000'), entry('4', 'settle', 'free', '0.000000'), entry('3', 'hold', 'free', '0.000000'),
      entry('2', 'hold', 'paid', '0.050000'), entry('1', 'hold', 'running', '0.000000'), entry('0', 'credit', null, '0.000000'),
    ]
    const { entries: shown, free } = calm(entries)

    expect([shown.map((one) => one.id), [...free]]).toEqual([['5', '4', '2', '1', '0'], ['4']])
  })
})
