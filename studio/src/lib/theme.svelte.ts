// Light or dark: the system's setting, until the user chooses.

export type Theme = 'auto' | 'light' | 'dark'

const REMEMBERED = 'tenuto.theme'
let current = $state<Theme>('auto')

/** What was chosen. */
export function theme(): Theme {
  return current
}

/** Shows a theme and remembers it; `auto` follows the system again. */
export function wear(next: Theme): void {
  current = next
  if (next === 'auto') delete document.documentElement.dataset.theme
  else document.documentElement.dataset.theme = next
  try {
    localStorage.setItem(REMEMBERED, next)
  } catch {
    return
  }
}

/** The theme that was chosen last. */
export function firstTheme(): Theme {
  try {
    const chosen = localStorage.getItem(REMEMBERED)
    return chosen === 'light' || chosen === 'dark' ? chosen : 'auto'
  } catch {
    return 'auto'
  }
}
