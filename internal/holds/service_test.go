package holds_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"

	"oversell/internal/backend/backendtest"
	"oversell/internal/catalog"
	"oversell/internal/holds"
	"oversell/internal/holds/holdstest"
	"oversell/internal/payment"
	"oversell/internal/stock"
)

func TestMain(m *testing.M) { os.Exit(backendtest.Main(m)) }

// must ends the test if err is not nil.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const h3 = "h3_claim"

// shop is a shop that sells one item with holds, together with its payment provider.
type shop struct {
	*holds.Service
	cfg   holds.Config
	db    *gorm.DB
	rdb   redis.UniversalClient
	stock *stock.Service
	item  stock.Item
	bank  *bank
}

// bank is a client of a payment provider over HTTP. Tests use its fields to make calls fail, and to
// do something after a call.
type bank struct {
	*payment.Client
	server         *payment.Server
	mu             sync.Mutex     // guards looked and refundKeys
	asked          atomic.Int64   // counts the calls, except refunds
	away           error          // if set, the error of every call
	afterAuthorise func() error   // called after an authorisation; its error replaces the reply
	afterCapture   func() error   // the same after a capture
	refunds        error          // if set, the error of every refund
	accepts        payment.Status // if set, the status of refunds, which the provider accepts but does not do
	refundKeys     []string
	looked         func(id string)
	stuck          error // if set, the error of every authorisation with the key "key"
	forgotten      bool  // if set, the provider has forgotten earlier idempotency keys
}

// reply returns the result of a call as the shop sees it.
func (b *bank) reply(p payment.Payment, err error, after func() error) (payment.Payment, error) {
	if err == nil && after != nil {
		err = after()
	}
	return p, err
}

func (b *bank) Authorise(ctx context.Context, r payment.Request) (payment.Payment, error) {
	if b.asked.Add(1); b.away != nil {
		return payment.Payment{}, b.away
	}
	if b.stuck != nil && strings.HasSuffix(r.Key, "/key") {
		return payment.Payment{}, b.stuck
	}
	if b.forgotten {
		r.Key += "/again"
	}
	p, err := b.Client.Authorise(ctx, r)
	return b.reply(p, err, b.afterAuthorise)
}

func (b *bank) Capture(ctx context.Context, id, key string) (payment.Payment, error) {
	if b.asked.Add(1); b.away != nil {
		return payment.Payment{}, b.away
	}
	p, err := b.Client.Capture(ctx, id, key)
	return b.reply(p, err, b.afterCapture)
}

func (b *bank) Refund(ctx context.Context, id, key string) (payment.Payment, error) {
	if err := errors.Join(b.refunds, b.away); err != nil {
		return payment.Payment{}, err
	}
	b.mu.Lock()
	b.refundKeys = append(b.refundKeys, strings.TrimPrefix(key, "refund/"+id))
	b.mu.Unlock()
	if b.accepts != "" {
		return payment.Payment{ID: id, Status: b.accepts}, nil
	}
	return b.Client.Refund(ctx, id, key)
}

func (b *bank) Payment(ctx context.Context, id string) (payment.Payment, error) {
	if b.asked.Add(1); b.away != nil {
		return payment.Payment{}, b.away
	}
	if b.looked != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.looked(id)
	}
	return b.Client.Payment(ctx, id)
}

func (b *bank) Find(ctx context.Context, reference string) ([]payment.Payment, error) {
	if b.asked.Add(1); b.away != nil {
		return nil, b.away
	}
	return b.Client.Find(ctx, reference)
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// each runs f in a shop that sells the given number of units, on embedded and on real backends. The
// shop does not sweep or settle by itself.
func each(t *testing.T, units int64, f func(t *testing.T, s *shop)) {
	t.Parallel()
	backendtest.Each(t, func(t *testing.T, rdb redis.UniversalClient, db *gorm.DB) {
		f(t, newShop(t, rdb, db, units, holds.Config{Sweep: time.Hour, Settle: time.Hour}))
	})
}

func newShop(t testing.TB, rdb redis.UniversalClient, db *gorm.DB, units int64, cfg holds.Config) *shop {
	t.Helper()
	must(t, errors.Join(stock.Migrate(t.Context(), db), holds.Migrate(t.Context(), db)))
	pool, err := db.DB()
	must(t, err)
	s := &shop{db: db, rdb: rdb, bank: newBank(t)}
	cfg.DB, cfg.Payments, cfg.Logger, cfg.Entries = db, s.bank, quiet, s.bank.server.Group
	cfg.Stages = catalog.Holds(holds.Backends{Redis: rdb, DB: pool, SQL: holds.DialectOf(db)})
	s.cfg = cfg
	s.Service = s.another(t)
	s.stock = stock.New(stock.Config{DB: db, Redis: rdb, Holds: s.Service, Logger: quiet})
	t.Cleanup(s.stock.Close)
	s.put(t, units)
	return s
}

// another returns another process of the shop.
func (s *shop) another(t testing.TB) *holds.Service {
	till := holds.New(s.cfg)
	t.Cleanup(till.Close)
	return till
}

func newBank(t testing.TB) *bank {
	server := payment.NewServer(payment.Config{Secret: []byte("secret"), Logger: quiet})
	address := httptest.NewServer(server)
	t.Cleanup(address.Close)
	client, err := payment.NewClient(payment.ClientConfig{URL: address.URL, Timeout: time.Hour})
	must(t, err)
	t.Cleanup(client.Close)
	return &bank{Client: client, server: server}
}

func (s *shop) put(t testing.TB, units int64) {
	t.Helper()
	var err error
	s.item, err = s.stock.Put(t.Context(), stock.Item{SKU: "hot", Initial: units, Keeper: stock.InHolds})
	must(t, err)
}

func (s *shop) hold(t testing.TB, stage, buyer string) holds.Hold {
	t.Helper()
	h, err := s.Hold(t.Context(), stage, holds.Request{SKU: "hot", Buyer: buyer, Quantity: 1})
	must(t, err)
	return h
}

// pay pays for a hold with the key "key", and fails unless the error is want.
func (s *shop) pay(t *testing.T, h holds.Hold, want error) holds.Order {
	t.Helper()
	o, err := s.Pay(t.Context(), h.ID, h.Token, "key")
	if !errors.Is(err, want) {
		t.Errorf("paying for a hold: got %v, want %v", err, want)
	}
	return o
}

// release releases a hold, and fails on an error.
func (s *shop) release(t *testing.T, h holds.Hold) {
	t.Helper()
	if err := s.Release(t.Context(), h.ID, h.Token); err != nil {
		t.Error(err)
	}
}

// delete deletes the item, and fails unless the error is want.
func (s *shop) delete(t *testing.T, want error) {
	t.Helper()
	if err := s.stock.Delete(context.WithoutCancel(t.Context()), "hot"); !errors.Is(err, want) {
		t.Errorf("deleting the item: got %v, want %v", err, want)
	}
}

// expireNow makes a hold expire now.
func (s *shop) expireNow(t *testing.T, h holds.Hold) {
	t.Helper()
	must(t, holdstest.Expire(t.Context(), s.db, s.rdb, h))
}

// expire makes a hold expire, and sweeps it.
func (s *shop) expire(t *testing.T, h holds.Hold) {
	t.Helper()
	s.expireNow(t, h)
	for name, stage := range s.cfg.Stages {
		if strings.HasPrefix(name, h.ID[:2]) {
			s.sweep(t, stage)
			return
		}
	}
	t.Fatalf("no stage has made the hold %s", h.ID)
}

// sweep ends the holds that have expired.
func (s *shop) sweep(t *testing.T, stage holds.Stage) {
	t.Helper()
	_, err := stage.Sweep(t.Context(), "hot", 100)
	must(t, err)
}

// want fails unless the audit has these figures, with nothing oversold, stranded or lost.
func (s *shop) want(t *testing.T, left, held, sold int64) {
	t.Helper()
	a, err := s.stock.Audit(t.Context(), "hot")
	must(t, err)
	if a.Remaining != left || a.Held != held || a.Sold != sold || a.Oversold != 0 || a.Stranded != 0 ||
		a.LostUpdates != 0 {
		t.Errorf("the audit finds %+v; want %d left, %d held, %d sold", a, left, held, sold)
	}
}

// books compares the provider's ledger with the orders. All but the given number of captures must
// have exactly one order or one refund.
func (s *shop) books(t *testing.T, wrong int) payment.Books {
	t.Helper()
	ledger, err := s.bank.Ledger(t.Context())
	must(t, err)
	var paid []string
	must(t, s.db.Raw("SELECT idempotency_key FROM oversell_orders").Scan(&paid).Error)
	orders := make(map[string]int)
	for _, id := range paid {
		orders[id]++
	}
	books := payment.Audit(ledger, orders)
	if books.ChargedWithoutOrder != wrong || books.OrdersWithoutCharge != 0 {
		t.Errorf("the books are %+v; want %d captures without order or refund", books, wrong)
	}
	return books
}

// money has the number of payments that reached each status.
type money struct{ authorised, captured, cancelled, refunded int }

// wantMoney checks the books, and how many payments reached each status.
func (s *shop) wantMoney(t *testing.T, want money) {
	t.Helper()
	b := s.books(t, 0)
	if got := (money{b.Authorised, b.Captured, b.Cancelled, b.Refunded}); got != want {
		t.Errorf("the payments are %+v, want %+v", got, want)
	}
}

// A paid hold becomes exactly one order, even if the buyer repeats the payment.
func TestPay(t *testing.T) {
	each(t, 2, func(t *testing.T, s *shop) {
		h := s.hold(t, h3, "a")
		s.want(t, 1, 1, 0)
		var all sync.WaitGroup
		orders := make([]holds.Order, 5)
		for i := range orders {
			all.Go(func() {
				var err error
				if orders[i], err = s.Pay(t.Context(), h.ID, h.Token, "key"); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		found, err := s.Order(t.Context(), h.ID)
		must(t, err)
		for _, o := range orders {
			if o.ID != h.ID || o.PaymentID != found.PaymentID {
				t.Errorf("the order is %+v, and %+v is on record", o, found)
			}
		}
		if _, err := s.Pay(t.Context(), h.ID, h.Token, "another"); !errors.Is(err, holds.ErrNotHeld) {
			t.Errorf("with another key: got %v, want %v", err, holds.ErrNotHeld)
		}
		s.want(t, 1, 0, 1)
		s.wantMoney(t, money{authorised: 2, captured: 1, cancelled: 1})
	})
}

// A buyer is not charged for a hold that cannot be paid.
func TestPayChargesNothingInVain(t *testing.T) {
	each(t, 3, func(t *testing.T, s *shop) {
		expired, released, other := s.hold(t, h3, "a"), s.hold(t, h3, "b"), s.hold(t, h3, "c")
		s.expire(t, expired)
		s.release(t, released)
		for name, try := range map[string]struct {
			hold holds.Hold
			key  string
			want error
		}{
			"expired":         {expired, "key", holds.ErrNotHeld},
			"released":        {released, "key", holds.ErrNotHeld},
			"a wrong token":   {holds.Hold{ID: other.ID, Token: other.Token + 1}, "key", holds.ErrToken},
			"an unknown hold": {holds.Hold{ID: "h3-none"}, "key", holds.ErrUnknownHold},
			"no id of ours":   {holds.Hold{ID: strings.Repeat("x", 10_000)}, "key", holds.ErrUnknownHold},
			"a key no header": {other, "a\nb", stock.ErrInvalid},
		} {
			if _, err := s.Pay(t.Context(), try.hold.ID, try.hold.Token, try.key); !errors.Is(err, try.want) {
				t.Errorf("%s: got %v, want %v", name, err, try.want)
			}
		}
		s.wantMoney(t, money{})
		s.want(t, 2, 1, 0)
	})
}

// A buyer who was charged repeats the request while the provider is unavailable. The reply must not
// say that nothing was charged.
func TestRepeatedPaymentWhileTheProviderIsAway(t *testing.T) {
	each(t, 2, func(t *testing.T, s *shop) {
		first := s.hold(t, h3, "a")
		repeat := func(h holds.Hold, want error) {
			t.Helper()
			s.bank.away = payment.ErrUnavailable
			_, err := s.Pay(t.Context(), h.ID, h.Token, "key")
			if errors.Is(err, holds.ErrPending) != (want == holds.ErrPending) || !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
			s.bank.away = nil
		}
		repeat(first, payment.ErrUnavailable)
		s.interrupt(t, first, &s.bank.afterCapture)
		repeat(first, holds.ErrPending)
		s.pay(t, first, nil)
		repeat(first, holds.ErrPending)
		s.books(t, 0)
	})
}

// reference returns the reference that payments for a hold have at the provider.
func reference(h holds.Hold) string { return fmt.Sprintf("%s/%d", h.ID, h.Token) }

// captured captures a payment for a hold, as if the process had died before it wrote the order.
func (s *shop) captured(t *testing.T, h holds.Hold) string {
	t.Helper()
	return s.charge(t, h, holds.DefaultPrice*h.Quantity, "EUR")
}

// charge captures a payment for a hold, bypassing the shop.
func (s *shop) charge(t *testing.T, h holds.Hold, amount int64, currency string) string {
	t.Helper()
	p, err := s.bank.Authorise(t.Context(),
		payment.Request{Key: fmt.Sprint("a/", h.ID, amount, currency), Reference: reference(h), Amount: amount,
			Currency: currency})
	if err == nil {
		_, err = s.bank.Client.Capture(t.Context(), p.ID, "c/"+p.ID)
	}
	must(t, err)
	return p.ID
}

// The process dies between the capture and the order. The webhook writes exactly one order, or
// refunds a late payment exactly once.
func TestWebhookMakesGood(t *testing.T) {
	each(t, 2, func(t *testing.T, s *shop) {
		inTime, late := s.hold(t, h3, "a"), s.hold(t, h3, "b")
		first, second := s.captured(t, inTime), s.captured(t, late)
		s.expire(t, late)
		s.books(t, 2)
		var all sync.WaitGroup
		for range 4 {
			for _, id := range []string{first, second} {
				all.Go(func() {
					if err := s.Captured(t.Context(), id); err != nil {
						t.Error(err)
					}
				})
			}
		}
		all.Wait()
		s.wantMoney(t, money{authorised: 2, captured: 2, refunded: 1})
		if o, err := s.Order(t.Context(), inTime.ID); err != nil || o.PaymentID != first {
			t.Errorf("the order is %+v, %v", o, err)
		}
		s.want(t, 1, 0, 1)
	})
}

// A payment of another amount than the price of its hold is refunded, whether the webhook or the
// settlement finds it. The hold can still be paid. This is so in every stage.
func TestPaymentOfAnotherAmountIsRefunded(t *testing.T) {
	for _, stage := range catalog.HoldStages() {
		t.Run(stage.Name, func(t *testing.T) {
			each(t, 2, func(t *testing.T, s *shop) {
				h, err := s.Hold(t.Context(), stage.Name, holds.Request{SKU: "hot", Buyer: "a", Quantity: 2})
				must(t, err)
				for _, wrong := range []payment.Money{{Amount: 1, Currency: "EUR"},
					{Amount: holds.DefaultPrice, Currency: "EUR"},
					{Amount: 2*holds.DefaultPrice + 1, Currency: "EUR"},
					{Amount: 2 * holds.DefaultPrice, Currency: "JPY"}} {
					id := s.charge(t, h, wrong.Amount, wrong.Currency)
					for range 2 {
						if err := s.Captured(t.Context(), id); err != nil {
							t.Errorf("%v: %v", wrong, err)
						}
					}
				}
				id := s.charge(t, h, 2, "EUR")
				begun := "INSERT INTO oversell_hold_payments (hold_id, idempotency_key, sku, token, amount, " +
					"currency, payment_id, due_at, tries) VALUES (?, 'key', 'hot', ?, 2000, 'EUR', ?, 0, 0)"
				must(t, s.db.Exec(begun, h.ID, h.Token, id).Error)
				s.settleAll(t)
				s.wantMoney(t, money{authorised: 5, captured: 5, refunded: 5})
				s.want(t, 0, 2, 0)
				s.pay(t, h, nil)
				s.want(t, 0, 0, 2)
				if err := s.Captured(t.Context(), s.charge(t, h, 3, "EUR")); err != nil {
					t.Errorf("a wrong amount for a hold that is paid: %v", err)
				}
				s.wantMoney(t, money{authorised: 7, captured: 7, refunded: 6})
			})
		})
	}
}

// The price changes while a buyer is paying. The payment keeps the amount that the shop asked for,
// even if the webhook arrives again after the order.
func TestPriceChangesDuringAPayment(t *testing.T) {
	for _, stage := range catalog.HoldStages() {
		t.Run(stage.Name, func(t *testing.T) {
			each(t, 1, func(t *testing.T, s *shop) {
				h := s.hold(t, stage.Name, "a")
				s.interrupt(t, h, &s.bank.afterCapture)
				paid := s.books(t, 1).Wrong[0].PaymentID
				s.cfg.Price = 2 * holds.DefaultPrice
				dearer := s.another(t)
				for range 2 {
					if err := dearer.Captured(t.Context(), paid); err != nil {
						t.Error(err)
					}
				}
				s.wantUnsettled(t, 0)
				s.want(t, 0, 0, 1)
				s.wantMoney(t, money{authorised: 1, captured: 1})
			})
		})
	}
}

// If the price of a hold overflows an int64, the buyer is not charged.
func TestPriceThatIsTooLarge(t *testing.T) {
	each(t, 4, func(t *testing.T, s *shop) {
		s.cfg.Price = 1<<62 + 1 // four times this price overflows to 4 in an int64
		dear := s.another(t)
		h, err := dear.Hold(t.Context(), h3, holds.Request{SKU: "hot", Buyer: "a", Quantity: 4})
		must(t, err)
		if _, err := dear.Pay(t.Context(), h.ID, h.Token, "key"); !errors.Is(err, payment.ErrInvalid) {
			t.Errorf("got %v, want %v", err, payment.ErrInvalid)
		}
		s.wantMoney(t, money{})
		s.wantUnsettled(t, 0)
	})
}

// The process dies before it refunds a late payment. The buyer has paid for nothing until the
// webhook comes, because no transaction can include a refund at an external provider.
func TestDiesBeforeRefund(t *testing.T) {
	each(t, 1, func(t *testing.T, s *shop) {
		h := s.hold(t, h3, "a")
		s.bank.afterCapture = func() error {
			s.expire(t, h)
			return nil
		}
		s.bank.refunds = payment.ErrUnavailable
		s.pay(t, h, holds.ErrPending)
		paid := s.books(t, 1).Wrong[0].PaymentID
		s.bank.refunds = nil
		if err := s.Captured(t.Context(), paid); err != nil {
			t.Error(err)
		}
		s.books(t, 0)
		s.want(t, 1, 0, 0)
	})
}

// If the reply to a capture is lost, the payment is still captured only once, and the order is written.
func TestLostReplyOfACapture(t *testing.T) {
	each(t, 1, func(t *testing.T, s *shop) {
		h := s.hold(t, h3, "a")
		lost := 0
		s.bank.afterCapture = func() error {
			if lost++; lost == 1 {
				return payment.ErrUnavailable
			}
			return nil
		}
		s.pay(t, h, nil)
		s.wantMoney(t, money{authorised: 1, captured: 1})
		s.want(t, 0, 0, 1)
	})
}

// The first hold of a sale decides its stage, because stages do not know each other's holds.
func TestASaleHasOneStage(t *testing.T) {
	each(t, 3, func(t *testing.T, s *shop) {
		stages := catalog.HoldStages()
		for i, stage := range stages {
			s.put(t, 3)
			s.want(t, 3, 0, 0)
			s.hold(t, stage.Name, "a")
			other := stages[(i+1)%len(stages)].Name
			if _, err := s.Hold(t.Context(),
				other, holds.Request{SKU: "hot", Buyer: "b", Quantity: 1}); !errors.Is(err, holds.ErrOtherStage) {
				t.Errorf("%s after %s: got %v, want %v", other, stage.Name, err, holds.ErrOtherStage)
			}
			s.want(t, 2, 1, 0)
		}
	})
}

// leaving is a stage whose Take first calls leave, as if the buyer disconnected.
type leaving struct {
	holds.Stage
	leave context.CancelFunc
}

func (s leaving) Take(ctx context.Context, r holds.Request) (holds.Hold, error) {
	s.leave()
	return s.Stage.Take(ctx, r)
}

// A buyer who disconnects while a hold is being made does not strand a unit, at any stage.
func TestABuyerWhoLeavesStrandsNothing(t *testing.T) {
	each(t, 1, func(t *testing.T, s *shop) {
		for _, stage := range catalog.HoldStages() {
			s.put(t, 1)
			ctx, leave := context.WithCancel(t.Context())
			s.cfg.Stages[stage.Name] = leaving{s.cfg.Stages[stage.Name], leave}
			if _, err := s.Hold(ctx, stage.Name, holds.Request{SKU: "hot", Buyer: "a", Quantity: 1}); err != nil {
				t.Errorf("%s: %v", stage.Name, err)
			}
			s.want(t, 0, 1, 0)
		}
	})
}

func TestHoldRefuses(t *testing.T) {
	each(t, 3, func(t *testing.T, s *shop) {
		if _, err := s.stock.Put(t.Context(), stock.Item{SKU: "other", Initial: 1}); err != nil {
			t.Fatal(err)
		}
		good := holds.Request{SKU: "hot", Buyer: "a", Quantity: 1}
		for name, try := range map[string]struct {
			change func(a *holds.Request)
			want   error
		}{
			"an unknown item":       {func(a *holds.Request) { a.SKU = "none" }, stock.ErrUnknownItem},
			"an item kept in Redis": {func(a *holds.Request) { a.SKU = "other" }, stock.ErrLocation},
			"an sku with a space":   {func(a *holds.Request) { a.SKU = "a b" }, stock.ErrInvalid},
			"nothing":               {func(a *holds.Request) { a.Quantity = 0 }, stock.ErrInvalid},
			"too much":              {func(a *holds.Request) { a.Quantity = stock.MaxQuantity + 1 }, stock.ErrInvalid},
			"more than there is":    {func(a *holds.Request) { a.Quantity = 4 }, holds.ErrSoldOut},
			"no buyer":              {func(a *holds.Request) { a.Buyer = "" }, stock.ErrInvalid},
			"a long buyer": {func(a *holds.Request) { a.Buyer = strings.Repeat("x", stock.MaxBuyer+1) },
				stock.ErrInvalid},
			"a long key": {func(a *holds.Request) { a.Key = strings.Repeat("x", stock.MaxKey+1) },
				stock.ErrInvalid},
		} {
			a := good
			try.change(&a)
			if _, err := s.Hold(t.Context(), h3, a); !errors.Is(err, try.want) {
				t.Errorf("%s: got %v, want %v", name, err, try.want)
			}
		}
		if _, err := s.Hold(t.Context(), "h9_none", good); !errors.Is(err, holds.ErrUnknownStage) {
			t.Errorf("an unknown stage: got %v, want %v", err, holds.ErrUnknownStage)
		}
		s.want(t, 3, 0, 0)
	})
}

// An item cannot be deleted while a hold of it can be paid, in any stage. The attempt changes
// nothing.
func TestAnItemWithOpenHoldsIsNotDeleted(t *testing.T) {
	each(t, 2, func(t *testing.T, s *shop) {
		for _, stage := range catalog.HoldStages() {
			s.put(t, 2)
			h, other := s.hold(t, stage.Name, "a"), s.hold(t, stage.Name, "b")
			s.delete(t, stock.ErrHoldsOpen)
			s.pay(t, h, nil)
			s.want(t, 0, 1, 1)
			s.delete(t, stock.ErrHoldsOpen)
			s.release(t, other)
			s.delete(t, nil)
		}
	})
}

// A hold for which a buyer is paying blocks the item's deletion, even if it expires meanwhile,
// because the payment must be refunded first.
func TestAnItemStaysWhileAHoldIsBeingPaid(t *testing.T) {
	each(t, 2, func(t *testing.T, s *shop) {
		h := s.hold(t, h3, "a")
		s.bank.afterCapture = func() error {
			if err := s.db.Exec("UPDATE oversell_holds SET expires_at = 1").Error; err != nil {
				return err
			}
			s.delete(t, stock.ErrHoldsOpen)
			return nil
		}
		s.pay(t, h, holds.ErrRefunded)
		s.delete(t, nil)
	})
}

// A new sale ends the open holds of the previous one. A buyer who pays for such a hold is not
// charged, and the hold does not block the item's deletion.
func TestANewSaleEndsOpenHolds(t *testing.T) {
	each(t, 2, func(t *testing.T, s *shop) {
		h, paid := s.hold(t, h3, "a"), s.hold(t, h3, "b")
		s.pay(t, paid, nil)
		s.put(t, 2)
		for range 2 {
			if now, err := s.Get(t.Context(), h.ID); err != nil || now.Status != holds.Expired {
				t.Errorf("the hold is %+v, %v; want it expired", now, err)
			}
			_, err := s.Pay(t.Context(), h.ID, h.Token, "key")
			if !errors.Is(err, holds.ErrNotHeld) || errors.Is(err, holds.ErrRefunded) {
				t.Errorf("paying: got %v, want %v", err, holds.ErrNotHeld)
			}
		}
		if now, err := s.Get(t.Context(), paid.ID); err != nil || now.Status != holds.Paid {
			t.Errorf("the hold that was paid in time is %+v, %v", now, err)
		}
		s.wantMoney(t, money{authorised: 1, captured: 1})
		s.want(t, 2, 0, 0)
		s.delete(t, nil)
	})
}

// A new sale begins while a buyer of the previous sale is paying. The buyer gets the money back.
func TestANewSaleBeginsDuringAPayment(t *testing.T) {
	each(t, 2, func(t *testing.T, s *shop) {
		h := s.hold(t, h3, "a")
		s.bank.afterCapture = func() error { s.put(t, 2); return nil }
		if _, err := s.Pay(t.Context(), h.ID, h.Token, "key"); !errors.Is(err, holds.ErrRefunded) ||
			!errors.Is(err, holds.ErrSaleOver) {
			t.Errorf("got %v, want %v and %v", err, holds.ErrRefunded, holds.ErrSaleOver)
		}
		s.wantMoney(t, money{authorised: 1, captured: 1, refunded: 1})
		s.want(t, 2, 0, 0)
	})
}

// Deleting an item deletes its holds.
func TestDeleteForgetsHolds(t *testing.T) {
	each(t, 1, func(t *testing.T, s *shop) {
		for _, stage := range catalog.HoldStages() {
			_, err := s.stock.Put(t.Context(), stock.Item{SKU: "hot", Initial: 1, Keeper: stock.InHolds})
			must(t, err)
			h := s.hold(t, stage.Name, "a")
			s.release(t, h)
			s.delete(t, nil)
			if _, err := s.Get(t.Context(), h.ID); !errors.Is(err, holds.ErrUnknownHold) {
				t.Errorf("%s: got %v, want %v", stage.Name, err, holds.ErrUnknownHold)
			}
			var rows int64
			for _, table := range []string{"oversell_holds", "oversell_hold_buyers", "oversell_hold_sales"} {
				if err := s.db.Table(table).Count(&rows).Error; err != nil || rows != 0 {
					t.Errorf("%s: %s has %d rows, %v", stage.Name, table, rows, err)
				}
			}
		}
	})
}

// A sale may set how long its holds last. The setting does not carry over to the next sale.
func TestSaleSaysHowLongAHoldLasts(t *testing.T) {
	each(t, 1, func(t *testing.T, s *shop) {
		for _, stage := range catalog.HoldStages() {
			for seconds, want := range map[int64]time.Duration{7: 7 * time.Second, 0: holds.DefaultTTL,
				stock.MaxHoldSeconds: 24 * time.Hour} {
				if _, err := s.stock.Put(t.Context(),
					stock.Item{SKU: "hot", Initial: 1, Keeper: stock.InHolds, HoldSeconds: seconds}); err != nil {
					t.Fatal(err)
				}
				if h := s.hold(t, stage.Name, "a"); h.ExpiresAt.Sub(h.CreatedAt) != want {
					t.Errorf("%s: a hold of %d seconds lasts %v, want %v",
						stage.Name, seconds, h.ExpiresAt.Sub(h.CreatedAt), want)
				}
			}
		}
	})
}

// An item's own limit per buyer replaces the shop's.
func TestSaleSaysHowManyUnitsABuyerMayHold(t *testing.T) {
	each(t, 1, func(t *testing.T, s *shop) {
		for _, stage := range catalog.HoldStages() {
			if _, err := s.stock.Put(t.Context(),
				stock.Item{SKU: "hot", Initial: 5, Keeper: stock.InHolds, Limit: 1}); err != nil {
				t.Fatal(err)
			}
			s.hold(t, stage.Name, "ann")
			ask := holds.Request{SKU: "hot", Buyer: "ann", Quantity: 1}
			if _, err := s.Hold(t.Context(), stage.Name, ask); !errors.Is(err, holds.ErrLimit) {
				t.Errorf("%s: a second unit: got %v, want %v", stage.Name, err, holds.ErrLimit)
			}
			s.hold(t, stage.Name, "bob")
		}
	})
}

// The key of an ended hold cannot be used again: the buyer needs a new key.
func TestTheKeyOfAnEndedHold(t *testing.T) {
	each(t, 3, func(t *testing.T, s *shop) {
		for _, stage := range []string{"h2_status", h3} {
			s.put(t, 3)
			ends := map[holds.Status]func(h holds.Hold) error{
				holds.Released: func(h holds.Hold) error { return s.Release(t.Context(), h.ID, h.Token) },
				holds.Expired: func(h holds.Hold) error {
					return s.db.Exec("UPDATE oversell_holds SET expires_at = 1 WHERE id = ?", h.ID).Error
				},
				holds.Paid: func(h holds.Hold) error {
					_, err := s.Pay(t.Context(), h.ID, h.Token, "")
					return err
				},
			}
			for status, end := range ends {
				ask := holds.Request{SKU: "hot", Buyer: "ann", Quantity: 1, Key: string(status)}
				h, err := s.Hold(t.Context(), stage, ask)
				if err == nil {
					err = end(h)
				}
				must(t, err)
				var ended holds.NotHeldError
				if _, err := s.Hold(t.Context(), stage, ask); !errors.As(err, &ended) || ended.Status != status {
					t.Errorf("%s: the key of a hold that is %s: got %v", stage, status, err)
				}
				ask.Quantity = 2
				if _, err := s.Hold(t.Context(), stage, ask); !errors.Is(err, holds.ErrKeyReused) {
					t.Errorf("%s: the same key for two units: got %v, want %v", stage, err, holds.ErrKeyReused)
				}
			}
		}
	})
}

// The list contains the holds of the current sale, newest first, and their orders. A stage that
// deletes ended holds lists only open holds and orders.
func TestHoldsAreListed(t *testing.T) {
	each(t, 5, func(t *testing.T, s *shop) {
		for _, stage := range catalog.HoldStages() {
			s.put(t, 5)
			s.hold(t, stage.Name, "early") // a hold of a sale that ends with the next put
			s.put(t, 5)
			if l, err := s.List(t.Context(), "hot"); err != nil || l.Stage != "" || len(l.Holds) != 0 ||
				l.SaleID != s.item.SaleID {
				t.Errorf("%s: nobody has a hold, and the list is %+v, %v", stage.Name, l, err)
			}
			paid, released, held := s.hold(t, stage.Name, "a"), s.hold(t, stage.Name, "b"), s.hold(t, stage.Name, "c")
			order := s.pay(t, paid, nil)
			s.release(t, released)
			l, err := s.List(t.Context(), "hot")
			if err != nil || l.Stage != stage.Name || l.SaleID != s.item.SaleID || !l.Now.Before(held.ExpiresAt) ||
				l.Now.Before(held.CreatedAt.Add(-time.Minute)) {
				t.Errorf("%s: the list is %+v, %v", stage.Name, l, err)
			}
			type line struct {
				id     string
				status holds.Status
				order  bool
			}
			want := []line{{held.ID, holds.Held, false}, {released.ID, holds.Released, false},
				{paid.ID, holds.Paid, true}}
			if stage.Name == "h1_counter" {
				want = slices.Delete(want, 1, 2) // the stage has deleted the released hold
			}
			var got []line
			for _, h := range l.Holds {
				got = append(got, line{h.ID, h.Status, h.Order != nil})
				if h.Order != nil && (*h.Order != order || h.Quantity != 1) {
					t.Errorf("%s: the order is %+v, want %+v", stage.Name, *h.Order, order)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: listed %v, want %v", stage.Name, got, want)
			}
			if l.Holds[0].Buyer != "c" || !l.Holds[0].ExpiresAt.Equal(held.ExpiresAt) {
				t.Errorf("%s: the live hold is %+v, want %+v", stage.Name, l.Holds[0], held)
			}
			if b := l.Books; b == nil || b.Captured != 1 || len(b.Wrong) > 0 {
				t.Errorf("%s: the books are %+v; want one payment with its order", stage.Name, b)
			}
		}
	})
}

// A hold is listed as expired as soon as it expires, even before a sweep.
func TestExpiredHoldIsListed(t *testing.T) {
	each(t, 1, func(t *testing.T, s *shop) {
		for _, stage := range []string{"h2_status", h3} {
			s.put(t, 1)
			s.expireNow(t, s.hold(t, stage, "a"))
			if l, err := s.List(t.Context(), "hot"); err != nil || len(l.Holds) != 1 ||
				l.Holds[0].Status != holds.Expired {
				t.Errorf("%s: %+v, %v", stage, l, err)
			}
		}
	})
}

// Between the expiry of a hold and the sweep, its units are for sale in h3_claim, and count as held in
// the other stages. They do not count as stranded, and the hold does not block the item's deletion.
func TestUnitsAreNotStrandedBeforeTheSweep(t *testing.T) {
	each(t, 10, func(t *testing.T, s *shop) {
		for _, stage := range catalog.HoldStages() {
			s.put(t, 10)
			for range 10 {
				s.expireNow(t, s.hold(t, stage.Name, "a"))
			}
			if stage.Name == h3 {
				s.want(t, 10, 0, 0)
			} else {
				s.want(t, 0, 10, 0)
			}
			s.sweep(t, s.cfg.Stages[stage.Name])
			s.want(t, 10, 0, 0)
			s.expireNow(t, s.hold(t, stage.Name, "b"))
			s.delete(t, nil)
		}
	})
}

// A process takes a unit, and dies before it writes the hold. The audit shows the unit as stranded.
func TestLostUnitIsStranded(t *testing.T) {
	each(t, 3, func(t *testing.T, s *shop) {
		s.hold(t, "h1_counter", "a")
		must(t, s.rdb.Decr(t.Context(), "oversell:h1:hot:"+s.item.SaleID+":left").Err())
		a, err := s.stock.Audit(t.Context(), "hot")
		if err != nil || a.Stranded != 1 || a.Held != 1 || a.Remaining != 1 {
			t.Errorf("the audit finds %+v, %v; want one unit stranded", a, err)
		}
	})
}

// At most MaxListed holds are listed: the newest ones.
func TestListIsBounded(t *testing.T) {
	each(t, 1, func(t *testing.T, s *shop) {
		for _, stage := range catalog.HoldNames() {
			s.put(t, holds.MaxListed+20)
			var last holds.Hold
			for range holds.MaxListed + 10 {
				last = s.hold(t, stage, "a")
			}
			l, err := s.List(t.Context(), "hot")
			if err != nil || len(l.Holds) != holds.MaxListed || l.Holds[0].ID != last.ID {
				t.Errorf("%s: %d holds are listed, %v", stage, len(l.Holds), err)
			}
		}
	})
}
