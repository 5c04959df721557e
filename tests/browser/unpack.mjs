// Unpacks the browser of the package beside this file into the folder that is named: node unpack.mjs FOLDER
//
// The package holds Chromium, the libraries that a slim system lacks, and a font, each compressed with Brotli.
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { brotliDecompressSync } from 'node:zlib'

const packed = fileURLToPath(new URL('node_modules/@sparticuz/chromium/bin/', import.meta.url))
const folder = process.argv[2]

function decompress(name, mode) {
  writeFileSync(`${folder}/${name}`, brotliDecompressSync(readFileSync(`${packed}${name}.br`)), { mode })
}

mkdirSync(folder, { recursive: true })
decompress('chromium', 0o755)
for (const name of ['al2023.tar', 'fonts.tar', 'swiftshader.tar']) {
  decompress(name, 0o644)
  execFileSync('tar', ['--extract', '--no-same-owner', '--directory', folder, '--file', `${folder}/${name}`])
  rmSync(`${folder}/${name}`)
}
const fonts = [`${folder}/fonts`, '/usr/share/fonts', '/usr/local/share/fonts']
writeFileSync(
  `${folder}/fonts.conf`,
  `<?xml version="1.0"?>\n<fontconfig>\n${fonts.map((path) => `  <dir>${path}</dir>\n`).join('')}` +
    `  <cachedir>${folder}/fonts-cache</cachedir>\n</fontconfig>\n`,
)
