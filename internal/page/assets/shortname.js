// The short names of strategies, such as v2 for v2_ttl, which addresses may contain.

/**
 * expand returns the only one of the names that begins with name, as in the shop's flags and API. If none or
 * several begin with it, name is returned unchanged.
 */
export function expand(name, names) {
  if (name === "" || names.includes(name)) return name;
  const longer = names.filter((n) => n.startsWith(name));
  return longer.length === 1 ? longer[0] : name;
}
