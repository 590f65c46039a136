package mutants

import (
	"cmp"
	"path"
)

// saleMutant is a fault in a sale: in the last hold stage, in the consumer of accepted orders, in the
// repair of a stock, or in a restock.
type saleMutant struct {
	File     string // relative to the root of the module
	Old, New string // the text to replace, which occurs once in the file, and its replacement
	Breaks   string // what goes wrong with the fault
	Test     string // the test that notices the fault
	In       string // the package of the test; "" means the package of File
}

func (m saleMutant) edit() edit { return edit{m.File, m.Old, m.New} }

// tests returns the folder of the test.
func (m saleMutant) tests() string { return cmp.Or(m.In, path.Dir(m.File)) }

// inTheLab is the folder of the package whose tests run the tables of the lab.
const inTheLab = "internal/lab/anomalies"

// inTheStock is the folder of the package whose tests consume accepted orders.
const inTheStock = "internal/stock"

// ofSales returns the mutants of sales.
func ofSales() []saleMutant {
	const (
		claim = "internal/holds/h3_claim/stage.go"
		eats  = "internal/stock/stream/consumer.go"
		judge = "internal/stock/stream_write.go"
		heals = "internal/stock/repair.go"
		adds  = "internal/stock/restock.go"
	)
	return []saleMutant{
		{claim, `AND token = ? AND status = 'held' AND "+due`, `AND (token = ? OR 1 = 1) AND status = 'held' AND "+due`,
			"a transition does not carry the token",
			"TestTransitionCarriesTheToken", ""},
		{claim, `if err == nil && h.Token != token {`, `if false {`, "the token of another hold ends a hold",
			"TestWrongToken", ""},
		{claim, `due := "expires_at > "`, `due := "0 < "`, "a hold that has expired is paid",
			"TestPromises/Calm", ""},
		{claim, `AND status = 'held' AND "+due`, `AND status <> '' AND "+due`, "a hold ends twice",
			"TestEverythingIsAsOnRecord/holds", inTheLab},
		{claim, `units + ? <= ?)"`, `units + ? <= ? OR 1 = 1)"`, "the limit is not part of the step",
			"TestEverythingIsAsOnRecord/holds", inTheLab},
		{claim, `AND remaining >= ?"`, `AND ? IS NOT NULL"`, "the stock is not part of the step", "TestRush", ""},
		{claim, `remaining = remaining + ?,`, `remaining = remaining + 0 * ?,`, "a hold that ends gives no units back",
			"TestPromises/Calm", ""},
		{claim, `units = units - ?`, `units = units - 0 * ?`, "a hold that ends counts for the limit of its buyer",
			"TestPromises/Calm", ""},
		{claim, `WHERE sku = ? AND sale_id = ?"+s.sql.Share`, `WHERE sku = ? AND (sale_id = ? OR 1 = 1)"+s.sql.Share`,
			"a hold of a sale that is over is paid", "TestSituations/OldSale", ""},
		{claim, "		return s.insertOrder(ctx, tx, order)\n	})\n",
			"		return nil\n	})\n	if err == nil {\n		err = s.inTx(ctx, func(tx *sql.Tx) error { " +
				"return s.insertOrder(ctx, tx, order) })\n	}\n", "the order is not in the transaction of its hold",
			"TestPaymentPaysOnce", ""},
		{claim, "		return s.insert(ctx, tx, r)\n",
			"		if err := tx.Commit(); err != nil {\n			return err\n		}\n" +
				"		return s.inTx(ctx, func(tx *sql.Tx) error { return s.insert(ctx, tx, r) })\n",
			"the hold is not in the transaction that takes its units", "TestEverythingIsAsOnRecord/holds", inTheLab},
		{claim, `return "status = 'held' AND expires_at <= "`, `return "expires_at <= "`,
			"a hold that has ended expires once more", "TestExpiredIsFree", ""},
		{claim, `if err = s.makeRoom(ctx, r, err); err != nil {`, `if true {`,
			"the units of an expired hold wait for a sweep", "TestExpiredIsFree", ""},

		{eats, `		fates, err := r.sale.Write(`,
			"		_ = r.streams.settle(ctx, r.sku, entries)\n		fates, err := r.sale.Write(",
			"orders are acknowledged before they are written", "TestEverythingIsAsOnRecord/behind", inTheLab},
		{eats, `if time.Since(r.claimed) >= r.ClaimAfter/4 {`, `if false {`,
			"nobody takes over what a dead consumer has read", "TestDeadConsumersLoseNothing", inTheStock},
		{"internal/stock/stream/stream.go", `ID: text("id"), SKU: sku`,
			`ID: fmt.Sprint(time.Now().UnixNano()), SKU: sku`, "each attempt writes the order under another id",
			"TestDeadConsumersLoseNothing", inTheStock},
		{judge, `case written[e.ID]:`, `case false:`, "an order that is written is not recognised",
			"TestAcceptedOrdersAreWrittenBeforeACount", ""},
		{judge, `case e.Quantity > left:`, `case false:`, "orders are written for units that there are not",
			"TestTheRowRefusesWhatAnOlderStockSold", ""},
		{judge, `gorm.Expr("remaining - ?", units)`, `gorm.Expr("remaining - 0 * ?", units)`,
			"orders do not take their units from the row", "TestTheRowRefusesWhatAnOlderStockSold", ""},
		{judge, `case e.Generation != item.Generation || e.SaleID != item.SaleID:`, `case e.SaleID != item.SaleID:`,
			"an order is written after its buyer was told that it is not", "TestEverythingIsAsOnRecord/behind",
			inTheLab},

		{heals, `return s.beginGeneration(ctx, tx, item, left)`,
			`return s.redis.rdb.Set(ctx, item.generation().stock(item.SKU), left, 0).Err()`,
			"the repair overwrites the stock, with no mark", "TestRepairDuringASaleOversellsOnlyIfItOverwrites",
			""},
		{"internal/stock/orders.go", "oversell_items WHERE sku = ? AND generation = ?\"",
			"oversell_items WHERE sku = ? AND (generation = ? OR 1 = 1)\"",
			"an order is written although its units are on sale again",
			"TestRepairDuringASaleOversellsOnlyIfItOverwrites", ""},
		{heals, `last, ended, err := s.endStream(ctx, tx, item)`, `last, ended, err := int64(0), false, error(nil)`,
			"the repair counts without the accepted orders", "TestRepairOfAStream", ""},

		{adds, `err = s.startGeneration(ctx, tx, item, item.Family)`,
			`err = s.redis.putBack(ctx, sku, item.generation(), add)`,
			"a holder overwrites the units that a restock has added", "TestRestockBesideAHolder", ""},
		{adds, `err = s.beginGeneration(ctx, tx, item, 0)`, `err = tx.setRemaining(item, item.Remaining)`,
			"a holder overwrites the units that a restock has added in the database", "TestRestockBesideAHolder", ""},
	}
}
