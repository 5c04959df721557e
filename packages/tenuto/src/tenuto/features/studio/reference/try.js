// Sending a request from the page. The key is in its field and nowhere else: no address, no storage, no curl command.
import { code, h, pretty, say } from './elements.js'

/** Where the service is, below whatever path: this page is /docs there. */
export const base = new URL('.', location.href).href

const HASH = 'X-Service-Content-SHA256'
const UNFINISHED = new Set(['submitting', 'queued', 'running'])
const key = () => document.getElementById('key').value.trim()
const seen = {}
let models = []

/** Asks which models the key may use, so that examples name one of them. */
export async function checkKey() {
  const state = document.getElementById('key-state')
  models = []
  if (!key()) return say(state, 'keyKept')
  try {
    const answer = await fetch(`${base}v1/models`, { headers: { Authorization: `Bearer ${key()}` }, credentials: 'omit', cache: 'no-store' })
    if (answer.ok) models = (await answer.json()).data
    if (answer.ok) say(state, 'keyWorks', { n: models.length })
    else say(state, answer.status === 401 ? 'keyRefused' : 'keyUnknown')
  } catch {
    say(state, 'keyUnknown')
  }
  document.dispatchEvent(new Event('known'))
}

/** A part that opens with fields for a request, the same as a command, and the response. */
export function tryIt(operation, resolved) {
  const details = h('details', { class: 'try' }, h('summary', { t: 'tryIt' }))
  details.addEventListener('toggle', () => details.append(form(operation, resolved)), { once: true })
  return details
}

function form(operation, resolved) {
  const id = (name) => `${operation.operationId}-${name}`
  const inputs = operation.parameters.map((parameter) => ({ parameter, input: input(parameter, id(parameter.name), resolved) }))
  const body = operation.requestBody ? bodyField(operation, id('body'), resolved, inputs) : null
  const command = code('', 'curl')
  const output = h('div', { class: 'output', 'aria-live': 'polite' })
  const stop = h('button', { type: 'button', class: 'quiet', t: 'stop', hidden: true, on: { click: () => stop.controller?.abort() } })
  const refresh = () => (command.querySelector('code').textContent = curl(operation, inputs, body))
  const element = h('form', { class: 'request' }, inputs.map(({ parameter, input: field }) => labelled(parameter.name, parameter.required, field)),
    body?.elements, h('div', { class: 'row' }, h('button', { type: 'submit', t: 'send' }), stop),
    h('p', { class: 'soft', t: 'command' }), command, output)
  element.addEventListener('input', refresh)
  element.addEventListener('submit', (event) => {
    event.preventDefault()
    stop.controller?.abort()
    stop.controller = new AbortController()
    stop.hidden = false
    const { controller } = stop
    void send(operation, inputs, body, output, controller.signal).finally(() => {
      if (controller === stop.controller) stop.hidden = true
      refresh()
    })
  })
  refresh()
  return element
}

function labelled(name, required, field) {
  return h('div', { class: 'field' }, h('label', { for: field.id }, h('code', {}, name), required ? [' ', h('span', { class: 'required', t: 'required' })] : null), field)
}

/** A field for a parameter. Ids that an earlier response had are filled in; others are for the reader. */
function input(parameter, id, resolved) {
  const schema = resolved(parameter.schema)
  const example = parameter.example ?? Object.values(parameter.examples ?? {})[0]?.value
  if (schema.enum) return h('select', { id }, h('option', { value: '' }, ''), schema.enum.map((one) => h('option', {}, one)))
  const field = h('input', { id, autocomplete: 'off', spellcheck: 'false', placeholder: example, required: parameter.required && parameter.name !== HASH,
    type: schema.type === 'integer' ? 'number' : schema.format === 'date' ? 'date' : 'text', min: schema.minimum, max: schema.maximum })
  if (parameter.name === 'Idempotency-Key') field.value = fresh()
  if (parameter.in !== 'path') return field
  const fill = () => (field.value ||= seen[parameter.name] ?? '')
  document.addEventListener('known', fill)
  fill()
  return field
}

/** Bits for a key that was never used; `randomUUID` exists over HTTPS alone. */
function fresh() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('')
}

function bodyField(operation, id, resolved, inputs) {
  const [[type, media]] = Object.entries(operation.requestBody.content)
  if (!type.endsWith('json')) return fileField(type, id, inputs)
  const examples = Object.entries(media.examples ?? { example: { value: media.example ?? {} } }).map(([name, one]) => [name, resolved(one)])
  const text = h('textarea', { id, rows: '9', spellcheck: 'false', autocomplete: 'off' })
  const choice = h('select', { id: `${id}-example` }, examples.map(([name, one]) => h('option', { value: name }, one.summary ?? name)))
  let filled = ''
  const fill = () => {
    const example = (examples.find(([name]) => name === choice.value) ?? examples[0])[1].value
    filled = text.value = JSON.stringify(adapted(example, operation), null, 2)
    text.dispatchEvent(new Event('input', { bubbles: true }))
  }
  choice.addEventListener('change', fill)
  // What somebody has written stays; an untouched example follows what is known.
  document.addEventListener('known', () => text.value === filled && fill())
  fill()
  const label = h('label', { for: id, t: 'body' })
  const chooser = examples.length > 1 ? h('div', { class: 'field' }, h('label', { for: choice.id, t: 'examples' }), choice) : null
  return { elements: [chooser, h('div', { class: 'field' }, label, text)], type, text: () => text.value, content: () => text.value }
}

/** An example with a model that this key can call, and with ids that this page has seen. */
function adapted(example, operation) {
  const kind = operation.path.includes('/chat/') ? 'chat' : example.model?.split(/[/-]/).at(-1)
  const own = models.filter((model) => model.kind === kind)
  const body = { ...example }
  if (body.model && own.length && !own.some((model) => model.id === body.model)) body.model = (own.find((model) => model.callable) ?? own[0]).id
  if (body.input_artifact_ids && seen.input) body.input_artifact_ids = [seen.input]
  if (body.voice_id && seen.voice_id) body.voice_id = seen.voice_id
  return body
}

/** A file is hashed when it is chosen: the service compares the hash with what arrives. */
function fileField(type, id, inputs) {
  const file = h('input', { id, type: 'file', accept: type })
  const note = h('p', { class: 'soft', role: 'status' })
  file.addEventListener('change', async () => {
    const hash = inputs.find(({ parameter }) => parameter.name === HASH)?.input
    if (!hash || !file.files[0]) return
    if (!crypto.subtle) return say(note, 'cannotHash')
    const digest = await crypto.subtle.digest('SHA-256', await file.files[0].arrayBuffer())
    hash.value = hex(digest)
    hash.dispatchEvent(new Event('input', { bubbles: true }))
    say(note, 'hashed')
  })
  const elements = h('div', { class: 'field' }, h('label', { for: id, t: 'file' }), file, note)
  return { elements, type, text: () => null, content: () => file.files[0] ?? '', name: () => file.files[0]?.name ?? 'FILE' }
}

const hex = (buffer) => [...new Uint8Array(buffer)].map((byte) => byte.toString(16).padStart(2, '0')).join('')

function address(operation, inputs) {
  const value = (where) => inputs.filter(({ parameter, input: field }) => parameter.in === where && field.value !== '')
  const path = value('path').reduce((text, { parameter, input: field }) => text.replace(`{${parameter.name}}`, encodeURIComponent(field.value)), operation.path)
  const query = new URLSearchParams(value('query').map(({ parameter, input: field }) => [parameter.name, field.value])).toString()
  return base + path.slice(1) + (query ? `?${query}` : '')
}

function headersOf(inputs, body) {
  const named = inputs.filter(({ parameter, input: field }) => parameter.in === 'header' && field.value !== '').map(({ parameter, input: field }) => [parameter.name, field.value])
  return body ? [...named, ['Content-Type', body.type]] : named
}

/** The same request as a command for a shell; the key is in a variable of the shell, never in the text. */
function curl(operation, inputs, body) {
  const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`
  const lines = [`curl ${operation.method === 'GET' ? '' : `-X ${operation.method} `}${quoted(address(operation, inputs))}`]
  if (operation.needsKey) lines.push('-H "Authorization: Bearer $KEY"')
  for (const [name, value] of headersOf(inputs, body)) lines.push(`-H ${quoted(`${name}: ${value}`)}`)
  if (body) lines.push(body.text() === null ? `--data-binary ${quoted(`@${body.name()}`)}` : `--data-raw ${quoted(body.text())}`)
  return lines.join(' \\\n  ')
}

function tell(output, message, values) {
  const line = h('p', { class: 'told' })
  say(line, message, values)
  output.append(line)
}

async function send(operation, inputs, body, output, signal) {
  output.replaceChildren()
  if (operation.needsKey && !key()) {
    tell(output, 'needKey')
    return document.getElementById('key').focus()
  }
  const headers = new Headers()
  for (const [name, value] of [...headersOf(inputs, body), ...(operation.needsKey ? [['Authorization', `Bearer ${key()}`]] : [])]) {
    try {
      headers.set(name, value)
    } catch {
      return tell(output, 'badHeader', { name })
    }
  }
  tell(output, 'sending')
  const started = performance.now()
  try {
    const answer = await fetch(address(operation, inputs), { method: operation.method, headers, body: body?.content(), signal, credentials: 'omit', cache: 'no-store' })
    output.replaceChildren()
    tell(output, 'took', { status: `${answer.status} ${answer.statusText}`.trim(), ms: Math.round(performance.now() - started) })
    // An accepted key is bound to its body: the next request is new work. A lost response may be asked for again.
    const used = inputs.find(({ parameter }) => parameter.name === 'Idempotency-Key')
    if (answer.ok && used) used.input.value = fresh()
    await show(answer, output, signal)
  } catch (error) {
    tell(output, signal.aborted ? 'stopped' : 'away')
    if (!signal.aborted && !(error instanceof TypeError)) throw error
  }
}

/** Status, headers and body. A stream is shown as it arrives, a sound or picture is played or drawn. */
async function show(answer, output, signal) {
  const lines = [...answer.headers].map(([name, value]) => `${name}: ${value}`).join('\n')
  output.append(h('details', { open: true }, h('summary', { t: 'headers' }), code(lines, 'headers')))
  const type = answer.headers.get('content-type') ?? ''
  if (type.startsWith('text/event-stream')) return stream(answer, output)
  if (/^(audio|image)\//.test(type)) return showFile(await answer.blob(), output)
  const text = await answer.text()
  if (!text) return tell(output, 'empty')
  output.append(code(pretty(text), 'body'))
  if (answer.ok && type.includes('json')) note(JSON.parse(text), output, signal)
}

async function stream(answer, output) {
  const block = code('', 'stream')
  output.append(block)
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader()
  for (let piece = await reader.read(); !piece.done; piece = await reader.read()) block.querySelector('code').append(piece.value)
}

function showFile(blob, output) {
  const url = URL.createObjectURL(blob)
  tell(output, 'bytes', { n: blob.size })
  output.append(h('p', {}, h('a', { href: url, download: `tenuto.${blob.type.split('/')[1]}`, t: 'save' })))
  if (blob.type.startsWith('audio/')) output.append(h('audio', { controls: true, src: url }))
  if (blob.type.startsWith('image/')) output.append(h('img', { src: url, alt: '' }))
}

/** Remembers ids for other forms, and offers to follow a job that has not finished. */
function note(found, output, signal) {
  if (found.object === 'job') seen.operation_id = found.id
  if (found.artifacts?.length) seen.artifact_id = found.artifacts[0].id
  if (found.artifact) seen.input = seen.artifact_id = found.artifact.id
  if (found.object === 'voice' && found.voice_id) seen.voice_id = found.voice_id
  if (found.object === 'webhook') seen.webhook_id = found.id
  if (found.object === 'webhook_delivery') seen.delivery_id = found.id
  if (Array.isArray(found.data)) seen.voice_id = found.data.find((one) => one.object === 'voice')?.voice_id ?? seen.voice_id
  document.dispatchEvent(new Event('known'))
  if (found.object !== 'job' || !UNFINISHED.has(found.state)) return
  const button = h('button', { type: 'button', t: 'follow' })
  button.addEventListener('click', () => (button.remove(), void follow(found.id, output)))
  output.append(button)
}

/** Reads the job until it has finished, pausing as the service asks; then its result can be loaded. */
async function follow(id, output) {
  const status = h('p', { class: 'state' })
  const headers = { Authorization: `Bearer ${key()}` }
  const options = { headers, credentials: 'omit', cache: 'no-store' }
  output.append(status)
  while (output.isConnected && status.isConnected) {
    const answer = await fetch(`${base}v1/jobs/${id}?wait=20`, options).catch(() => null)
    const pause = Number(answer?.headers.get('retry-after') ?? 3)
    const job = answer?.ok ? await answer.json() : null
    if (answer && !answer.ok && answer.status !== 429 && answer.status !== 503) return show(answer, output)
    if (job) say(status, 'state', { state: job.state })
    else say(status, 'away')
    if (job && !UNFINISHED.has(job.state)) return finish(job, output, options)
    if (!answer?.headers.has('preference-applied')) await new Promise((done) => setTimeout(done, pause * 1000))
  }
}

function finish(job, output, options) {
  note(job, output)
  output.append(code(JSON.stringify(job, null, 2), 'job'))
  const [artifact] = job.artifacts
  if (!artifact) return
  const button = h('button', { type: 'button', t: 'result' })
  button.addEventListener('click', async () => {
    const answer = await fetch(`${base}v1/artifacts/${artifact.id}/content`, options)
    if (!answer.ok) return show(answer, output)
    const bytes = await answer.arrayBuffer()
    button.remove()
    const wrong = crypto.subtle && hex(await crypto.subtle.digest('SHA-256', bytes)) !== artifact.sha256
    if (wrong || bytes.byteLength !== artifact.size_bytes) return tell(output, 'damaged')
    if (crypto.subtle) tell(output, 'verified')
    if (artifact.media_type === 'application/json') output.append(code(pretty(new TextDecoder().decode(bytes)), 'result'))
    else showFile(new Blob([bytes], { type: artifact.media_type }), output)
  })
  output.append(button)
}
