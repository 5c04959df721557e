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
