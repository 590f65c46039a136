package sales

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/glebarez/go-sqlite"
	"gorm.io/gorm"

	"oversell/internal/holds"
	"oversell/internal/lab"
	"oversell/internal/stock"
)

// sale is one item on sale by holds, in a database of its own or in its own rows.
type sale struct {
	w     *lab.World
	units int64
	db    *gorm.DB // past all faults
	item  stock.Item
	audit *shop // at which the others buy in the end, past all faults

	mu       sync.Mutex
	captured []payment
	ids      int
}

// payment is money that was captured, and what became of it.
type payment struct {
	id       string
	refunded bool
}

// open puts an item on sale.
func open(w *lab.World, units int64) *sale {
	clockOnce.Do(registerClock) // before the first connection
	s := &sale{w: w, units: units, db: w.SideDatabase()}
	err := errors.Join(stock.Migrate(w.Context(), s.db), holds.Migrate(w.Context(), s.db))
	lab.Need(err == nil, "the tables could not be created: %v", err)
	till := stock.New(stock.Config{DB: s.db, Redis: w.Side, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	defer till.Close()
	s.item, err = till.Put(w.Context(), stock.Item{SKU: w.SKU, Initial: units, Keeper: stock.InHolds})
	lab.Need(err == nil, "the item could not be put on sale: %v", err)
	w.NameKey(w.SKU, "item")
	w.NameKey(s.item.SaleID, "sale-1")
	w.NameKey("oversell:h1:"+w.SKU, "h1")
	w.NameKey("oversell:h1:"+w.SKU+":"+s.item.SaleID, "h1")
	s.audit = &shop{s: s, Stage: s.stage(holds.Backends{Redis: w.Side, DB: pool(s.db)}, s.db)}
	return s
}

// leftKey is the counter of h1_counter.
func (s *sale) leftKey() string { return "oversell:h1:" + s.item.SKU + ":" + s.item.SaleID + ":left" }

func pool(db *gorm.DB) *sql.DB {
	p, err := db.DB()
	lab.Need(err == nil, "there is no database: %v", err)
	return p
}

// stage makes the subject's stage. The clock of SQLite would be that of the machine, and
// not the virtual one.
func (s *sale) stage(b holds.Backends, db *gorm.DB) holds.Stage {
	b.SQL = holds.DialectOf(db)
	if db.Name() == "sqlite" {
		b.SQL.Clock = clockName + "()"
	}
	newStage, ok := stages[s.w.Subject.Name]
	lab.Need(ok, "%s is no stage", s.w.Subject.Name)
	return newStage(b)
}

// clockName is a function of SQLite that returns the time in milliseconds.
const clockName = "oversell_lab_clock"

var clockOnce sync.Once

func registerClock() {
	sqlite.MustRegisterScalarFunction(clockName, 0, func(*sqlite.FunctionContext, []driver.Value) (driver.Value, error) {
		return time.Now().UnixMilli(), nil
	})
}

// newID returns an id for a hold, the same in every run but for the item.
func (s *sale) newID(who string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids++
	id := fmt.Sprintf("%.20s-%s-%d", s.w.SKU[len("lab-"):], who, s.ids)
	s.w.NameKey(id, "hold-"+who)
	s.w.NameKey("oversell:h1:hold:"+id, "hold:"+who)
	return id
}

// capture notes that a payment was captured.
func (s *sale) capture(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.captured = append(s.captured, payment{id: id})
}

// refund notes that a captured payment was refunded.
func (s *sale) refund(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.captured {
		if s.captured[i].id == id {
			s.captured[i].refunded = true
		}
	}
}

// verdict lets everybody else buy what can still be bought, and counts.
func (s *sale) verdict() lab.Verdict {
	rest := s.sellRest()
	sold := s.sold()
	if rest > 0 {
		s.w.Note("", "others buy what can still be bought: %d", rest)
	}
	switch {
	case sold > s.units:
		return s.w.Broke("", "%d of %d units were sold", sold, s.units)
	case sold < s.units:
		return s.w.Broke("", "%d of %d units are neither sold nor on sale", s.units-sold, s.units)
	}
	if v, ok := s.unpaid(); !ok {
		return v
	}
	return lab.Holds.Because("%d of %d units were sold, and every payment has one order or one refund", sold, s.units)
}

// sellRest ends what has expired and sells until nothing is left.
func (s *sale) sellRest() (rest int64) {
	s.sweepAll()
	for range mostBuyers {
		h, err := s.audit.ask("Z", 0)
		if errors.Is(err, holds.ErrSoldOut) {
			return rest
		}
		lab.Need(err == nil, "the rest could not be held: %v", err)
		_, err = s.audit.Claim(s.w.Context(), h.ID, h.Token, "payment-"+h.ID)
		lab.Need(err == nil, "the rest could not be sold: %v", err)
		rest++
	}
	lab.Need(false, "it is never sold out")
	return 0
}

// mostBuyers is more than any scenario has units.
const mostBuyers = 20

// sweepAll waits until no hold is left, and sweeps what has expired.
func (s *sale) sweepAll() {
	ctx := s.w.Context()
	for range 40 {
		_, err := s.audit.Sweep(ctx, s.item.SKU, 100)
		lab.Need(err == nil, "the holds could not be swept: %v", err)
		units, err := s.audit.Units(ctx, s.item.SKU, s.item.SaleID)
		lab.Need(err == nil, "the units could not be counted: %v", err)
		if units.Held == 0 {
			return
		}
		s.w.Sleep(s.w.TTL / 10)
	}
	lab.Need(false, "a hold never expires")
}

// sold counts the units in orders.
func (s *sale) sold() (units int64) {
	err := s.db.WithContext(s.w.Context()).Raw("SELECT COALESCE(SUM(quantity), 0) FROM oversell_orders WHERE sku = ? AND sale_id = ?", s.item.SKU, s.item.SaleID).Scan(&units).Error
	lab.Need(err == nil, "the orders could not be counted: %v", err)
	return units
}

// unpaid returns a verdict on a payment that does not have exactly one order or one refund.
func (s *sale) unpaid() (v lab.Verdict, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.captured {
		var orders int64
		err := s.db.WithContext(s.w.Context()).Raw("SELECT COUNT(*) FROM oversell_orders WHERE sku = ? AND sale_id = ? AND idempotency_key = ?", s.item.SKU, s.item.SaleID, p.id).Scan(&orders).Error
		lab.Need(err == nil, "the orders could not be counted: %v", err)
		switch name := s.w.Readable(p.id); {
		case orders == 0 && !p.refunded:
			return s.w.Broke("", "%s was captured, and has no order and no refund", name), false
		case orders > 0 && p.refunded:
			return s.w.Broke("", "%s has an order and a refund", name), false
		}
	}
	return v, true
}
