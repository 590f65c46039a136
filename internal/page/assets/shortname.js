// The short names of strategies, such as v2 for v2_ttl, which addresses may have.

/**
 * expand is the only one of the names that begins with name, as in the shop's flags and API. A name that none or
 * several begin with is returned as it is.
 */
export function expand(name, names) {
  if (name === "" || names.includes(name)) return name;
  const longer = names.filter((n) => n.startsWith(name));
  return longer.length === 1 ? longer[0] : name;
}
