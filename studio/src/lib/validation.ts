// What a field lacks, in the language of the page and below the field, instead of in the browser's own bubbles.
import { t } from './i18n.svelte.ts'

type Field = HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement
const NOTE = 'field-fault'

/** Explains invalid fields of every form. Call it once. */
export function explainFields(): void {
  document.addEventListener('invalid', explain, true)
  document.addEventListener('input', forget, true)
  document.addEventListener('change', forget, true)
}

/** What is wrong with a field, as a sentence. */
export function faultOf(field: Field): string {
  const is = field.validity
  if (is.valueMissing) return t(`field.missing.${missingOf(field)}`)
  if (is.badInput) return t('field.number')
  if (is.tooShort) return t('field.short', { min: (field as HTMLInputElement).minLength, n: field.value.length })
  if (is.rangeUnderflow) return t('field.least', { min: (field as HTMLInputElement).min })
  if (is.rangeOverflow) return t('field.most', { max: (field as HTMLInputElement).max })
  if (is.stepMismatch) return t('field.step', { step: (field as HTMLInputElement).step || 1 })
  return field.title || t('field.other')
}

/** The step of a field's arrows; what a program has set may lie between two steps, and is no fault of the reader's. */
export function stepOf(value: number | null, step: number, least: number): number | 'any' {
  const steps = ((value ?? least) - least) / step
  return Math.abs(steps - Math.round(steps)) < 1e-6 ? step : 'any'
}

function missingOf(field: Field): 'text' | 'check' | 'file' | 'choice' {
  if (field instanceof HTMLSelectElement || field.type === 'radio') return 'choice'
  return field.type === 'checkbox' ? 'check' : field.type === 'file' ? 'file' : 'text'
}

function explain(event: Event): void {
  const field = event.target as Field
  event.preventDefault()
  clear(field)
  const note = document.createElement('small')
  note.className = NOTE
  note.textContent = faultOf(field)
  field.setAttribute('aria-invalid', 'true')
  // In its label it is part of the field's name, and read with it.
  if (field.closest('label')) field.closest('label')!.append(note)
  else field.after(note)
  // No browser focuses a field in a collapsed section, so the button would seem to do nothing.
  for (let fold = field.closest('details'); fold; fold = fold.parentElement!.closest('details')) fold.open = true
  // The browser asks every field of a form in turn; the first that is wrong gets the focus.
  const fields = [...(field.form?.elements ?? [])] as Field[]
  if (fields.find((one) => one.willValidate && !one.validity.valid) === field) field.focus()
}

function forget(event: Event): void {
  const field = event.target as Field
  if (field.validity?.valid) clear(field)
}

function clear(field: Field): void {
  const place = field.closest('label') ?? field.parentElement
  const old = place?.querySelector(`.${NOTE}`)
  if (!old) return
  old.remove()
  field.removeAttribute('aria-invalid')
}
