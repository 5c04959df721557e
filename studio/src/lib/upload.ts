// Sending a file with its progress, which fetch does not tell.
import { ServiceUnreachable } from 'tenuto/errors.ts'
import { problemOf, readJson } from './http.ts'
import { at } from './place.ts'

/** Posts a file; `progress` hears how many of its bytes have left. */
export function upload<T>(
  path: string, file: Blob, headers: Record<string, string>, progress: (sent: number) => void, signal?: AbortSignal,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest()
    request.open('POST', at(path))
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value)
    request.upload.onprogress = (event) => progress(event.loaded)
    request.onerror = () => reject(new ServiceUnreachable('the connection broke'))
    request.onabort = () => reject(new DOMException('stopped', 'AbortError'))
    request.onload = () => {
      const said = { get: (name: string) => request.getResponseHeader(name) }
      if (request.status >= 200 && request.status < 300) resolve(readJson(request.responseText) as T)
      else reject(problemOf(request.status, said, request.responseText))
    }
    signal?.addEventListener('abort', () => request.abort())
    request.send(file)
  })
}
