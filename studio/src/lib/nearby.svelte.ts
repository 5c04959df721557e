// Which blocks of a long list are drawn: those near the window, and the one that has the focus. The others are gaps as high
// as they were, so that thousands of rows scroll like a hundred.
import { untrack } from 'svelte'

const BESIDE_PX = 1500

export class Nearby {
  #near = $state.raw({ from: 0, to: 1 })
  #focused = $state(-1)
  #heights = new Map<number, number>()

  /** Whether a block's rows are to be drawn, each with its number as `data-block`. */
  isDrawn(block: number): boolean {
    return (block >= this.#near.from && block <= this.#near.to) || block === this.#focused
  }

  /** The height in pixels of a block that is not drawn. */
  heightOf(block: number): number {
    return this.#heights.get(block) ?? this.#heights.get(0) ?? 0
  }

  /** Follows the window over a list of this many blocks; the result ends that. */
  follow(list: HTMLElement, blocks: number): () => void {
    let due = 0
    const look = (): void => untrack(() => this.#look(list, blocks))
    const soon = (): void => void (due ||= requestAnimationFrame(() => ((due = 0), look())))
    const widen = (): void => (this.#heights.clear(), soon())
    const focus = (event: FocusEvent): void => void (this.#focused = Number((event.target as Element).closest('li')?.dataset.block ?? -1))
    look()
    window.addEventListener('scroll', soon, { passive: true })
    window.addEventListener('resize', widen)
    list.addEventListener('focusin', focus)
    return () => {
      cancelAnimationFrame(due)
      window.removeEventListener('scroll', soon)
      window.removeEventListener('resize', widen)
      list.removeEventListener('focusin', focus)
    }
  }

  #look(list: HTMLElement, blocks: number): void {
    this.#measure(list)
    const top = -list.getBoundingClientRect().top
    let [from, to, y] = [0, 0, 0]
    for (let block = 0; block < blocks; block++) {
      if (y <= top + window.innerHeight + BESIDE_PX) to = block
      y += this.heightOf(block)
      if (y < top - BESIDE_PX) from = block + 1
    }
    if (from !== this.#near.from || to !== this.#near.to) this.#near = { from, to }
  }

  #measure(list: HTMLElement): void {
    const ends = new Map<number, { first: Element; last: Element }>()
    for (const row of list.querySelectorAll<HTMLElement>(':scope > li[data-block]')) {
      const block = Number(row.dataset.block)
      ends.set(block, { first: ends.get(block)?.first ?? row, last: row })
    }
    for (const [block, { first, last }] of ends) this.#heights.set(block, last.getBoundingClientRect().bottom - first.getBoundingClientRect().top)
  }
}
