package stock_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/go-sql-driver/mysql"
	"gorm.io/gorm"

	"oversell/internal/backend/backendtest"
)

// errBroken is the error of a database that refuses a statement.
var errBroken = &mysql.MySQLError{Number: 1, Message: "broken"}

func TestUnitsGoBackWhenTheOrderCannotBeWritten(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.instance(t, nil)
		s.eachVariant(t, variant.oneLock, func(t *testing.T, v variant) {
			s.put(t, service, 10)
			repair := s.beforeOrders(func(tx *gorm.DB) { _ = tx.AddError(errBroken) })
			_, err := service.Deduct(t.Context(), s.request(v.strategy, ""))
			repair()
			if !errors.Is(err, errBroken) {
				t.Errorf("got %v, want %v", err, errBroken)
			}
			wantStock(t, s.audit(t, service), 10, 10, 0, 0)
			if sold, _, _ := rush(t, s, 12, v.strategy, service); v.holds() && sold != 10 {
				t.Errorf("%d sold after the database was repaired, want 10", sold)
			}
		})
	})
}

func TestOrderWhoseConfirmationWasLostCounts(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.sale(t, 10)
		s.afterOrders(func(tx *gorm.DB) { _ = tx.AddError(errBroken) })
		res, err := service.Deduct(t.Context(), s.request("v4_lua", ""))
		if err != nil || res.Order.ID == "" || res.Left != 9 {
			t.Errorf("order %q, %d left, %v; want the order, 9 left", res.Order.ID, res.Left, err)
		}
		wantStock(t, s.audit(t, service), 10, 9, 1, 1)
	})
}

// If the connection breaks in the middle of a statement, the server may still execute it. The units
// are for sale again only when it can no longer do so.
func TestUnitsComeBackOnceTheOrderCannotBeWritten(t *testing.T) {
	for _, cut := range []error{context.DeadlineExceeded, mysql.ErrInvalidConn, io.ErrUnexpectedEOF} {
		t.Run(cut.Error(), func(t *testing.T) {
			rdb := backendtest.DialRedis(t, backendtest.Redis(t, "embedded"))
			s := newSite(t, rdb, backendtest.DialDatabase(t, backendtest.Database(t, "local")))
			service := s.sale(t, 10)
			s.beforeOrders(func(tx *gorm.DB) { _ = tx.AddError(cut) })
			if _, err := service.Deduct(t.Context(), s.request("v4_lua", "")); err == nil {
				t.Error("sold without an order")
			}
			wantStock(t, s.audit(t, service), 10, 10, 0, 0)
		})
	}
}

// While the database is down, buyers take no units from the stock.
func TestDatabaseThatIsAwayTakesNoStock(t *testing.T) {
	server := backendtest.RestartableDatabase(t)
	rdb := backendtest.DialRedis(t, backendtest.Redis(t, "embedded"))
	s := newSite(t, rdb, backendtest.DialDatabase(t, server.URL))
	service := s.sale(t, 100)
	rush(t, s, 20, "v6_watchdog", service)
	server.Kill()
	for range 50 {
		if _, err := service.Deduct(t.Context(), s.request("v6_watchdog", "")); err == nil {
			t.Fatal("sold without a database")
		}
	}
	must(t, server.Restart(t.Context()))
	wantStock(t, s.audit(t, service), 100, 80, 20, 20)
	if sold, _, _ := rush(t, s, 10, "v6_watchdog", service); sold != 10 {
		t.Errorf("%d of 10 sold once the database is back", sold)
	}
}
