// Speech settings: what the service is sent, and the way back from a job that was made.
import { describe, expect, it } from 'vitest'
import { utf8Length } from '../src/lib/bytes.ts'
import { DEFAULTS, durationFactorOf, fromParameters, speedOf, toParameters, type Settings } from '../src/lib/speech.ts'

const settings = (given: Partial<Settings>): Settings => ({ ...DEFAULTS, vector: [...DEFAULTS.vector], ...given })

describe('speech settings', () => {
  it('send nothing that is as it would be anyway', () => {
    expect(toParameters(settings({ text: ' 你好 ' }))).toEqual({ text: '你好', lang: 'zh', stream: true })
  })

  it('never send two ways of emotion', () => {
    const filled = { text: 'a', reference: 'voice_1', vector: [1, 0, 0, 0, 0, 0, 0, 0], emoText: 'glad', alpha: 0.5 }
    const ways = (['none', 'reference', 'vector', 'text'] as const).map((mode) => toParameters(settings({ ...filled, mode })))
    const named = ways.map((one) => ['emotion_voice_id', 'emo_vector', 'use_emo_text'].filter((name) => name in one))

    expect(named).toEqual([[], ['emotion_voice_id'], ['emo_vector'], ['use_emo_text']])
    expect(ways.map((one) => 'emo_text' in one)).toEqual([false, false, false, true])
    expect(ways[0]).not.toHaveProperty('emo_alpha')
  })

  it('come back from the parameters that they were sent as', () => {
    const all = settings({
      text: 'Hold the note.', lang: 'en', voice: 'voice_1', mode: 'vector', vector: [0.1, 0, 0, 0, 0, 0, 0.5, 0], alpha: 0.3,
      useRandom: true, durationFactor: 1.2, silence: 0, segmentTokens: 20, normalise: false, doSample: false, topP: 0.5,
      topK: 3, temperature: 1.1, repetitionPenalty: 2,
    })

    expect(fromParameters(toParameters(all))).toEqual(all)
  })

  it('name the speed as people do: larger is faster, and every step comes back as itself', () => {
    const steps = Array.from({ length: 31 }, (_, i) => Math.round((0.5 + i * 0.05) * 100) / 100)

    expect([durationFactorOf(2), durationFactorOf(1), durationFactorOf(0.5)]).toEqual([0.5, 1, 2])
    expect(steps.map((speed) => speedOf(durationFactorOf(speed)))).toEqual(steps)
  })

  it('count bytes of UTF-8', () => {
    expect([utf8Length('a'), utf8Length('é'), utf8Length('行'), utf8Length('😀'), utf8Length('\ud800')]).toEqual([1, 2, 3, 4, 3])
  })
})
