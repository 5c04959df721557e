// Sizes, lengths and moments as people read them.
import { locale } from './i18n.svelte.ts'

/** 1234567 bytes as 1.18 MiB. */
export function size(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB']
  let unit = 0
  for (; bytes >= 1024 && unit < units.length - 1; unit++) bytes /= 1024
  return `${unit === 0 ? bytes : bytes.toFixed(bytes < 10 ? 2 : 1)} ${units[unit]}`
}

/** 83.4 seconds as 1:23.4, 3700 as 1:01:40.0. */
export function clock(seconds: number): string {
  const tenths = Math.round(seconds * 10)
  const minutes = Math.floor(tenths / 600)
  const rest = `${String(Math.floor((tenths % 600) / 10)).padStart(2, '0')}.${tenths % 10}`
  return minutes < 60 ? `${minutes}:${rest}` : `${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, '0')}:${rest}`
}

/** A moment of the service, which counts seconds, in the reader's own time. */
export function moment(seconds: number): string {
  return new Intl.DateTimeFormat(locale(), { dateStyle: 'medium', timeStyle: 'medium' }).format(seconds * 1000)
}

/** The same, shorter, for tables: the year only where it is another one, and the month never as a bare number. */
export function shortMoment(seconds: number): string {
  const isOfThisYear = new Date(seconds * 1000).getFullYear() === new Date().getFullYear()
  const form = { month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit' } as const
  return new Intl.DateTimeFormat(locale(), isOfThisYear ? form : { ...form, year: 'numeric' }).format(seconds * 1000)
}

const STEPS = [['day', 86_400], ['hour', 3600], ['minute', 60]] as const
const MOST_DAYS = 7

/** How long before `now` (milliseconds) a moment was: "3 min ago"; after a week the moment itself. */
export function ago(seconds: number, now: number): string {
  const passed = Math.max(0, now / 1000 - seconds)
  if (passed >= MOST_DAYS * 86_400) return shortMoment(seconds)
  const form = new Intl.RelativeTimeFormat(locale(), { numeric: 'auto', style: 'short' })
  for (const [unit, length] of STEPS) if (passed >= length) return form.format(-Math.floor(passed / length), unit)
  return form.format(0, 'second')
}

/** Today where the reader is, as a field for days has it. */
export function today(): string {
  const now = new Date()
  return [now.getFullYear(), now.getMonth() + 1, now.getDate()].map((part) => String(part).padStart(2, '0')).join('-')
}

/** A whole number with its groups. */
export function count(value: number): string {
  return new Intl.NumberFormat(locale()).format(value)
}

/** Seconds as people say them of what is still to come: whole ones, or minutes. */
export function span(seconds: number): string {
  const [value, unit] = seconds < 90 ? [Math.max(1, Math.ceil(seconds)), 'second'] : [Math.round(seconds / 60), 'minute']
  return new Intl.NumberFormat(locale(), { style: 'unit', unit: unit as string, unitDisplay: 'long' }).format(value as number)
}
