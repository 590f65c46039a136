// The form that puts an item on sale again.

import { call, wantsToken } from "./api.js";
import { el, say, submitted, tokenInput } from "./dom.js";
import { t } from "./text.js";

/** newSale makes the form. item is the current item, and look fetches it again. */
export function newSale(sku, item, look) {
  const value = Math.min(item().initial, 1000000);
  const stock = el("input", { id: "stock", type: "number", min: 0, max: 1000000, value, required: true });
  const secret = tokenInput("secret");
  const field = el("div.pair", { hidden: true }, el("label", { for: "secret" }, t("page.token")), secret);
  const offered = el("p.small", { role: "status" });

  async function offer() {
    const { name, category, keeper, limit } = item();
    const body = { stock: Number(stock.value), name, category, keeper, limit };
    try {
      await call(`/api/items/${sku}`, { method: "PUT", body });
      offered.textContent = t("shop.offered");
      say(offered.textContent);
    } catch (error) {
      offered.textContent = error.message;
      if (wantsToken(error)) {
        field.hidden = false;
        secret.focus();
      }
    }
    await look();
  }

  return el("form.anew", { onsubmit: submitted(offer) },
    el("div.pair", el("label", { for: "stock" }, t("shop.stock")), stock,
      el("button", { type: "submit" }, t("shop.offer"))), field, offered);
}
