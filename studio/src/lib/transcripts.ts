// Transcripts as files: plain text, SubRip, WebVTT. The result's own JSON is the fourth and needs nothing from here.

export type Line = { id: number; start: number; end: number; text: string; speaker?: string | null; type?: string }
export type Engine = { model_id: string; model_revision: string; language?: string | null; segments: Line[] }
export type Recognition = {
  schema_version: number
  audio: { duration_seconds: number }
  parts: { index: number; start: number; end: number }[]
  warnings: string[]
  engines: { segment_text?: Engine; word_timestamps?: Engine }
}

/** One line a segment, with the speaker where he is known. */
export function asText(lines: readonly Line[]): string {
  return spoken(lines).map((line) => `${speakerOf(line)}${line.text.trim()}\n`).join('')
}

/** SubRip: numbers from 1, a comma before the milliseconds. */
export function asSrt(lines: readonly Line[]): string {
  return spoken(lines)
    .map((line, i) => `${i + 1}\n${span(line, ',')}\n${speakerOf(line)}${cueText(line.text)}\n\n`)
    .join('')
}

/** WebVTT: speakers as voice tags. */
export function asVtt(lines: readonly Line[]): string {
  const cues = spoken(lines).map((line) => {
    const voice = line.speaker ? `<v ${line.speaker}>` : ''
    return `${span(line, '.')}\n${voice}${escaped(cueText(line.text))}\n\n`
  })
  return `WEBVTT\n\n${cues.join('')}`
}

/** Hours, minutes, seconds and milliseconds: `01:02:03.004`. */
export function timestamp(seconds: number, point: string): string {
  const ms = Math.round(seconds * 1000)
  const parts = [Math.floor(ms / 3_600_000), Math.floor(ms / 60_000) % 60, Math.floor(ms / 1000) % 60]
  return parts.map((part) => String(part).padStart(2, '0')).join(':') + point + String(ms % 1000).padStart(3, '0')
}

function spoken(lines: readonly Line[]): Line[] {
  return lines.filter((line) => line.text.trim() !== '')
}

function span(line: Line, point: string): string {
  return `${timestamp(line.start, point)} --> ${timestamp(line.end, point)}`
}

function speakerOf(line: Line): string {
  return line.speaker ? `${line.speaker}: ` : ''
}

/** An empty line would end the cue, and an arrow would be taken for its times. */
function cueText(text: string): string {
  return text.trim().replace(/\n\s*\n/g, '\n').replaceAll('-->', '→')
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}
