// What nobody can read aloud: the cases that tests/client/test_unspoken.py holds against the SDK and the model.
import { expect, it } from 'vitest'
import { unspoken } from '../src/lib/unspoken.ts'
import cases from './unspoken.json'

it.each(cases as [string, string, boolean][])('of %j is %j', (text, leftOut, isSilent) => {
  expect([unspoken(text).leftOut, unspoken(text).isSilent]).toEqual([leftOut, isSilent])
})

it('is named as far as it helps', () => {
  expect(unspoken('абвгдежзийклмнопрстуфх').shown).toBe('а б в г д е ж з и й к л м н о п р с т у …')
})

it('is most of a text when it is more than what is spoken', () => {
  const texts = ['Привет, my friends', 'Привет, world', 'Привет 2024', '😀', 'Hold the note. 😀', '…']
  expect(texts.map((text) => unspoken(text).isMostlyLost)).toEqual([false, true, true, true, false, true])
})
