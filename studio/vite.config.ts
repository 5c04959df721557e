// How the studio is built: into the Python package, every file with its hash in its name and a compressed twin
// beside it, nothing inline (the pages forbid it), and not at all while a message lacks its translation.
import { readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'
import { svelte } from '@sveltejs/vite-plugin-svelte'
import { defineConfig } from 'vitest/config'
import type { Plugin } from 'vite'
import { messageFaults } from './messages.ts'

const OUT = '../packages/tenuto/src/tenuto/features/studio/static'
const COMPRESSED = /\.(js|css|html|svg)$/
// Where a developer's own service listens; `npx vite` shows the studio in front of it.
const SERVICE = process.env.TENUTO_URL ?? 'http://127.0.0.1:8080'

export default defineConfig({
  // The client for JavaScript, as its sources are: nothing has to be compiled or installed before.
  resolve: { alias: { tenuto: join(import.meta.dirname, '../packages/tenuto-js/src') } },
  plugins: [svelte(), completeMessages(), inertStyle(), compressedTwins()],
  build: { outDir: OUT, emptyOutDir: true, assetsInlineLimit: 0, modulePreload: { polyfill: false }, target: 'es2022', rolldownOptions: { checks: { pluginTimings: false } } },
  worker: { format: 'es' },
  // The page names its files from the root, where the service puts its prefix in; files name each other relatively.
  experimental: { renderBuiltUrl: (name, { hostType }) => (hostType === 'html' ? `/${name}` : { relative: true }) },
  server: { proxy: { '/web': SERVICE } },
  // Generous: the machine that runs them may be busy with others.
  test: { include: ['tests/*.test.ts'], testTimeout: 60_000 },
})

/** Refuses to build while a language lacks a message, or a page asks for one that is in neither. */
function completeMessages(): Plugin {
  return {
    name: 'complete-messages',
    apply: 'build',
    buildStart() {
      const faults = messageFaults(join(import.meta.dirname, 'src'))
      if (faults.length > 0) this.error(`messages:\n  ${faults.join('\n  ')}`)
    },
  }
}

/**
 * The pages forbid styles inside HTML, and the waveform library brings one. Its text is left in a template, where it
 * does nothing, and Waveform.svelte adopts it as a style sheet.
 */
function inertStyle(): Plugin {
  return {
    name: 'inert-style',
    transform(code, id) {
      if (!/wavesurfer\.js\/dist\/wavesurfer\.esm\.js/.test(id)) return null
      const inert = code.replace('<style$', '<template$').replace('</style>', '</template>')
      if (inert.length !== code.length + 6) this.error('the waveform library has other styles than before')
      return { code: inert, map: null }
    },
  }
}

/** Writes NAME.br and NAME.gz beside every text, so that the service never compresses anything itself. */
function compressedTwins(): Plugin {
  return {
    name: 'compressed-twins',
    apply: 'build',
    closeBundle() {
      const folder = join(import.meta.dirname, OUT)
      const quality = { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }
      for (const name of readdirSync(folder, { recursive: true, encoding: 'utf-8' })) {
        if (!COMPRESSED.test(name)) continue
        const whole = readFileSync(join(folder, name))
        writeFileSync(join(folder, `${name}.br`), brotliCompressSync(whole, quality))
        writeFileSync(join(folder, `${name}.gz`), gzipSync(whole, { level: 9 }))
      }
    },
  }
}
