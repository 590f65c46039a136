//go:build system

package show_test

import (
	"fmt"
	"strings"
)

// faint lists the visible texts whose contrast is below WCAG level AA. It only
// handles plain backgrounds, one over the other.
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
    const text = [...node.childNodes].filter((child) => child.nodeType === Node.TEXT_NODE).map((child) => child.data).join("").trim();
    if (!text || !node.checkVisibility() || node.matches("script, style")) continue;
    const below = behind(node);
    const [a, b] = [luminance(over(parse(getComputedStyle(node).color), below)), luminance(below)].sort((x, y) => y - x);
    const contrast = (a + 0.05) / (b + 0.05);
    if (contrast < 4.5) out.push(contrast.toFixed(1) + ": " + text);
  }
  return out;
})()`

// wide lists the elements that are wider than their container, except those
// that scroll in their own box.
const wide = `["html", "body", "dialog", "dialog .body", "dialog .lanes:not(.many)"].filter((selector) => {
  const node = document.querySelector(selector);
  return node && node.scrollWidth > Math.max(node.clientWidth, selector === "html" ? innerWidth : 0);
})`

// readable fails the test if the page is wider than the window, or has a text
// with too little contrast. It takes a screenshot.
func (b *tab) readable(name string) {
	b.t.Helper()
	b.keep(name)
	if out := eval[[]string](b, wide); len(out) > 0 {
		b.t.Errorf("%s: wider than the window: %s", name, strings.Join(out, ", "))
	}
	if out := eval[[]string](b, faint); len(out) > 0 {
		b.t.Errorf("%s: low contrast:\n%s", name, strings.Join(out, "\n"))
	}
}

// shows waits until the cell is open and its timeline is drawn.
func (b *tab) shows(title string) {
	b.t.Helper()
	b.until(fmt.Sprintf(`document.getElementById("cell").open && document.getElementById("cell-title").textContent === %q`, title))
}
