// A JSON Schema as people read it: a list of fields with their rules. Whatever has no words of its own is shown as JSON.
import { code, h, prose } from './elements.js'

const SHOWN = new Set(['type', 'description', 'properties', 'required', 'items', 'enum', 'const', 'default', 'pattern', 'format',
  'minimum', 'maximum', 'multipleOf', 'minLength', 'maxLength', 'minItems', 'maxItems', 'minProperties', 'maxProperties',
  'additionalProperties', 'anyOf', 'oneOf', 'examples', 'example', '$ref'])
const RANGES = [['range', 'minimum', 'maximum'], ['length', 'minLength', 'maxLength'], ['items', 'minItems', 'maxItems'], ['pairs', 'minProperties', 'maxProperties']]

/** The name of the schema that a reference leads to. */
export const nameOf = (reference) => reference.split('/').at(-1)

/** All that a schema says, except its own description, which stands above. */
export function shape(schema) {
  return [rules(schema), insides(schema)].flat()
}

/** A line for each field: name, type, whether it is required, description, rules, and what is in it. */
export function fieldList(entries) {
  return h('dl', { class: 'fields' }, entries.map(({ name, schema, required, description, where }) => h('div', {},
    h('dt', {}, h('code', {}, name), ' ', typeOf(schema), where ? [' ', h('span', { class: 'soft', t: `where_${where}` })] : null,
      required ? [' ', h('span', { class: 'required', t: 'required' })] : null),
    h('dd', {}, prose(description ?? schema.description), shape(schema)))))
}

/** The type of a field, in a few words; a named schema is a link to its section. */
function typeOf(schema) {
  if (schema.$ref) return link(schema)
  const options = schema.anyOf ?? schema.oneOf
  if (options) return h('span', { class: 'type' }, join(options.map(typeOf), ' | '))
  if (schema.type === 'array' && schema.items) return h('span', { class: 'type' }, 'array of ', typeOf(schema.items))
  return h('span', { class: 'type' }, [schema.type ?? 'any'].flat().join(' | '))
}

function link(schema) {
  return h('a', { class: 'type', href: `#schema-${nameOf(schema.$ref)}` }, nameOf(schema.$ref))
}

function join(elements, text) {
  return elements.flatMap((element, index) => (index ? [text, element] : [element]))
}

/** What a value must be beyond its type. */
function rules(schema) {
  const lines = []
  const add = (key, ...values) => lines.push(h('span', {}, h('span', { t: key }), ' ', join(values.map((one) => h('code', {}, one)), ' ')))
  if (schema.enum) add('oneOf', ...schema.enum.map(String))
  if ('const' in schema) add('always', JSON.stringify(schema.const))
  for (const [key, low, high] of RANGES) {
    if (low in schema || high in schema) add(key, `${schema[low] ?? ''}…${schema[high] ?? ''}`)
  }
  if (schema.multipleOf) add('multiple', String(schema.multipleOf))
  if (schema.format) add('format', schema.format)
  if (schema.pattern) add('pattern', schema.pattern)
  if ('default' in schema) add('default', JSON.stringify(schema.default))
  for (const example of schema.examples ?? []) add('example', typeof example === 'string' ? example : JSON.stringify(example))
  return lines.length ? h('p', { class: 'rules' }, join(lines, ' · ')) : null
}

/** The fields of an object, the items of an array, the choices, and rules that only JSON can say. */
function insides(schema) {
  const parts = []
  if (schema.properties) {
    parts.push(fieldList(Object.entries(schema.properties).map(([name, each]) => (
      { name, schema: each, required: schema.required?.includes(name) }))))
  }
  if (schema.additionalProperties === false && schema.properties) parts.push(h('p', { class: 'soft', t: 'closed' }))
  if (schema.additionalProperties?.type) parts.push(within('others', schema.additionalProperties))
  if (schema.items && hasMore(schema.items)) parts.push(within('eachItem', schema.items))
  for (const option of schema.anyOf ?? schema.oneOf ?? []) if (hasMore(option)) parts.push(within('either', option))
  const rest = Object.fromEntries(Object.entries(schema).filter(([name]) => !SHOWN.has(name)))
  if (Object.keys(rest).length) {
    parts.push(h('details', {}, h('summary', { t: 'rules' }), code(JSON.stringify(rest, null, 2), 'JSON Schema')))
  }
  return parts
}

const hasMore = (schema) => !schema.$ref && Object.keys(schema).some((name) => name !== 'type')

function within(key, schema) {
  return h('div', { class: 'within' }, h('p', {}, h('span', { t: key }), ': ', typeOf(schema)), prose(schema.description), shape(schema))
}
