// Keys that work on every page: what they are, and whether this browser wants them. While somebody writes, only those
// with Ctrl or Cmd work; the others can be turned off, for those whom single keys hinder.
import { isComposing } from './composing.ts'
import { PAGES, type Page } from './pages.ts'
import { go } from './router.svelte.ts'

export type Sheet = 'palette' | 'help'

const OFF = 'tenuto.shortcuts'
// How long a `g` waits for its letter.
const WAIT_MS = 1500
const WRITES = 'input:not([type=checkbox], [type=radio], [type=range], [type=button]), textarea, select, [contenteditable]'

let shown = $state<Sheet | null>(null)
let areOn = $state(remembered())
let wentAt = 0

/** The sheet that lies over the page. */
export function sheet(): Sheet | null {
  return shown
}

/** Opens a sheet, or closes it. */
export function show(next: Sheet | null): void {
  shown = next
}

/** Whether single keys do something. */
export function singleKeys(): boolean {
  return areOn
}

/** Turns single keys on or off; the browser remembers it. */
export function wantSingleKeys(wanted: boolean): void {
  areOn = wanted
  try {
    localStorage.setItem(OFF, wanted ? 'on' : 'off')
  } catch {
    return
  }
}

/** What a key on a page does. `mayShow` knows which pages the account has. */
export function press(event: KeyboardEvent, mayShow: (page: Page) => boolean): void {
  if (isComposing(event) || event.altKey || event.defaultPrevented) return
  if (event.ctrlKey || event.metaKey) {
    if (event.key.toLowerCase() !== 'k' || event.shiftKey) return
    event.preventDefault()
    if (shown !== null || !document.querySelector('dialog[open]')) show(shown === 'palette' ? null : 'palette')
    return
  }
  if (!areOn || isWriting(event.target) || document.querySelector('dialog[open]')) return
  if (single(event.key, mayShow)) event.preventDefault()
}

function single(key: string, mayShow: (page: Page) => boolean): boolean {
  const page = Date.now() - wentAt < WAIT_MS ? PAGES.find((one) => one.key === key.toLowerCase() && mayShow(one)) : undefined
  wentAt = key === 'g' && !page ? Date.now() : 0
  if (page) go(page.path)
  else if (key === '?') show('help')
  else if (key === '/') return search()
  return page !== undefined || key === '?'
}

/** The field that a page has for searching gets the focus. */
function search(): boolean {
  const field = document.querySelector<HTMLInputElement>('main input[type=search]')
  field?.focus()
  field?.select()
  return field !== null
}

function isWriting(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest(WRITES) !== null
}

function remembered(): boolean {
  try {
    return localStorage.getItem(OFF) !== 'off'
  } catch {
    return true
  }
}
