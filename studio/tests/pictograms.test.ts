// What the pictogram model is known to draw: the list that is searched, and prompts in which it knows nothing.
import { describe, expect, it } from 'vitest'
import { knowsAny, thingsFor } from '../src/lib/pictograms.ts'

describe('pictograms', () => {
  it('are found under any of their names, and named in the language of the page', () => {
    expect(thingsFor('', 'en')).toHaveLength(710)
    expect(thingsFor('arcoíris', 'en')).toEqual(['rainbow'])
    expect(thingsFor('RAINBOW', 'zh')).toEqual(['彩虹'])
    expect(thingsFor('no such thing', 'en')).toEqual([])
  })

  it('are known in a prompt by a whole word, also a plural, or anywhere in Chinese', () => {
    expect(['three Volcanoes', 'a rainbow, please', '湖上的彩虹', '一只大象，两只狗', 'a roller coaster'].map(knowsAny)).toEqual([true, true, true, true, true])
    expect(['', 'an abstract concept', 'rainbowlike', '抽象的概念'].map(knowsAny)).toEqual([false, false, false, false])
  })
})
