// Where in the studio one is: the address of the page, and links that change it without loading anything again.
import { at, under } from './place.ts'

let path = $state(current())
let query = $state.raw(new URLSearchParams(location.search))
/** What to ask before the page is left; null: nothing would be lost. */
let question: () => string | null = () => null

/** The path of the page in the studio, without a slash at its end. */
export function here(): string {
  return path.length > 1 ? path.replace(/\/$/, '') : path
}

/** What stands behind the question mark. */
export function asked(): URLSearchParams {
  return query
}

/** Goes to another page of the studio, by its path; `replace` leaves no step behind to go back to. */
export function go(address: string, replace = false): void {
  // A redirect by the page itself, such as when the session has ended, is not held back.
  if (!replace && !mayLeave()) return
  if (replace) history.replaceState(null, '', at(address))
  else history.pushState(null, '', at(address))
  arrive()
  if (!replace) window.scrollTo(0, 0)
}

/** Asks before this page, or the tab, is left while `ask` has a question. Call it while a page is made. */
export function holdBack(ask: () => string | null): void {
  const warn = (event: BeforeUnloadEvent): void => {
    if (ask() !== null) event.preventDefault()
  }
  $effect(() => {
    question = ask
    window.addEventListener('beforeunload', warn)
    return () => {
      question = () => null
      window.removeEventListener('beforeunload', warn)
    }
  })
}

/** Makes every link inside the studio a step and follows the browser's own steps. */
export function follow(): void {
  window.addEventListener('popstate', () => {
    if (mayLeave()) arrive()
    else history.pushState(null, '', at(path) + (query.size > 0 ? `?${query.toString()}` : ''))
  })
  document.addEventListener('click', (event) => {
    const link = (event.target as Element).closest?.('a[href]')
    if (!(link instanceof HTMLAnchorElement) || !isStep(event, link)) return
    event.preventDefault()
    go(under(link.pathname) + link.search + link.hash)
  })
}

function isStep(event: MouseEvent, link: HTMLAnchorElement): boolean {
  const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey
  const isOurs = link.origin === location.origin && !link.target && !link.hasAttribute('download')
  const path = under(link.pathname)
  return isPlain && isOurs && !event.defaultPrevented && path !== null && !path.startsWith('/web/')
}

function mayLeave(): boolean {
  const asked = question()
  return asked === null || window.confirm(asked)
}

function arrive(): void {
  path = current()
  query = new URLSearchParams(location.search)
}

function current(): string {
  return under(location.pathname) ?? location.pathname
}
