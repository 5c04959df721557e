// Where the studio is on its host: at `/`, or below a prefix that the service has written into the page.

const base: string = globalThis.document?.documentElement.dataset.base ?? ''

/** The address of a path of the service, such as /jobs or /web/v1/jobs. */
export function at(path: string): string {
  return base + path
}

/** The address that programs call the service at. */
export function baseUrl(): string {
  return location.origin + base
}

/** The path of the service that an address of this host names; null where it is another's. */
export function under(address: string, prefix: string = base): string | null {
  if (address === prefix) return '/'
  return address.startsWith(`${prefix}/`) ? address.slice(prefix.length) : null
}
