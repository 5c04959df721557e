// What of two transcripts is marked as different, and which lines face each other.
import { describe, expect, it } from 'vitest'
import { compare, differences, type Row } from '../src/lib/comparison.ts'
import type { Line } from '../src/lib/transcripts.ts'

const line = (start: number, end: number, text: string): Line => ({ id: start, start, end, text })
const shown = (rows: Row[], side: 'left' | 'right'): string[] =>
  rows.map((row) => row[side].map((one) => one.parts.map((part) => (part.isDifferent ? `[${part.text}]` : part.text)).join('')).join(' | '))

describe('two transcripts', () => {
  it('differ in words, not in marks or capitals', () => {
    const rows = compare([line(0, 2, 'Hold the note, for its full value.')], [line(0, 2, 'hold a note for its whole value')])

    expect(shown(rows, 'left')).toEqual(['Hold [the] note, for its [full] value.'])
    expect(shown(rows, 'right')).toEqual(['hold [a] note for its [whole] value'])
    expect(differences(rows)).toBe(2)
  })

  it('differ in characters where words have no spaces', () => {
    const rows = compare([line(0, 2, '音符要唱足它的时值')], [line(0, 2, '因符要唱阻它的实值。')])

    expect(shown(rows, 'left')).toEqual(['[音]符要唱[足]它的[时]值'])
    expect(shown(rows, 'right')).toEqual(['[因]符要唱[阻]它的[实]值。'])
  })

  it('face each other by time, however they are cut, and the words of a line may be in two', () => {
    const rows = compare(
      [line(0, 2, 'one two'), line(2, 4, 'three four'), line(9, 10, '')],
      [line(0, 1, 'one'), line(1, 2, 'two'), line(2.1, 4, 'three five'), line(6, 7, 'alone')],
    )

    expect(shown(rows, 'left')).toEqual(['one two', 'three [four]', '', ''])
    expect(shown(rows, 'right')).toEqual(['one | two', 'three [five]', '[alone]', ''])
  })

  it('are compared stretch by stretch where they are long, and no word is lost', () => {
    const lines = Array.from({ length: 400 }, (_, i) => line(i, i + 0.9, `a${i} b${i} c${i} d${i} e${i}`))
    const rows = compare(lines, lines.map((one) => ({ ...one, text: one.text.replace(/c\d+/, 'x') })))

    expect(differences(rows)).toBe(400)
    expect(shown(rows, 'right')[399]).toBe('a399 b399 [x] d399 e399')
  })

  it('are shown whole where one is empty or they have nothing in common', () => {
    const many = Array.from({ length: 1200 }, (_, i) => `w${i}`).join(' ')

    expect(shown(compare([line(0, 1, 'only here')], []), 'left')).toEqual(['[only here]'])
    expect(differences(compare([line(0, 1, many)], [line(0, 1, many.replaceAll('w', 'v'))]))).toBe(0)
    expect(compare([], [])).toEqual([])
  })
})
