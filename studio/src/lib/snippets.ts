// Work as a person can run it elsewhere: curl, the command line, Python, openai-python, JavaScript. Each snippet runs as it
// stands and ends with a file whose SHA-256 is checked; the key is in the variable TENUTO_API_KEY.
import { writeJson } from './http.ts'
import type { Kind } from './types.ts'

export type Form = 'curl' | 'cli' | 'python' | 'openai' | 'javascript'
type Parameters = Record<string, unknown>
/**
 * Work to be written down. Of recognition, `file` is the recording on the reader's disk; where it is stored already, `input`
 * is its id, and requests name that. The commands and our own Python always send the file.
 */
export type Work = { kind: Kind; model: string; parameters: Parameters; file?: string; input?: string }

const RESULTS: Record<Kind, string> = { speech: 'speech.wav', image: 'picture.png', recognition: 'transcript.json', chat: '' }
const VERBS: Record<Kind, string> = { speech: 'say', image: 'draw', recognition: 'transcribe', chat: 'chat' }
const RESOURCES: Record<Kind, string> = { speech: 'speech', image: 'images', recognition: 'recognition', chat: 'chat.completions' }
// The parameter that a command or a method takes first, without its name.
const FIRST: Partial<Record<Kind, string>> = { speech: 'text', image: 'prompt', chat: 'messages' }

/** The forms in which work can be run. */
export function formsOf(work: Work): Form[] {
  const command: Form[] = hasHistory(work) ? [] : ['cli']
  return ['curl', ...command, 'python', 'openai', 'javascript']
}

/** A first request with a key that was just made, for the shell. */
export function curlWithKey(origin: string, key: string, model: string, text: string): string {
  return `export TENUTO_API_KEY=${quoted(key)}\n${jobCurl(origin, { kind: 'speech', model, parameters: { text } })}`
}

/** The work in one form, for the service at this address. */
export function snippetOf(form: Form, origin: string, work: Work): string {
  if (form === 'cli') return commandOf(origin, work)
  if (form === 'python') return pythonOf(origin, work)
  if (form === 'openai') return openaiOf(origin, work)
  if (form === 'javascript') return work.kind === 'chat' ? chatScript(origin, work) : jobScript(origin, work)
  return work.kind === 'chat' ? chatCurl(origin, work) : jobCurl(origin, work)
}

/** A text between single quotes of a shell. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}

/** The name that a recording has once it is FLAC, which is what the API takes. */
export function flacName(name: string): string {
  return `${name.replace(/\.[^./\\]{1,5}$/, '')}.flac`
}

// --- curl ----------------------------------------------------------------------------------------------------------

const CURL_HEAD = (origin: string): string => `sh -eu <<'END'
: "\${TENUTO_API_KEY:?Set TENUTO_API_KEY to an API key first}"
url=${quoted(origin)}
api() { curl --silent --show-error --retry 5 --header "Authorization: Bearer $TENUTO_API_KEY" "$@"; }`

const CURL_SUM = 'if ! command -v sha256sum >/dev/null; then sha256sum() { shasum -a 256 "$@"; }; fi'

const CURL_WAIT = `id=$(printf %s "$job" | grep -o '"id": *"job_[^"]*"' | head -n 1 | cut -d '"' -f 4)
while [ -n "$id" ]; do
  case $(printf %s "$job" | grep -o '"state": *"[^"]*"' | head -n 1 | cut -d '"' -f 4) in
    succeeded) break ;;
    submitting | queued | running) sleep 1; job=$(api "$url/v1/jobs/$id?wait=20") ;;
    *) id= ;;
  esac
done
if [ -z "$id" ]; then printf '%s\\n' "$job" >&2; exit 1; fi
artifact=$(printf %s "$job" | sed 's/.*"artifacts": *//' | grep -o 'artifact_[0-9a-z]*' | head -n 1)
sum=$(printf %s "$job" | sed 's/.*"artifacts": *//' | grep -o '"sha256": *"[^"]*"' | head -n 1 | cut -d '"' -f 4)`

function jobCurl(origin: string, work: Work): string {
  const result = RESULTS[work.kind]
  return `${CURL_HEAD(origin)}
${CURL_SUM}
${curlUpload(work)}job=$(api --header "Idempotency-Key: $(date +%s)-$$" --header 'Content-Type: application/json' \\
  --data ${curlBody(work)} "$url/v1/jobs")
${CURL_WAIT}
api --output ${result} "$url/v1/artifacts/$artifact/content"
echo "$sum  ${result}" | sha256sum -c -
END
`
}

function curlUpload(work: Work): string {
  if (!isFromDisk(work)) return ''
  return `file=${quoted(flacName(work.file ?? 'recording'))}
input=$(api --header 'Content-Type: audio/flac' --header "X-Service-Content-SHA256: $(sha256sum <"$file" | cut -c 1-64)" \\
  --data-binary "@$file" "$url/v1/input-artifacts")
id=$(printf %s "$input" | grep -o '"id": *"artifact_[^"]*"' | cut -d '"' -f 4)
if [ -z "$id" ]; then printf '%s\\n' "$input" >&2; exit 1; fi
`
}

function curlBody(work: Work): string {
  if (!isFromDisk(work)) return quoted(bodyOf(work))
  // The id is known only when the shell runs.
  return `${quoted(`${bodyOf(work).slice(0, -1)},"input_artifact_ids":["`)}"$id"'"]}'`
}

function chatCurl(origin: string, work: Work): string {
  return `${CURL_HEAD(origin)}
api --fail-with-body --header 'Content-Type: application/json' --data ${quoted(bodyOf(work))} "$url/v1/chat/completions"
echo
END
`
}

// --- commands ------------------------------------------------------------------------------------------------------

function commandOf(origin: string, work: Work): string {
  const first = FIRST[work.kind]
  const text = work.kind === 'recognition' ? (work.file ?? 'recording.flac') : work.kind === 'chat' ? lastMessage(work) : String(work.parameters[first!])
  // A text that is the name of a file would be taken for the file.
  const isPiped = work.kind === 'speech'
  const options = Object.entries(work.parameters).flatMap(([name, value]) => (name === first ? [] : [option(work.kind, name, value)]))
  if (work.kind === 'chat') options.push(...system(work).map((said) => `--system ${quoted(said)}`))
  const output = work.kind === 'chat' ? [] : [`--output ${RESULTS[work.kind]}`]
  const line = [`tenuto ${VERBS[work.kind]} --model ${quoted(work.model)}`, ...options, ...output, isPiped ? '-' : `-- ${quoted(text)}`]
  return `export TENUTO_BASE_URL=${quoted(origin)}
${isPiped ? `printf %s ${quoted(text)} | ` : ''}${line.join(' \\\n  ')}
`
}

function option(kind: Kind, name: string, value: unknown): string {
  if (kind === 'chat') return `--${name.replaceAll('_', '-')} ${quoted(String(value))}`
  const isWord = typeof value === 'string' && (name === 'seed' || !looksLikeJson(value))
  return `--param ${quoted(`${name}=${isWord ? value : JSON.stringify(value)}`)}`
}

function looksLikeJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

// --- Python --------------------------------------------------------------------------------------------------------

function pythonOf(origin: string, work: Work): string {
  const { kind } = work
  const first = kind === 'recognition' ? (work.file ?? 'recording.flac') : work.parameters[FIRST[kind]!]
  const named = Object.entries({ model: work.model, ...work.parameters }).filter(([name]) => name !== FIRST[kind])
  const call = `client.${RESOURCES[kind]}.create(
        ${python(first)},
${named.map(([name, value]) => `        ${name}=${python(name === 'seed' ? BigInt(String(value)) : value)},\n`).join('')}    )`
  const body = kind === 'chat' ? `print(${call}.content)` : `job = ${call}
    print(job.download("${RESULTS[kind]}"))`
  return `import os

from tenuto_client import Tenuto

with Tenuto(os.environ["TENUTO_API_KEY"], ${python(origin)}) as client:
    ${body}
`
}

// Which method of openai-python does the work, and what becomes of its answer.
const OPENAI: Record<string, { method: string; end: string; needs: string }> = {
  speech: { method: 'audio.speech.create', end: `answer.write_to_file("${RESULTS.speech}")`, needs: '' },
  image: {
    method: 'images.generate', needs: 'import base64\n',
    end: `with open("${RESULTS.image}", "wb") as file:\n    file.write(base64.b64decode(answer.data[0].b64_json))`,
  },
  chat: { method: 'chat.completions.create', end: 'print(answer.choices[0].message.content)', needs: '' },
  recognition: { method: 'audio.transcriptions.create', end: 'print(answer.text)', needs: '' },
}

function openaiOf(origin: string, work: Work): string {
  const { method, end, needs } = OPENAI[work.kind]!
  const named = Object.entries(openaiParameters(work))
  const file = work.kind === 'recognition' ? `    file=open(${python(work.file ?? 'recording.flac')}, "rb"),\n` : ''
  return `${needs}import os

from openai import OpenAI

client = OpenAI(base_url=${python(`${origin}/v1`)}, api_key=os.environ["TENUTO_API_KEY"])
answer = client.${method}(
${file}${named.map(([name, value]) => `    ${name}=${python(value)},\n`).join('')})
${end}
`
}

/** The work under OpenAI's names; what OpenAI has no name for goes along as it is. */
function openaiParameters({ kind, model, parameters }: Work): Parameters {
  if (kind === 'chat') return { model, ...parameters }
  if (kind === 'recognition') {
    const { language = 'zh', context: prompt, hotwords: keywords } = parameters
    return { model, ...(language === 'auto' ? {} : { language }), ...(prompt ? { prompt } : {}), ...(keywords ? { extra_body: { keywords } } : {}) }
  }
  const { text, voice_id: voice = 'default', stream: _, prompt, width, height, seed, ...others } = parameters
  const size = width && height ? { size: `${String(width)}x${String(height)}` } : {}
  const side = width && height ? {} : { ...(width ? { width } : {}), ...(height ? { height } : {}) }
  const more = { ...others, ...side, ...(seed === undefined ? {} : { seed: BigInt(String(seed)) }) }
  const body = Object.keys(more).length ? { extra_body: more } : {}
  if (kind === 'speech') return { model, voice, input: text, response_format: 'wav', ...body }
  return { model, prompt, ...size, ...body }
}

/** A value as Python writes it. */
export function python(value: unknown): string {
  if (value === true) return 'True'
  if (value === false) return 'False'
  if (value === null || value === undefined) return 'None'
  if (Array.isArray(value)) return `[${value.map(python).join(', ')}]`
  if (typeof value === 'object') return `{${Object.entries(value).map(([name, one]) => `${python(name)}: ${python(one)}`).join(', ')}}`
  return typeof value === 'bigint' ? String(value) : JSON.stringify(value)
}

// --- JavaScript ----------------------------------------------------------------------------------------------------

function jobScript(origin: string, work: Work): string {
  const result = RESULTS[work.kind]
  const disk = isFromDisk(work)
  return `import { createHash, randomUUID } from 'node:crypto'
import { ${disk ? 'readFile, ' : ''}writeFile } from 'node:fs/promises'

const url = ${JSON.stringify(origin)}
const headers = { Authorization: \`Bearer \${process.env.TENUTO_API_KEY}\` }
const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex')
const pause = (answer) =>
  new Promise((done) => setTimeout(done, 1000 * Math.max(1, Number(answer.headers.get('Retry-After')) || 3)))

async function call(path, options = {}, tries = 5) {
  const answer = await fetch(url + path, { ...options, headers: { ...headers, ...options.headers } })
  if (answer.ok) return answer
  if (![429, 503].includes(answer.status) || tries === 1) throw new Error(await answer.text())
  await pause(answer)
  return call(path, options, tries - 1)
}
${disk ? scriptUpload(work) : ''}
let answer = await call('/v1/jobs', {
  method: 'POST',
  headers: { 'Content-Type': 'application/json', 'Idempotency-Key': randomUUID() },
  body: ${scriptBody(work)},
})
let job = await answer.json()
while (['submitting', 'queued', 'running'].includes(job.state)) {
  await pause(answer)
  answer = await call(\`/v1/jobs/\${job.id}\`)
  job = await answer.json()
}
if (job.state !== 'succeeded') throw new Error(\`\${job.id}: \${job.error?.message ?? job.state}\`)
const [result] = job.artifacts
const content = Buffer.from(await (await call(\`/v1/artifacts/\${result.id}/content\`)).arrayBuffer())
if (sha256(content) !== result.sha256) throw new Error(\`\${result.id} did not arrive whole\`)
await writeFile('${result}', content)
console.log('${result}: OK')
`
}

function scriptUpload(work: Work): string {
  return `
const recording = await readFile(${JSON.stringify(flacName(work.file ?? 'recording'))})
const upload = await call('/v1/input-artifacts', {
  method: 'POST',
  headers: { 'Content-Type': 'audio/flac', 'X-Service-Content-SHA256': sha256(recording) },
  body: recording,
})
const input = (await upload.json()).artifact.id
`
}

function scriptBody(work: Work): string {
  const json = bodyOf(work)
  if (isFromDisk(work)) return `JSON.stringify({ ...${json}, input_artifact_ids: [input] })`
  // A seed may have more digits than a number of JavaScript holds: the JSON itself is sent then.
  return /"seed":\d{16,}/.test(json) ? JSON.stringify(json) : `JSON.stringify(${json})`
}

function chatScript(origin: string, work: Work): string {
  return `const answer = await fetch(${JSON.stringify(`${origin}/v1/chat/completions`)}, {
  method: 'POST',
  headers: { Authorization: \`Bearer \${process.env.TENUTO_API_KEY}\`, 'Content-Type': 'application/json' },
  body: JSON.stringify(${bodyOf(work)}),
})
if (!answer.ok) throw new Error(await answer.text())
console.log((await answer.json()).choices[0].message.content)
`
}

// --- what they share -----------------------------------------------------------------------------------------------

function bodyOf(work: Work): string {
  if (work.kind === 'chat') return JSON.stringify({ model: work.model, ...work.parameters })
  const stored = work.input === undefined ? {} : { input_artifact_ids: [work.input] }
  return writeJson({ model: work.model, parameters: work.parameters, ...stored })
}

function isFromDisk(work: Work): boolean {
  return work.kind === 'recognition' && work.input === undefined
}

type Message = { role: string; content: string }
const messages = (work: Work): Message[] => work.parameters.messages as Message[]
const system = (work: Work): string[] => messages(work).filter((one) => one.role === 'system').map((one) => one.content)
const lastMessage = (work: Work): string => messages(work).at(-1)?.content ?? ''

/** Whether a chat has earlier turns, which a command cannot be given. */
function hasHistory(work: Work): boolean {
  return work.kind === 'chat' && messages(work).some((one) => one.role === 'assistant')
}

/** A first request with a key, in Python's own library: speak, wait as the service says, save what was promised. */
export function pythonWithKey(origin: string, key: string, model: string, text: string): string {
  return `import email.utils, hashlib, json, time, urllib.error, urllib.request, uuid

URL, KEY = ${JSON.stringify(origin)}, ${JSON.stringify(key)}

def pause(headers):  # Retry-After: seconds or an HTTP date; 3 s when missing or unreadable, at least 1 s
    text = headers.get("Retry-After") or ""
    try:
        is_number = text.replace(".", "", 1).isdigit()
        seconds = float(text) if is_number else email.utils.parsedate_to_datetime(text).timestamp() - time.time()
    except (TypeError, ValueError):
        seconds = 3
    time.sleep(min(max(1, seconds), 7200))

def call(path, data=None, key="", tries=5):
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json", "Idempotency-Key": key}
    try:
        with urllib.request.urlopen(urllib.request.Request(URL + path, data, headers)) as answer:
            return answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        if error.code not in (429, 503) or tries == 1:
            raise SystemExit(error.read().decode())
        pause(error.headers)
    except urllib.error.URLError:
        if tries == 1:
            raise
        time.sleep(1)
    return call(path, data, key, tries - 1)  # the same body under the same key: never a second job

work = {"model": ${JSON.stringify(model)}, "parameters": {"text": ${JSON.stringify(text)}}}
headers, body = call("/v1/jobs", json.dumps(work).encode(), str(uuid.uuid4()))
job, until = json.loads(body), time.monotonic() + 7200
while job["state"] in ("submitting", "queued", "running"):
    if time.monotonic() > until:
        raise SystemExit(f"{job['id']} is still {job['state']}")
    pause(headers)
    headers, body = call(f"/v1/jobs/{job['id']}")
    job = json.loads(body)
if job["state"] != "succeeded":
    raise SystemExit(f"{job['id']}: {job.get('error') or job['state']}")
result = job["artifacts"][0]
for _ in range(5):
    headers, sound = call(f"/v1/artifacts/{result['id']}/content")
    if (headers["Content-Type"], len(sound)) == ("audio/wav", result["size_bytes"]) and (
        hashlib.sha256(sound).hexdigest() == result["sha256"]
    ):
        break
else:
    raise SystemExit(f"{result['id']} is not what was promised")
with open("speech.wav", "wb") as file:
    file.write(sound)
`
}
