// Values that a tab keeps until it is closed, even if the page is loaded again.

/** recall returns the value stored under a name in this tab, or null. */
export function recall(name) {
  try {
    return JSON.parse(sessionStorage.getItem(name));
  } catch {
    return null;
  }
}

/** store keeps a value under a name in this tab, if the browser allows it. */
export function store(name, value) {
  try {
    sessionStorage.setItem(name, JSON.stringify(value));
  } catch {
    // Storage is off: the value is kept until the page is left.
  }
}
