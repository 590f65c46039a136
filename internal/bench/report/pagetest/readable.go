package pagetest

import "strings"

// faint lists the texts whose contrast is below the minimum of WCAG level AA. It considers only
// plain backgrounds, which may overlap. It ignores texts behind an open dialog.
const faint = `(() => {
  const parse = (colour) => { const [r, g, b, a = 1] = colour.match(/[\d.]+/g).map(Number); return [r, g, b, a]; };
  const over = ([r, g, b, a], below) => [r, g, b].map((v, i) => v * a + below[i] * (1 - a));
  const behind = (node) => {
    if (!node) return [255, 255, 255];
    const colour = parse(getComputedStyle(node).backgroundColor);
    return colour[3] === 1 ? colour.slice(0, 3) : over(colour, behind(node.parentElement));
  };
  const luminance = (colour) => {
    const [r, g, b] = colour.map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const out = [];
  for (const node of (document.querySelector("dialog[open]") ?? document.body).querySelectorAll("*")) {
    const text = [...node.childNodes].filter((child) => child.nodeType === Node.TEXT_NODE)
      .map((child) => child.data).join("").trim();
    if (!text || !node.checkVisibility() || node.matches("script, style")) continue;
    const below = behind(node);
    const [a, b] = [luminance(over(parse(getComputedStyle(node).color), below)), luminance(below)]
      .sort((x, y) => y - x);
    const contrast = (a + 0.05) / (b + 0.05);
    if (contrast < 4.5) out.push(contrast.toFixed(1) + ": " + text);
  }
  return out;
})()`

// wide lists the elements that are wider than their containers, except those that scroll in their
// own box.
const wide = `["html", "body", "figure", ".chart", ".legend", ".settings", "dialog", "dialog .body",
  "dialog .lanes:not(.many)"].filter((selector) =>
  [...document.querySelectorAll(selector)].some((node) =>
    node.scrollWidth > Math.max(node.clientWidth, selector === "html" ? innerWidth : 0)))`

// Readable fails the test if the page is wider than the window, or has a text with too little
// contrast to its background.
func (b *Tab) Readable(name string) {
	b.t.Helper()
	if out := Eval[[]string](b, wide); len(out) > 0 {
		b.t.Errorf("%s: wider than its place: %s", name, strings.Join(out, ", "))
	}
	if out := Eval[[]string](b, faint); len(out) > 0 {
		b.t.Errorf("%s: low contrast:\n%s", name, strings.Join(out, "\n"))
	}
}
