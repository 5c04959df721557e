// A table whose rows are laid out as cards on a narrow screen. There CSS takes a table its meaning, so it is said again.

const ROLES: Record<string, string> = { TABLE: 'table', THEAD: 'rowgroup', TBODY: 'rowgroup', TFOOT: 'rowgroup', TR: 'row', TD: 'cell' }

/** An action for the box around a table: every part of it keeps its role, rows that come later too. */
export function keepsRoles(box: HTMLElement): { destroy: () => void } {
  const watch = new MutationObserver(name)
  function name(): void {
    for (const part of box.querySelectorAll('table, thead, tbody, tfoot, tr, td')) part.setAttribute('role', ROLES[part.tagName] ?? '')
    for (const head of box.querySelectorAll('th')) head.setAttribute('role', head.scope === 'row' ? 'rowheader' : 'columnheader')
  }
  name()
  watch.observe(box, { childList: true, subtree: true })
  return { destroy: () => watch.disconnect() }
}
