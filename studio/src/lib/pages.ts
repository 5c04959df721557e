// Which page stands at which address, who may see it, and where it is in the menu. Pages are loaded when they are opened.
import type { Component } from 'svelte'
import type { Key } from './i18n.svelte.ts'
import { hasWebhooks, isFree } from './session.svelte.ts'

// Most pages take nothing; that of one thing takes its id.
type Loader = () => Promise<{ default: Component<any> }>
export type Who = 'visitor' | 'account' | 'operator'
/** `key`: the letter that goes there after a `g`; `free`: the title where nothing costs anything; `isThere`: false if it is switched off. */
export type Page = { path: string; title: Key; free?: Key; who: Who; key?: string; isThere?: () => boolean; load: Loader }

export const PAGES: readonly Page[] = [
  { path: '/login', title: 'nav.login', who: 'visitor', load: () => import('../pages/Login.svelte') },
  { path: '/register', title: 'nav.register', who: 'visitor', load: () => import('../pages/Register.svelte') },
  { path: '/setup', title: 'nav.setup', who: 'visitor', load: () => import('../pages/Setup.svelte') },
  { path: '/invite', title: 'nav.invite', who: 'visitor', load: () => import('../pages/Invite.svelte') },
  { path: '/', title: 'nav.home', who: 'account', key: 'h', load: () => import('../pages/Home.svelte') },
  { path: '/speech', title: 'nav.speech', who: 'account', key: 's', load: () => import('../pages/Speech.svelte') },
  { path: '/voices', title: 'nav.voices', who: 'account', key: 'v', load: () => import('../pages/Voices.svelte') },
  { path: '/recognition', title: 'nav.recognition', who: 'account', key: 'r', load: () => import('../pages/Recognition.svelte') },
  { path: '/images', title: 'nav.images', who: 'account', key: 'i', load: () => import('../pages/Images.svelte') },
  { path: '/chat', title: 'nav.chat', who: 'account', key: 'c', load: () => import('../pages/Chat.svelte') },
  { path: '/jobs', title: 'nav.jobs', who: 'account', key: 'j', load: () => import('../pages/Jobs.svelte') },
  { path: '/jobs/*', title: 'nav.job', who: 'account', load: () => import('../pages/Job.svelte') },
  { path: '/keys', title: 'nav.keys', who: 'account', key: 'k', load: () => import('../pages/Keys.svelte') },
  { path: '/webhooks', title: 'nav.webhooks', who: 'account', key: 'w', isThere: hasWebhooks, load: () => import('../pages/Webhooks.svelte') },
  {
    path: '/usage', title: 'nav.usage', free: 'nav.units', who: 'account', key: 'u',
    load: () => (isFree() ? import('../pages/Units.svelte') : import('../pages/Usage.svelte')),
  },
  { path: '/settings', title: 'nav.account', who: 'account', key: 'a', load: () => import('../pages/Account.svelte') },
  { path: '/operator/accounts', title: 'nav.accounts', free: 'nav.people', who: 'operator', key: 'o', load: () => import('../pages/Accounts.svelte') },
  { path: '/operator/models', title: 'nav.models', who: 'operator', key: 'm', load: () => import('../pages/Models.svelte') },
  { path: '/operator/queue', title: 'nav.queue', who: 'operator', key: 'q', load: () => import('../pages/Queue.svelte') },
  { path: '/operator/statistics', title: 'nav.statistics', who: 'operator', key: 't', load: () => import('../pages/Statistics.svelte') },
  { path: '/operator/log', title: 'nav.log', who: 'operator', key: 'l', load: () => import('../pages/Log.svelte') },
  { path: '/operator/recovery', title: 'nav.recovery', who: 'operator', key: 'y', load: () => import('../pages/Recovery.svelte') },
  { path: '/operator/recovery/*', title: 'nav.recovery', who: 'operator', load: () => import('../pages/Evidence.svelte') },
]

export const MENU: readonly { title: Key; who: Who; paths: string[] }[] = [
  { title: 'nav.make', who: 'account', paths: ['/speech', '/voices', '/recognition', '/images', '/chat'] },
  { title: 'nav.own', who: 'account', paths: ['/jobs', '/keys', '/webhooks', '/usage', '/settings'] },
  {
    title: 'nav.operate', who: 'operator',
    paths: ['/operator/accounts', '/operator/models', '/operator/queue', '/operator/statistics', '/operator/log', '/operator/recovery'],
  },
]

/** The title of a page. */
export function titleOf(page: Page): Key {
  return (isFree() && page.free) || page.title
}

/** The page at an address, and the id that the address ends with. */
export function pageAt(path: string): { page: Page; id: string } | null {
  const plain = PAGES.find((page) => page.path === path)
  if (plain) return { page: plain, id: '' }
  const cut = path.lastIndexOf('/')
  const shown = PAGES.find((page) => page.path === `${path.slice(0, cut)}/*`)
  return shown ? { page: shown, id: decoded(path.slice(cut + 1)) } : null
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
