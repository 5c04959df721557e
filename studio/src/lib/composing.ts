// Whether a key belongs to an input method. While one composes Chinese or Japanese, Enter picks a word and sends nothing.

/** True for keys that an input method takes; 229 is how Safari marks the Enter that ends a composition. */
export function isComposing(event: Pick<KeyboardEvent, 'isComposing' | 'keyCode'>): boolean {
  return event.isComposing || event.keyCode === 229
}

/** An action for forms: Enter in a field submits it only when no input method is at work. */
export function quietWhileComposing(form: HTMLFormElement): { destroy: () => void } {
  const hold = (event: KeyboardEvent): void => {
    if (event.key === 'Enter' && isComposing(event)) event.preventDefault()
  }
  form.addEventListener('keydown', hold, true)
  return { destroy: () => form.removeEventListener('keydown', hold, true) }
}
