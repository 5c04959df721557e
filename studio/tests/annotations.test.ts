// The lint of readings: what the speech model understands is sound, and near misses say what is wrong.
import { describe, expect, it } from 'vitest'
import { annotations, isSyllable } from '../src/lib/annotations.ts'

const faults = (text: string): (string | null)[] => annotations(text).map((one) => one.fault)

describe('annotations', () => {
  it('are sound in either case, with ü as V, and where they stand is told', () => {
    const [first, second] = annotations('银<行|HANG2>在<绿|lv4>洲')

    expect([first?.fault, first?.start, first?.end]).toEqual([null, 1, 10])
    expect(second?.fault).toBeNull()
    expect(faults('<吕|Lü3><女|NÜ3><地|de5>')).toEqual([null, null, null])
  })

  it('name their fault', () => {
    expect(faults('<行|hang>')).toEqual(['no_tone'])
    expect(faults('<行|hang6>')).toEqual(['no_syllable'])
    expect(faults('<行|hxng2>')).toEqual(['no_syllable'])
    expect(faults('<银行|hang2>')).toEqual(['no_character'])
    expect(faults('<a|hang2>')).toEqual(['no_character'])
    expect(faults('<行 | hang2>')).toEqual(['spaces'])
    expect(faults('＜行｜hang2＞')).toEqual(['shape'])
    expect(faults('〈行|hang2〉')).toEqual(['shape'])
  })

  it('are not seen in what only has brackets or bars', () => {
    expect(annotations('a < b 和 c > d；x|y；<b>粗</b>')).toEqual([])
  })

  it('know the syllables that ü takes part in', () => {
    expect(['jü', 'qv', 'xuan', 'yün', 'lüe', 'nv'].map(isSyllable)).toEqual([true, true, true, true, true, true])
    expect(['lün', 'bv', 'zz'].map(isSyllable)).toEqual([false, false, false])
  })
})
