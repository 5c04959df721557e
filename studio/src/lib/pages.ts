// Which page stands at which address, who may see it, and where it is in the menu. Pages are loaded when they are opened.
import type { Component } from 'svelte'
import type { Key } from './i18n.svelte.ts'

// Most pages take nothing; that of one thing takes its id.
type Loader = () => Promise<{ default: Component<any> }>
export type Who = 'visitor' | 'account' | 'operator'
export type Page = { path: string; title: Key; who: Who; load: Loader }

export const PAGES: readonly Page[] = [
  { path: '/login', title: 'nav.login', who: 'visitor', load: () => import('../pages/Login.svelte') },
  { path: '/register', title: 'nav.register', who: 'visitor', load: () => import('../pages/Register.svelte') },
  { path: '/setup', title: 'nav.setup', who: 'visitor', load: () => import('../pages/Setup.svelte') },
  { path: '/invite', title: 'nav.invite', who: 'visitor', load: () => import('../pages/Invite.svelte') },
  { path: '/', title: 'nav.home', who: 'account', load: () => import('../pages/Home.svelte') },
  { path: '/speech', title: 'nav.speech', who: 'account', load: () => import('../pages/Speech.svelte') },
  { path: '/voices', title: 'nav.voices', who: 'account', load: () => import('../pages/Voices.svelte') },
  { path: '/recognition', title: 'nav.recognition', who: 'account', load: () => import('../pages/Recognition.svelte') },
  { path: '/images', title: 'nav.images', who: 'account', load: () => import('../pages/Images.svelte') },
  { path: '/chat', title: 'nav.chat', who: 'account', load: () => import('../pages/Chat.svelte') },
  { path: '/jobs', title: 'nav.jobs', who: 'account', load: () => import('../pages/Jobs.svelte') },
  { path: '/jobs/*', title: 'nav.job', who: 'account', load: () => import('../pages/Job.svelte') },
  { path: '/keys', title: 'nav.keys', who: 'account', load: () => import('../pages/Keys.svelte') },
  { path: '/usage', title: 'nav.usage', who: 'account', load: () => import('../pages/Usage.svelte') },
  { path: '/settings', title: 'nav.account', who: 'account', load: () => import('../pages/Account.svelte') },
  { path: '/operator/accounts', title: 'nav.accounts', who: 'operator', load: () => import('../pages/Accounts.svelte') },
  { path: '/operator/models', title: 'nav.models', who: 'operator', load: () => import('../pages/Models.svelte') },
  { path: '/operator/queue', title: 'nav.queue', who: 'operator', load: () => import('../pages/Queue.svelte') },
  { path: '/operator/recovery', title: 'nav.recovery', who: 'operator', load: () => import('../pages/Recovery.svelte') },
  { path: '/operator/recovery/*', title: 'nav.recovery', who: 'operator', load: () => import('../pages/Evidence.svelte') },
]

export const MENU: readonly { title: Key; who: Who; paths: string[] }[] = [
  { title: 'nav.make', who: 'account', paths: ['/speech', '/voices', '/recognition', '/images', '/chat'] },
  { title: 'nav.own', who: 'account', paths: ['/jobs', '/keys', '/usage', '/settings'] },
  {
    title: 'nav.operate', who: 'operator',
    paths: ['/operator/accounts', '/operator/models', '/operator/queue', '/operator/recovery'],
  },
]

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
