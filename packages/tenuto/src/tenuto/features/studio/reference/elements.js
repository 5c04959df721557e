// Elements, texts in two languages, and the small part of Markdown that the document uses. No text is ever markup.
import { MESSAGES } from './messages.js'

let language = 'en'

/** An element. `t` names its message, `on` its listeners; other names are attributes, left out where null or false. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes)) {
    if (name === 'on') for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener)
    else if (name === 't') say(element, value)
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? '' : value)
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined))
  return element
}

/** Gives an element a message, in the language of the page now and whenever it changes. */
export function say(element, key, values = {}) {
  element.dataset.t = key
  element.dataset.values = JSON.stringify(values)
  element.textContent = t(key, values)
}

/** The text of a message, its blanks filled. */
export function t(key, values = {}) {
  return MESSAGES[language][key].replace(/\{(\w+)\}/g, (blank, name) => values[name] ?? blank)
}

/** Shows the page's own texts in a language; the document's stay in English. */
export function speak(next) {
  language = next
  document.documentElement.lang = next === 'zh' ? 'zh-Hans' : 'en'
  for (const element of document.querySelectorAll('[data-t]')) {
    element.textContent = t(element.dataset.t, JSON.parse(element.dataset.values ?? '{}'))
  }
  for (const [name, attribute] of [['tLabel', 'aria-label'], ['tPlaceholder', 'placeholder']]) {
    for (const element of document.querySelectorAll(`[data-${name.replace(/[A-Z]/, (c) => `-${c.toLowerCase()}`)}]`)) {
      element.setAttribute(attribute, t(element.dataset[name]))
    }
  }
}

/** Paragraphs and numbered lists, with `code` and **strong** words. */
export function prose(text) {
  if (!text) return null
  const blocks = text.trim().split(/\n\s*\n/).map((block) => {
    const items = block.split(/\n(?=\d+\. )/)
    if (!/^\d+\. /.test(block)) return h('p', {}, inline(block))
    return h('ol', {}, items.map((item) => h('li', {}, inline(item.replace(/^\d+\. /, '')))))
  })
  return h('div', { class: 'prose', lang: 'en' }, blocks)
}

/** Words with `code` and **strong** ones among them. */
export function inline(text) {
  return text.split(/(`[^`]+`|\*\*[^*]+\*\*)/).map((piece) => {
    if (/^`.+`$/s.test(piece)) return h('code', {}, piece.slice(1, -1))
    return /^\*\*.+\*\*$/s.test(piece) ? h('strong', {}, piece.slice(2, -2)) : piece
  })
}

/** JSON on several lines. Integers that a browser's numbers cannot hold stay as they were sent, where it can do that. */
export function pretty(text) {
  const exact = (_, value, source) => (typeof value === 'number' && source && JSON.rawJSON ? JSON.rawJSON(source.source) : value)
  try {
    return JSON.stringify(JSON.parse(text, exact), null, 2)
  } catch {
    return text
  }
}

/** A block of code that the keyboard can scroll, and a button that copies it. */
export function code(text, label) {
  const pre = h('pre', { tabindex: '0', role: 'region', 'aria-label': label }, h('code', {}, text))
  const button = h('button', { type: 'button', class: 'small quiet', t: 'copy', on: { click: copy } })
  async function copy() {
    try {
      await navigator.clipboard.writeText(pre.textContent)
      say(button, 'copied')
    } catch {
      // Without HTTPS there is no clipboard: the text is selected, and the keyboard copies it.
      getSelection().selectAllChildren(pre)
      say(button, 'selected')
    }
    setTimeout(() => say(button, 'copy'), 2000)
  }
  return h('div', { class: 'code' }, pre, button)
}
