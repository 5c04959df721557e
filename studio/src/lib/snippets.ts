// Requests as a person can run them: curl and Python, for a new key and for a job that was made.

/** A text between single quotes of a shell. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}

/** A first request with a key, for the shell. */
export function curlWithKey(origin: string, key: string, model: string, text: string): string {
  return jobCurl(origin, key, JSON.stringify({ model, parameters: { text } }))
}

/** The same request as a job, with a key of the reader's own in the variable KEY. */
export function curlOfJob(origin: string, body: string): string {
  return jobCurl(origin, '$KEY', body)
}

function jobCurl(origin: string, key: string, body: string): string {
  return [
    `curl -s ${origin}/v1/jobs`,
    `  -H "Authorization: Bearer ${key}"`,
    `  -H "Idempotency-Key: $(uuidgen)"`,
    `  -H "Content-Type: application/json"`,
    `  -d ${quoted(body)}`,
  ].join(' \\\n')
}

/** A first request with a key, in Python's own library: speak, wait, save. */
export function pythonWithKey(origin: string, key: string, model: string, text: string): string {
  return `import json, time, urllib.request, uuid

URL, KEY = ${JSON.stringify(origin)}, ${JSON.stringify(key)}

def call(path, body=None):
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    if body:
        headers["Idempotency-Key"] = str(uuid.uuid4())
    data = json.dumps(body).encode() if body else None
    return urllib.request.urlopen(urllib.request.Request(URL + path, data, headers))

job = json.load(call("/v1/jobs", {"model": ${JSON.stringify(model)}, "parameters": {"text": ${JSON.stringify(text)}}}))
while job["state"] in ("submitting", "queued", "running"):
    time.sleep(1)
    job = json.load(call(f"/v1/jobs/{job['id']}"))
if job["state"] != "succeeded":
    raise SystemExit(job["error"] or job["state"])
with open("speech.wav", "wb") as file:
    file.write(call(f"/v1/artifacts/{job['artifacts'][0]['id']}/content").read())
`
}
