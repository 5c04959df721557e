// How a voice sounds, as far as its record says so.
import { isKey, locale, t } from './i18n.svelte.ts'
import type { Voice } from './types.ts'

/** `female`, `male`, or null where it is not known. */
export function genderOf(voice: Voice): string | null {
  const gender = voice.provenance?.gender
  return typeof gender === 'string' ? gender : null
}

/** Gender and accent in the words of the page: "female, British English". Empty where neither is known. */
export function soundOf(voice: Voice): string {
  const [gender, accent] = [genderOf(voice), voice.provenance?.accent]
  const key = `voice.gender.${gender}`
  return [gender && (isKey(key) ? t(key) : gender), typeof accent === 'string' && accentName(accent)].filter(Boolean).join(', ')
}

function accentName(tag: string): string {
  try {
    return new Intl.DisplayNames([locale()], { type: 'language' }).of(tag) ?? tag
  } catch {
    return tag
  }
}
