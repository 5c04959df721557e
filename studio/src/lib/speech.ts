// Speech settings as the form has them, and as the service takes them. Of three ways to set an emotion a job has one.

import kinds from './kinds.json'

export const EMOTIONS = ['happy', 'angry', 'sad', 'fear', 'disgust', 'low', 'surprise', 'calm'] as const
export type Mode = 'none' | 'reference' | 'vector' | 'text'

/** What `lang` is while the page detects the language. */
export const DETECTED = ''

export type Settings = {
  text: string
  lang: string
  voice: string
  mode: Mode
  reference: string
  vector: number[]
  emoText: string
  alpha: number
  useRandom: boolean
  durationFactor: number | null
  silence: number | null
  segmentTokens: number | null
  normalise: boolean
  doSample: boolean
  topP: number
  topK: number
  temperature: number
  repetitionPenalty: number
}

const known = kinds.speech.parameters

export const DEFAULTS: Readonly<Settings> = {
  text: '', lang: known.lang.default, voice: '',
  mode: 'none', reference: '', vector: EMOTIONS.map(() => 0), emoText: '', alpha: known.emo_alpha.default,
  useRandom: known.use_random.default,
  // Empty is left out: the service's default holds, or that of a voice with defaults of its own.
  durationFactor: null, silence: null, segmentTokens: null,
  normalise: known.text_normalization.default, doSample: known.do_sample.default, topP: known.top_p.default,
  topK: known.top_k.default, temperature: known.temperature.default, repetitionPenalty: known.repetition_penalty.default,
}

type Parameters = Record<string, unknown>

/** How often faster than usual, as people say it, for a factor of length; and the other way round. */
export function speedOf(durationFactor: number): number {
  return Math.round(100 / durationFactor) / 100
}

/** The factor of length, as the service has it. */
export function durationFactorOf(speed: number): number {
  return Math.round(10_000 / speed) / 10_000
}

/** The parameters of a job: what differs from the defaults, and never two ways of emotion. */
export function toParameters(settings: Settings): Parameters {
  const { voice, durationFactor, silence, segmentTokens } = settings
  return {
    text: settings.text.trim(),
    lang: settings.lang,
    stream: true,
    ...(voice === '' ? {} : { voice_id: voice }),
    ...emotionOf(settings),
    ...(settings.useRandom ? { use_random: true } : {}),
    ...(durationFactor === null ? {} : { duration_factor: durationFactor }),
    ...(silence === null ? {} : { interval_silence: silence }),
    ...(segmentTokens === null ? {} : { max_text_tokens_per_segment: segmentTokens }),
    ...(settings.normalise ? {} : { text_normalization: false }),
    ...samplingOf(settings),
  }
}

function emotionOf(settings: Settings): Parameters {
  const alpha = settings.alpha === DEFAULTS.alpha ? {} : { emo_alpha: settings.alpha }
  if (settings.mode === 'reference' && settings.reference) return { emotion_voice_id: settings.reference, ...alpha }
  if (settings.mode === 'vector') return { emo_vector: [...settings.vector], ...alpha }
  if (settings.mode !== 'text') return settings.useRandom ? alpha : {}
  const words = settings.emoText.trim()
  return { use_emo_text: true, ...(words === '' ? {} : { emo_text: words }), ...alpha }
}

function samplingOf(settings: Settings): Parameters {
  const pairs: [string, unknown, unknown][] = [
    ['do_sample', settings.doSample, DEFAULTS.doSample],
    ['top_p', settings.topP, DEFAULTS.topP],
    ['top_k', settings.topK, DEFAULTS.topK],
    ['temperature', settings.temperature, DEFAULTS.temperature],
    ['repetition_penalty', settings.repetitionPenalty, DEFAULTS.repetitionPenalty],
  ]
  return Object.fromEntries(pairs.filter(([, value, usual]) => value !== usual).map(([name, value]) => [name, value]))
}

/** The form for the parameters of a job that was made, by this page or by a program. */
export function fromParameters(given: Parameters): Settings {
  const take = <T>(name: string, usual: T): T => (given[name] === undefined ? usual : (given[name] as T))
  return {
    text: take('text', ''), lang: take('lang', DEFAULTS.lang), voice: take('voice_id', ''),
    mode: modeOf(given), reference: take('emotion_voice_id', ''), vector: [...take('emo_vector', DEFAULTS.vector)],
    emoText: take('emo_text', ''), alpha: take('emo_alpha', DEFAULTS.alpha),
    useRandom: take('use_random', DEFAULTS.useRandom),
    durationFactor: take<number | null>('duration_factor', null), silence: take<number | null>('interval_silence', null),
    segmentTokens: take<number | null>('max_text_tokens_per_segment', null),
    normalise: take('text_normalization', DEFAULTS.normalise), doSample: take('do_sample', DEFAULTS.doSample),
    topP: take('top_p', DEFAULTS.topP), topK: take('top_k', DEFAULTS.topK),
    temperature: take('temperature', DEFAULTS.temperature),
    repetitionPenalty: take('repetition_penalty', DEFAULTS.repetitionPenalty),
  }
}

function modeOf(given: Parameters): Mode {
  if (given.emotion_voice_id !== undefined) return 'reference'
  if (given.emo_vector !== undefined) return 'vector'
  return given.use_emo_text === true ? 'text' : 'none'
}
