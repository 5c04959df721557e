// Readings that a writer gives to a character, `<行|HANG2>`: which are sound, and what is wrong with the others.
// The service takes a faulty one as plain text, so nothing but this ever says so.
import { SYLLABLES } from './syllables.ts'

export type AnnotationFault = 'no_character' | 'no_tone' | 'no_syllable' | 'spaces' | 'shape'
export type Annotation = { start: number; end: number; written: string; fault: AnnotationFault | null }

// As the speech model's own front end has it.
const SOUND = /^<([\u3400-\u9fff\uf900-\ufaff\u{20000}-\u{3ffff}〇])\|([A-Za-zÜü]+)([1-5])>$/u
// Whatever looks as if it was meant: a bar of either width between two angle brackets that are near each other.
const MEANT = /[<＜〈][^<>＜＞〈〉\n]{0,24}[|｜][^<>＜＞〈〉\n]{0,24}[>＞〉]/gu
const HAN = /^[\u3400-\u9fff\uf900-\ufaff\u{20000}-\u{3ffff}〇]$/u

/** Every annotation of a text and everything that seems to be meant as one, in order. */
export function annotations(text: string): Annotation[] {
  return [...text.matchAll(MEANT)].map((found) => ({
    start: found.index,
    end: found.index + found[0].length,
    written: found[0],
    fault: faultOf(found[0]),
  }))
}

function faultOf(written: string): AnnotationFault | null {
  const sound = SOUND.exec(written)
  if (sound) return isSyllable(sound[2] ?? '') ? null : 'no_syllable'
  if (!/^<[^|]*\|[^|]*>$/u.test(written)) return 'shape'
  const [character = '', reading = ''] = written.slice(1, -1).split('|')
  if (/\s/u.test(written)) return 'spaces'
  if (!HAN.test(character)) return 'no_character'
  return /^[A-Za-zÜü]+$/u.test(reading) ? 'no_tone' : 'no_syllable'
}

/** Whether these letters are a syllable of Mandarin: of either case, ü also written V, jü qü xü yü also with ü. */
export function isSyllable(letters: string): boolean {
  const plain = letters.toLowerCase().replaceAll('ü', 'v')
  return SYLLABLES.has(/^[jqxy]v(e|n|an)?$/.test(plain) ? plain.replace('v', 'u') : plain)
}
