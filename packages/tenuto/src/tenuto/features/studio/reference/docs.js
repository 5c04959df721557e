// The API reference: every operation and schema of the document, its contents, search, language and theme.
import { code, h, inline, prose, say, speak, t } from './elements.js'
import { fieldList, nameOf, shape } from './schema.js'
import { base, checkKey, tryIt } from './try.js'

const METHODS = ['get', 'post', 'put', 'patch', 'delete']
const find = (id) => document.getElementById(id)
let api

/** What a reference inside the document leads to. */
function resolved(value) {
  if (!value?.$ref) return value
  const { $ref, ...beside } = value
  return { ...$ref.slice(2).split('/').reduce((inside, name) => inside[name], api), ...beside }
}

/** All operations in the document's order. */
function operations() {
  return Object.entries(api.paths).flatMap(([path, item]) => Object.keys(item).filter((name) => METHODS.includes(name)).map((method) => {
    const operation = item[method]
    const parameters = [...(item.parameters ?? []), ...(operation.parameters ?? [])].map(resolved)
    return { ...operation, path, method: method.toUpperCase(), parameters, needsKey: (operation.security ?? api.security).length > 0 }
  }))
}

function drawIntroduction(main) {
  const scheme = api.components.securitySchemes.bearer
  main.append(h('div', { lang: 'en' }, h('p', { class: 'soft' }, `${api.info.title} ${api.info.version} · ${api.info.license.name}`), h('p', { class: 'lead' }, api.info.summary), prose(api.info.description), prose(scheme.description)))
  main.append(h('p', {}, h('span', { t: 'base' }), ' ', h('code', {}, base.replace(/\/$/, ''))))
  main.append(h('p', {}, h('span', { t: 'download' }), ' ', h('a', { href: 'openapi.yaml' }, 'openapi.yaml'), ' · ', h('a', { href: 'openapi.json' }, 'openapi.json')))
  main.append(h('p', {}, h('span', { t: 'studio' }), ' ', h('a', { href: 'keys' }, `${base}keys`)))
}

function drawOperation(operation) {
  const heading = `${operation.operationId}-title`
  return h('section', { class: 'operation', id: operation.operationId, 'aria-labelledby': heading, tabindex: '-1' },
    h('h3', { id: heading, lang: 'en' }, operation.summary),
    h('p', { class: 'address' }, method(operation.method), ' ', h('code', {}, operation.path), ' ',
      h('a', { class: 'soft', href: `#${operation.operationId}` }, operation.operationId)),
    prose(operation.description),
    operation.needsKey ? null : h('p', { class: 'soft', t: 'noKey' }),
    operation.parameters.length ? [h('h4', { t: 'parameters' }), fieldList(operation.parameters.map((one) => (
      { name: one.name, schema: withExamples(one), required: one.required, description: one.description, where: one.in })))] : null,
    operation.requestBody ? drawBody(operation.requestBody) : null,
    h('h4', { t: 'responses' }),
    Object.entries(operation.responses).map(([status, response]) => drawResponse(status, resolved(response))),
    tryIt(operation, resolved))
}

/** A parameter's schema, and the examples that stand beside it. */
function withExamples(parameter) {
  const schema = parameter.schema.$ref ? { ...resolved(parameter.schema) } : parameter.schema
  const values = parameter.example !== undefined ? [parameter.example] : Object.values(parameter.examples ?? {}).map((one) => one.value)
  return values.length ? { ...schema, examples: values } : schema
}

function drawBody(body) {
  return [h('h4', { t: 'body' }), prose(body.description), Object.entries(body.content).map(([type, media]) => drawMedia(type, media))]
}

function drawMedia(type, media) {
  const examples = Object.entries(media.examples ?? (media.example === undefined ? {} : { '': { value: media.example } }))
  return h('div', { class: 'media' }, h('p', {}, h('code', {}, type), ' ', media.schema?.$ref ? reference(media.schema.$ref) : null),
    media.schema ? (media.schema.$ref ? unfold(media.schema) : shape(media.schema)) : null,
    examples.map(([name, example]) => h('details', { class: 'example' },
      h('summary', {}, h('span', { t: 'example' }), name ? [' ', h('span', { lang: 'en' }, inline(resolved(example).summary ?? name))] : null),
      code(JSON.stringify(resolved(example).value, null, 2), name || 'example'))))
}

function reference(target) {
  return h('a', { class: 'type', href: `#schema-${nameOf(target)}` }, nameOf(target))
}

/** The fields of a named schema, drawn when somebody opens them: they are among the schemas already. */
function unfold(schema) {
  const details = h('details', {}, h('summary', { t: 'fields' }))
  details.addEventListener('toggle', () => details.append(...shape(resolved(schema)).filter(Boolean)), { once: true })
  return details
}

function drawResponse(status, response) {
  const headers = Object.entries(response.headers ?? {}).map(([name, header]) => [name, resolved(header)])
  const [first] = (response.description ?? '').trim().split('\n\n')
  return h('details', { class: `response s${status[0]}` },
    h('summary', {}, h('strong', {}, status), ' ', h('span', { lang: 'en' }, inline(first))),
    headers.length ? [h('p', { class: 'soft', t: 'headers' }), fieldList(headers.map(([name, header]) => (
      { name, schema: header.schema, required: header.required, description: header.description })))] : null,
    Object.entries(response.content ?? {}).map(([type, media]) => drawMedia(type, media)))
}

function method(name) {
  return h('span', { class: `method ${name.toLowerCase()}` }, name)
}

function drawSchema(name, schema) {
  return h('section', { class: 'schema', id: `schema-${name}`, 'aria-labelledby': `${name}-title`, tabindex: '-1' },
    h('h3', { id: `${name}-title` }, h('code', {}, name)), h('p', { class: 'type' }, [schema.type ?? ''].flat().join(' | ')),
    prose(schema.description), shape(schema))
}

function group(title, links, lang) {
  return h('div', { class: 'group' }, h('h2', lang ? { lang } : { t: 'schemas' }, ...(lang ? [title] : [])), h('ul', {}, links))
}

/** What a search looks in: the names of an operation's or a schema's fields and all that is said of them. */
const words = (value) => JSON.stringify(value).toLowerCase()

function entry(id, content, searched) {
  const item = h('li', {}, h('a', { href: `#${id}` }, content))
  item.searched = searched
  return item
}

function draw(main, contents) {
  const all = operations()
  drawIntroduction(main)
  for (const { name, description } of api.tags) {
    const own = all.filter((operation) => operation.tags[0] === name)
    contents.append(group(name, own.map((one) => entry(one.operationId, [method(one.method), h('span', { lang: 'en' }, one.summary)], words([one, one.parameters]))), 'en'))
    main.append(h('h2', { id: `tag-${name}`, class: 'tag', lang: 'en' }, name), prose(description), ...own.map(drawOperation))
  }
  const schemas = Object.entries(api.components.schemas)
  contents.append(group('', schemas.map(([name, schema]) => entry(`schema-${name}`, h('code', {}, name), words([name, schema])))))
  main.append(h('h2', { id: 'schemas', class: 'tag', t: 'schemas' }), ...schemas.map(([name, schema]) => drawSchema(name, schema)))
}

/** Leaves those in the contents that hold every word of the search. */
function search(contents, text) {
  const wanted = text.toLowerCase().split(/\s+/).filter(Boolean)
  const items = [...contents.querySelectorAll('li')]
  for (const item of items) item.hidden = !wanted.every((word) => item.searched.includes(word))
  for (const one of contents.querySelectorAll('.group')) one.hidden = !one.querySelector('li:not([hidden])')
  const n = items.filter((item) => !item.hidden).length
  if (!wanted.length) find('matches').textContent = ''
  else say(find('matches'), n ? 'matches' : 'nothing', { n })
}

// Choices that the studio shares; without storage they are forgotten, and the page works all the same.
function remembered(name) {
  try {
    return localStorage.getItem(`tenuto.${name}`)
  } catch {
    return null
  }
}

function remember(name, value) {
  try {
    localStorage.setItem(`tenuto.${name}`, value)
  } catch {
    return
  }
}

function wear(theme) {
  if (theme === 'auto') delete document.documentElement.dataset.theme
  else document.documentElement.dataset.theme = theme
}

function choices() {
  const languages = ['zh', 'en']
  const preferred = navigator.languages.some((name) => name.startsWith('zh')) ? 'zh' : 'en'
  const language = languages.includes(remembered('language')) ? remembered('language') : preferred
  const theme = ['light', 'dark'].includes(remembered('theme')) ? remembered('theme') : 'auto'
  find('language').value = language
  find('theme').value = theme
  wear(theme)
  find('language').addEventListener('change', (event) => (speak(event.target.value), remember('language', event.target.value)))
  find('theme').addEventListener('change', (event) => (wear(event.target.value), remember('theme', event.target.value)))
  return language
}

/** Where the address points to: drawn only now, so the browser has not found it. */
function arrive() {
  const target = find(decodeURIComponent(location.hash.slice(1)))
  target?.scrollIntoView()
  target?.focus({ preventScroll: true })
}

async function begin() {
  const language = choices()
  speak(language)
  const main = find('page')
  const contents = find('contents')
  const wide = matchMedia('(min-width: 60rem)')
  const fold = () => (find('fold').open = wide.matches)
  wide.addEventListener('change', fold)
  fold()
  try {
    api = await (await fetch('openapi.json', { credentials: 'omit' })).json()
  } catch {
    main.append(h('p', { role: 'alert', t: 'failed' }))
    return
  }
  draw(main, contents)
  speak(language)
  arrive()
  contents.addEventListener('click', (event) => event.target.closest('a') && !wide.matches && (find('fold').open = false))
  find('search').addEventListener('input', (event) => search(contents, event.target.value))
  find('search').addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && !event.isComposing) contents.querySelector('li:not([hidden]) a')?.click()
  })
  find('key').addEventListener('change', checkKey)
  find('key-form').addEventListener('submit', (event) => (event.preventDefault(), checkKey()))
  document.title = `${t('title')} · Tenuto`
}

void begin()
