// Transcripts as files: what players of subtitles read.
import { describe, expect, it } from 'vitest'
import { asSrt, asText, asVtt, timestamp, type Line } from '../src/lib/transcripts.ts'

const LINES: Line[] = [
  { id: 0, start: 0, end: 1.5, text: ' 大家好。 ', speaker: 'S01', type: 'speech' },
  { id: 1, start: 1.5, end: 3, text: '', speaker: null, type: 'silence' },
  { id: 2, start: 3661.0005, end: 3662.25, text: 'a <b> & c --> d\n\nrest', speaker: null, type: 'speech' },
]

describe('transcripts', () => {
  it('are plain text with speakers, and without what was not said', () => {
    expect(asText(LINES)).toBe('S01: 大家好。\na <b> & c --> d\n\nrest\n')
  })

  it('are SubRip, numbered from one, no cue broken by its own text', () => {
    expect(asSrt(LINES)).toBe(
      '1\n00:00:00,000 --> 00:00:01,500\nS01: 大家好。\n\n' +
        '2\n01:01:01,001 --> 01:01:02,250\na <b> & c → d\nrest\n\n',
    )
  })

  it('are WebVTT with voices, its signs escaped', () => {
    expect(asVtt(LINES)).toBe(
      'WEBVTT\n\n00:00:00.000 --> 00:00:01.500\n<v S01>大家好。\n\n' +
        '01:01:01.001 --> 01:01:02.250\na &lt;b&gt; &amp; c → d\nrest\n\n',
    )
  })

  it('round to the millisecond and carry over', () => {
    expect(timestamp(59.9996, '.')).toBe('00:01:00.000')
    expect(timestamp(7199.999, ',')).toBe('01:59:59,999')
  })
})
