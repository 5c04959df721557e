// The language of a text: the cases that tests/client/test_languages.py holds against the client.
import { expect, it } from 'vitest'
import { detect } from '../src/lib/languages.ts'
import cases from './languages.json'

it.each(cases as [string, string | null][])('of %j is %j', (text, language) => {
  expect(detect(text)).toBe(language)
})
